"""The functions that were inlined at an address, and the source lines of all.

A unit's functions and line program are read once, when one of its addresses is asked for.
Sources: DWARF 5, 3.3.8 (inlined subroutines), 6.1.2 (addresses by unit), 6.2 (line number information).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from tracer.dataclass import NamedTuple
from tracer.resolve.dwarf.functions import linked_name, listed
from tracer.resolve.dwarf.lines.headers import units
from tracer.resolve.dwarf.lines.line_table import LineTable
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import code_of, covers
from tracer.resolve.dwarf.units.unit import Entry, Unit

_MOST_UNITS = 64
"""The number of units whose functions and lines are kept."""
_TRIED = 9
"""The number of ranges that begin before an address and are looked at: some lie inside of others."""


class Source(NamedTuple):
    """A function and a place in a file. The name is the linker's, else the source's. "" and 0 stand for what nothing
    tells.
    """

    name: str
    path: str
    line: int


class InlineFrames:
    """The inline frames of one file."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._frames: dict[int, _UnitFrames] = {}

    def sources_at(self, address: int) -> tuple[Source, ...]:
        """The functions at an address, innermost first; the last is the one that was compiled. Empty where nothing
        tells. Raises what readers raise on damaged debug information.
        """
        for unit in self._units(address):
            frames = self._frames.get(unit.offset)
            if frames is None:
                while len(self._frames) >= _MOST_UNITS:
                    del self._frames[next(iter(self._frames))]
                frames = self._frames[unit.offset] = _UnitFrames(self._entries, unit)
            sources = frames.sources_at(address)
            if sources:
                return sources
        return ()

    @cached_property
    def _by_start(self) -> list[tuple[int, int, Unit]]:
        """The ranges of all units, in order."""
        ranges = list(listed(self._entries))
        offsets = {unit.offset for _, _, unit in ranges}
        for unit in self._entries.units:
            if unit.offset not in offsets and not unit.type_at:
                ranges += [(start, end, unit) for start, end in code_of(unit.top)]
        return sorted(ranges, key=lambda span: span[:2])

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _, _ in self._by_start]

    def _units(self, address: int) -> Iterator[Unit]:
        index = bisect_right(self._starts, address)
        nearest = reversed(self._by_start[max(index - _TRIED, 0) : index])
        return (unit for _, end, unit in nearest if address < end)


class _UnitFrames:
    """The functions and lines of one unit. `unit` is the part of it in the traced file."""

    def __init__(self, entries: Entries, unit: Unit) -> None:
        self._entries, self._unit = entries, unit
        self._inlined: dict[int, list[tuple[int, Entry]]] = {}

    def sources_at(self, address: int) -> tuple[Source, ...]:
        index = bisect_right(self._starts, address)
        nearest = reversed(self._functions[max(index - _TRIED, 0) : index])
        function = next((function for _, end, function in nearest if address < end), None)
        if function is None:
            return ()
        path, line = self._line(address)
        sources = []
        for entry in reversed(self._around(function, address)):
            sources.append(Source(linked_name(entry), path, line))
            file = entry.number(dw.CALL_FILE)
            path, line = self._path(file) if file is not None else "", entry.number(dw.CALL_LINE) or 0
        return (*sources, Source(linked_name(function), path, line))

    def _around(self, function: Entry, address: int) -> list[Entry]:
        """The inlined functions that hold an address, outermost first."""
        inlined = self._inlined.get(function.id)
        if inlined is None:
            inlined = self._inlined[function.id] = [
                (depth, function.unit.entry(offset))
                for offset, depth, abbreviation in function.unit.walk(start=function.offset)
                if abbreviation.tag == dw.INLINED
            ]
        return [entry for _, entry in inlined if covers(entry, address)]

    @cached_property
    def _functions(self) -> list[tuple[int, int, Entry]]:
        functions = []
        for unit in self._entries.whole(self._unit):
            for offset, _, abbreviation in unit.walk():
                if abbreviation.tag == dw.SUBPROGRAM:
                    entry = unit.entry(offset)
                    functions += [(start, end, entry) for start, end in code_of(entry)]
        return sorted(functions, key=lambda span: span[:2])

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _, _ in self._functions]

    @cached_property
    def _lines(self) -> LineTable | None:
        return line_table(self._entries, self._unit)

    def _path(self, number: int) -> str:
        return "" if self._lines is None else self._lines.paths.get(number, "")

    def _line(self, address: int) -> tuple[str, int]:
        row = None if self._lines is None else self._lines.row_at(address)
        return ("", 0) if row is None else (row.path or "", row.line)


def line_table(entries: Entries, unit: Unit) -> LineTable | None:
    """The lines of a unit of the traced file; None where it has none."""
    offset = unit.top.number(dw.STMT_LIST)
    if offset is None:
        return None
    data, names = entries.section(".debug_line"), entries.section(".debug_line_str")
    program = next((candidate for candidate in units(data, offset) if candidate.start == offset), None)
    if program is None:
        return None
    home = "" if program.version >= 5 else unit.top.text(dw.COMP_DIR)  # there it is directory 0
    return LineTable(data, program, names, os.fsencode(home))
