"""Addresses of the kernel → names: /proc/kallsyms (proc(5)), and what the kernel's own tools make of it."""

from __future__ import annotations

import re
from bisect import bisect_right

_PATH = "/proc/kallsyms"
_CODE = b"tTwW"
"""The sorts of symbols that are functions, as nm(1) has them; W and w are weak ones."""

WITH_NAMES = "it takes root, and kernel.kptr_restrict below 2"
"""Where the kernel hides no addresses."""

_LONGEST = 1 << 20
"""Bytes that no function has: what is further behind its start is no part of it."""

_MARK = re.compile(rb"^__(?:pi|start|stop)_|_(?:start|end)$")
_END = b"_etext"
"""The end of the kernel's code: data follows, up to the modules."""


class KernelSymbols:
    """The functions of the running kernel, its modules and its BPF programs, as of the first question.

    `hidden`: the kernel keeps addresses to itself (kernel.kptr_restrict, no CAP_SYSLOG), so nothing is named.
    """

    def __init__(self, path: str = _PATH) -> None:
        self._path = path
        self._starts: list[int] = []
        self._names: list[bytes] = []
        self.hidden = False
        self._read = False

    def symbol(self, address: int) -> str:
        """The function that holds an address, without an offset; the address itself where none does."""
        place = self._place(address)
        return f"{address:#x}" if place is None else _shown(self._names[place])

    def frame(self, address: int, returned: bool = False) -> str:
        """The function and the distance from its start in decimal. With `returned` the address is one that a call
        returns to: it may lie behind the end of a function that ends with a call.
        """
        place = self._place(address - returned)
        if place is None:
            return f"{address:#x}"
        return f"{_shown(self._names[place])}+{address - self._starts[place]}"

    def module(self, address: int) -> str | None:
        """`[kernel]`, or `[NAME]` of the module that the function there belongs to; None where it is not known."""
        place = self._place(address)
        if place is None:
            return None
        _, _, module = self._names[place].partition(b"\t")
        return module.decode("ascii", "backslashreplace") or "[kernel]"

    def address_of(self, name: str) -> int | None:
        """The address of the first symbol of that name, data too; None where there is none or addresses are hidden."""
        wanted = name.encode("utf-8", "surrogateescape")
        self.hidden = True
        for line in self._lines():
            address, _, rest = line.split(b" ", 2)
            self.hidden &= not address.strip(b"0")
            if rest.partition(b"\t")[0] == wanted:
                return int(address, 16) or None
        return None

    def _place(self, address: int) -> int | None:
        if not self._read:
            self._read = True
            self._take()
        place = bisect_right(self._starts, address) - 1
        if place < 0 or self._names[place] == _END or address - self._starts[place] > _LONGEST:
            return None
        return place

    def _lines(self) -> list[bytes]:
        try:
            with open(self._path, "rb") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def _take(self) -> None:
        functions: dict[int, bytes] = {}
        for line in self._lines():
            address, sort, name = line.split(b" ", 2)
            place = int(address, 16)
            # Of several names for one place the last that is no mark of the linker.
            if sort in _CODE and (place not in functions or not _MARK.search(name)):
                functions[place] = name
        self.hidden = functions.keys() <= {0}
        if self.hidden:
            return
        self._starts = sorted(functions)
        self._names = [functions[start] for start in self._starts]


def _shown(name: bytes) -> str:
    """The name alone: the module stands behind a tab."""
    return name.partition(b"\t")[0].decode("utf-8", "backslashreplace")
