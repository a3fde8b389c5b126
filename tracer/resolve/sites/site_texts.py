"""The lines of `tracer list -v` about places in a file: the function and the distance from its start, the source line,
where arguments are. The file is read when the first is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from tracer.errors import TracerError, printable
from tracer.kinds.site import ArgSpec
from tracer.opening import content
from tracer.resolve.binary import Binary
from tracer.resolve.usdt.words import words

if TYPE_CHECKING:
    from tracer.resolve.variables.words import VariableTexts

_MOST_SOURCE = 16 << 20
"""Bytes of a source file that are read."""


class SiteTexts:
    """The texts of places in one file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def function(self, address: int) -> str | None:
        """`main+0x24`; None where no function is known there."""
        symbol = self._binary.symbols.function_at(address)
        if symbol is None:
            return None
        after = address - symbol.address
        return self._binary.readable(symbol.name) + (f"+{after:#x}" if after else "")

    def called(self, name: str, address: int) -> str | None:
        """The function of that name where it begins there, as people write it; else as `function` has it."""
        if any(symbol.address == address for symbol in self._binary.symbols.named(name)):
            return self._binary.readable(name)
        return self.function(address)

    def line(self, address: int, line: int = 0) -> str | None:
        """`src/shop.c:36`, of several lines that begin there `line` if it is one; None where debug information does not
        tell.
        """
        try:
            place = self._binary.lines.place_at(address, line) if self._binary.lines is not None else None
        except TracerError:
            return None  # that the table is damaged is an error of a probe at a line
        return None if place is None else printable(f"{place[0]}:{place[1]}")

    def argument(self, arg: ArgSpec) -> str:
        """`signed 4 bytes in edi`."""
        return words(arg, self._binary.arch)

    def offset(self, address: int) -> int | None:
        """The file offset of an address."""
        return self._binary.elf.offset_of(address)

    @property
    def file(self) -> tuple[int, int]:
        """Device and inode."""
        return self._binary.identity.device, self._binary.identity.inode

    @cached_property
    def _binary(self) -> Binary:
        return Binary(self._path)

    def copies(self, name: str) -> Iterator[str]:
        """A line for each inlined copy of a function, by its name in the symbol table."""
        if not self._binary.symbols.named(name):
            return  # a place in one
        from tracer.resolve.functions.inlined_copies import copies_of

        with suppress(TracerError):  # damaged debug information tells of none
            for copy in copies_of(self._binary, {name}.intersection):
                where = f"at {copy.address:#x} in {copy.where}"
                yield f"inlined {where}" if copy.address else f"inlined in {copy.where}, and not probed: {copy.reason}"

    def variables(self, kind: str, probe: str, address: int) -> Iterator[str]:
        """A line for each variable in scope there: `total: int in eax`."""
        return self._variables.lines(kind, probe, address)

    def line_in(self, kind: str, probe: str, address: int) -> int:
        """The line of source text that a probe names, else 0."""
        return self._variables.line(kind, probe, address)

    def source(self, line: int, address: int) -> Iterator[str]:
        """A line of source text and its neighbours, where its file is there."""
        path, _, line_text = (self.line(address, line) or "").rpartition(":")
        if line_text != str(line):
            return
        try:
            text = content(path, _MOST_SOURCE).decode("utf-8", "replace").split("\n")
        except OSError:
            return
        for number in range(max(line - 2, 1), min(line + 2, len(text)) + 1):
            yield f"{'>' if number == line else ' '} {number:>5}  {printable(text[number - 1].expandtabs(4))}".rstrip()

    @cached_property
    def _variables(self) -> VariableTexts:
        from tracer.resolve.variables.words import VariableTexts

        return VariableTexts(self._path, self._binary.identity, self._binary.arch)

    def close(self) -> None:
        """Closes the file."""
        if "_variables" in self.__dict__:
            self._variables.close()
        if "_binary" in self.__dict__:
            self._binary.elf.close()
