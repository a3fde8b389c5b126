"""The first bytes at sites of a file: what is compared with what was found before, and what the kernel judges by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

BYTES = 16
"""The bytes of each site: the longest instruction is 15 bytes, a nop and the five-byte nop behind it are 6."""

_FEW = 1024
_WINDOW = 1 << 20
"""Up to so many sites each is read by itself; of more, one read serves all that lie in so many bytes."""


def code_at(read: Callable[[int, int], bytes], offsets: Sequence[int]) -> list[bytes]:
    """The first bytes at each offset, in order of these. `read` gives, for offset and size, what the file holds."""
    if len(offsets) <= _FEW:
        return [read(offset, BYTES) for offset in sorted(offsets)]
    codes = []
    begin, last, window = 0, -1, b""
    for offset in sorted(offsets):
        if not begin <= offset <= last:
            window = read(offset, _WINDOW)
            begin, last = offset, offset + len(window) - BYTES
        codes.append(window[offset - begin : offset - begin + BYTES])
    return codes
