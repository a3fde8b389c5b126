"""Strings that are always there at a hit, and of known length: code of the traced file that has no NUL for a while."""

from __future__ import annotations

from functools import lru_cache

from tracer.errors import TracerError
from tracer.kernel.uprobe_events.events import Fetch
from tracer.kinds.site import FileSite
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import PF_X

_MOST = 64
"""Of a hit: a program of a few functions has runs of 30 bytes or so."""
_SEARCHED = 4 << 20
"""Bytes of a segment. In Postgres, 1,025 bytes are found in 10 ms, in libc in 1."""
_SHORTEST = 16


def padding_of(site: FileSite, wanted: int) -> tuple[Fetch, ...]:
    """Fetch arguments that are so many bytes together with their NULs; none where there are not."""
    run = _unbroken(site.path, site.offset, wanted)
    if run is None or (many := -(-wanted // (run[1] + 1))) > _MOST:
        return ()
    return (Fetch(f"@+{run[0]}", "string"),) * many


@lru_cache(maxsize=16)
def _unbroken(path: str, offset: int, wanted: int) -> tuple[int, int] | None:
    """The place in the file at which such bytes begin, and their number up to the next NUL: `wanted`, or fewer where
    there are none. They are of the executable segment that holds a file `offset`, as what lies between segments in the
    file may be more in memory. Of another file's bytes the kernel would read less, which `long_strings` sees.
    """
    try:
        with Elf(path) as elf:
            for segment in elf.loads:
                if segment.flags & PF_X and segment.offset <= offset < segment.offset + segment.file_size:
                    run = unbroken(elf.some(segment.offset, min(segment.file_size, _SEARCHED)), wanted)
                    return None if run is None else (segment.offset + run[0], run[1])
    except TracerError:
        pass
    return None


def unbroken(code: bytes, wanted: int) -> tuple[int, int] | None:
    """The place in some bytes at which such bytes begin, and their number."""
    shortest = min(_SHORTEST, wanted)
    while wanted >= shortest:
        start = 0
        # From the end: most steps pass over nearly all that is wanted.
        while start + wanted < len(code):
            nul = code.rfind(b"\0", start, start + wanted)
            if nul < 0:
                end = code.find(b"\0", start + wanted)
                if end >= 0:
                    return end - wanted, wanted
                break
            start = nul + 1
        wanted = wanted * 3 // 4
    return None
