"""How renderers learn names of addresses."""

from __future__ import annotations

from typing import Protocol


class Symbolizer(Protocol):
    """Names addresses of processes, as far as it can; an address that it cannot name is shown as `0x…`."""

    def symbol(self, pid: int, address: int) -> str:
        """The name of the symbol that holds the address, without an offset (`usym`)."""

    def frame(self, pid: int, address: int) -> str:
        """The same with the offset, `name+12` in decimal (one line of `ustack`)."""


class NoSymbols:
    """Shows every address as a number."""

    def symbol(self, pid: int, address: int) -> str:
        """`0x…`."""
        return f"{address:#x}"

    def frame(self, pid: int, address: int) -> str:
        """`0x…`."""
        return f"{address:#x}"
