"""Line programs: which addresses a compiler says the lines of a source file begin at, and which line is at an address.

`.debug_line` is one line program per compile unit: a header with the table of its source files, and a byte code that
yields the rows (address, file, line, column, is_stmt, …). A unit is decoded only where its header can name the file at
all, told by the bytes of the name: in the header itself, or by the name's offset in `.debug_line_str`. Of libc's 2,063
units that leaves one for malloc.c and the 372 that include stdlib.h.

Before DWARF 5 the directory that relative names start from is not in `.debug_line` but an attribute of the compile
unit (DW_AT_comp_dir), which costs reading `.debug_info` as well.

What is at an address is told by the units in which a sequence of rows begins before it.

Sources: DWARF 5, 6.2 (line number information; DW_LNE_set_address begins a sequence) and 7.5.1 (unit headers).
"""

from __future__ import annotations

import os
import posixpath
import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property

from tracer.errors import TracerError
from tracer.resolve.dwarf.lines.headers import MAX_PATH, Unit, read_header, units
from tracer.resolve.dwarf.lines.line_table import LineTable, Sequence, decode, paths_of
from tracer.resolve.dwarf.sections import content
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.debug_entries import NONSENSE, entries_of
from tracer.resolve.elf.file import Elf

_BEGINNING = {
    8: re.compile(rb"\0\x09\x02(.{8})", re.DOTALL), 4: re.compile(rb"\0\x05\x02(.{4})", re.DOTALL)
}  # fmt: skip
"""The setting of an address, by the bytes of one."""
_TRIED = 8
"""Beginnings before an address that are looked at: bytes may look like one."""
_MANY_REFERENCES = 256
_TOP_DIE = 1 << 14
"""More than the attributes of a compile unit take before DW_AT_stmt_list: two paths and the compiler's options."""

class LinePrograms:
    """The line programs of one file, decoded when a source file is asked for."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._by_pattern: dict[str, tuple[Sequence, ...]] = {}
        self._tables: dict[int, LineTable] = {}

    @property
    def present(self) -> bool:
        """Whether the file has any."""
        section = self._elf.section(".debug_line")
        return section is not None and section.size > 0 and bool(self._elf.content(section))

    def of_file(self, pattern: str) -> tuple[Sequence, ...]:
        """Every sequence that has rows of a source file whose path ends in `pattern`, on whole components.

        Raises `TracerError` where the line table is damaged.
        """
        pattern = posixpath.normpath(pattern)
        if pattern not in self._by_pattern:
            try:
                self._by_pattern[pattern] = tuple(self._sequences(pattern))
            except NONSENSE as error:
                raise self._elf.error(f"its line table cannot be read: {error}") from None
        return self._by_pattern[pattern]

    def source_names(self) -> set[str]:
        """The names of source files without their directories, roughly, to compare a misspelt one with."""
        named = rb"[\w.+\-]+\.(?:cc?|cpp|cxx|hh?|hpp|rs|go|S|s|zig|d|f90|pas|adb|swift)(?=\0)"
        try:
            return {os.fsdecode(name) for text in (self._names, self._lines) for name in re.findall(named, text)}
        except TracerError:
            return set()

    def line_at(self, address: int) -> str | None:
        """The line of an address, as `src/shop.c:36`; None where none is known. Raises `TracerError` where the line
        table is damaged.
        """
        place = self.place_at(address)
        return None if place is None else f"{place[0]}:{place[1]}"

    def place_at(self, address: int, line: int = 0) -> tuple[str, int] | None:
        """The source file and the line of an address; of several that begin there, `line` if it is one. None where none
        is known. Raises `TracerError` where the line table is damaged.
        """
        try:
            for unit in self._units_before(address):
                if unit.start not in self._tables:
                    self._tables[unit.start] = LineTable(self._lines, unit, self._names)
                row = self._tables[unit.start].row_at(address, line)
                if row is not None:
                    return (row.path, row.line) if row.path is not None and row.line else None
        except NONSENSE as error:
            raise self._elf.error(f"its line table cannot be read: {error}") from None
        return None

    @cached_property
    def _lines(self) -> bytes:
        return content(self._elf, ".debug_line")

    @cached_property
    def _names(self) -> bytes:
        return content(self._elf, ".debug_line_str")

    @cached_property
    def _beginnings(self) -> tuple[list[int], list[Unit]]:
        beginnings = [
            (int.from_bytes(mark[1], "little"), unit)
            for unit in units(self._lines)
            for mark in _BEGINNING[self._elf.word].finditer(self._lines, unit.code, unit.end)
        ]
        beginnings.sort(key=lambda beginning: beginning[0])
        return [address for address, _ in beginnings], [unit for _, unit in beginnings]

    def _units_before(self, address: int) -> Iterable[Unit]:
        """The units that may hold an address, the likeliest first."""
        addresses, holders = self._beginnings
        last = bisect_right(addresses, address)
        return dict.fromkeys(holders[max(last - _TRIED, 0) : last][::-1])

    def _candidates(self, name: bytes) -> list[Unit]:
        """The units whose header may name a file that ends in `name`."""
        inline = name + b"\0"
        references = [struct.pack("<I", start) for start in _starts(self._names, inline)]
        many = len(references) > _MANY_REFERENCES  # then reading the units' tables takes less than searching for them
        result = []
        for unit in units(self._lines):
            header = self._lines[unit.start : unit.code]
            if inline in header or (unit.version >= 5 and (many or any(offset in header for offset in references))):
                result.append(unit)
        return result

    def _sequences(self, pattern: str) -> Iterator[Sequence]:
        candidates = self._candidates(os.fsencode(posixpath.basename(pattern)))
        homes = self._directories_before_5({unit.start for unit in candidates if unit.version < 5})
        for unit in candidates:
            header = read_header(self._lines, unit, self._names)
            paths = paths_of(header, homes.get(unit.start, b""))
            wanted = {number: path for number, path in paths if ends_in(path, pattern)}
            if wanted:
                yield from decode(self._lines[unit.code : unit.end], header, wanted)

    def _directories_before_5(self, wanted: set[int]) -> dict[int, bytes]:
        """The directories in which the compiler ran (DW_AT_comp_dir), by the offset of the unit's line program."""
        if not wanted or (entries := entries_of(self._elf, keep=True)) is None:
            return {}
        marks = [struct.pack("<I", offset) for offset in wanted]
        directories: dict[int, bytes] = {}
        for unit in entries.units:
            # Reading a unit's abbreviations is what takes time: only where the offset can stand in its first entry.
            beginning = unit.data[unit.first : min(unit.end, unit.first + _TOP_DIE)]
            if any(mark in beginning for mark in marks):
                program = unit.top.number(dw.STMT_LIST)
                if program is not None:
                    directories[program] = os.fsencode(unit.top.text(dw.COMP_DIR))
            if len(directories) >= len(wanted):
                break
        return directories


def _starts(strings: bytes, inline: bytes) -> set[int]:
    """Every offset of a string table from which a string ends in `inline`: linkers let strings share their ends."""
    result: set[int] = set()
    offset = strings.find(inline)
    while offset >= 0:
        first = max(offset - MAX_PATH, 0)
        result.update(range(max(strings.rfind(b"\0", first, offset) + 1, first), offset + 1))
        offset = strings.find(inline, offset + 1)
    return result


def ends_in(path: str, pattern: str) -> bool:
    """Whether a path ends in a part, on whole components."""
    return path == pattern or path.endswith(f"/{pattern}")
