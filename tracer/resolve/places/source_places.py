"""Addresses → source lines: of a file's line programs those that hold the addresses, told by where sequences begin.

Source: DWARF 5, 6.2.5.3 (DW_LNE_set_address begins a sequence).
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property

from tracer.errors import TracerError
from tracer.resolve.dwarf.line_headers import Unit, read_header, units
from tracer.resolve.dwarf.line_programs import Sequence, decode, paths_of
from tracer.resolve.dwarf.sections import content
from tracer.resolve.elf.file import Elf

_BEGINNING = re.compile(rb"\0\x09\x02(.{8})", re.DOTALL)
_TRIED = 8
"""Beginnings before an address that are looked at: bytes may look like one, and of code that the linker dropped the
sequences stay.
"""


class SourcePlaces:
    """Of one file, or its debug file."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._decoded: dict[int, tuple[Sequence, ...]] = {}

    def at(self, address: int) -> str | None:
        """`src/shop.c:36`; None where no line is known of it. Raises `TracerError` where the line table is damaged."""
        try:
            for unit in self._units_before(address):
                for sequence in self._sequences(unit):
                    if sequence[0].address <= address < sequence[-1].address:
                        row = sequence[bisect_right(sequence, address, key=lambda each: each.address) - 1]
                        return f"{row.path}:{row.line}" if row.path is not None and row.line else None
        except (ArithmeticError, LookupError, ValueError, struct.error) as error:
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
        found = sorted(
            (int.from_bytes(mark[1], "little"), number)
            for number, unit in enumerate(self._units)
            for mark in _BEGINNING.finditer(self._lines, unit.code, unit.end)
        )
        return [address for address, _ in found], [self._units[number] for _, number in found]

    @cached_property
    def _units(self) -> list[Unit]:
        return list(units(self._lines))

    def _units_before(self, address: int) -> Iterable[Unit]:
        """The units that may hold an address, the likeliest first."""
        addresses, each = self._beginnings
        last = bisect_right(addresses, address)
        return dict.fromkeys(each[max(last - _TRIED, 0) : last][::-1])

    def _sequences(self, unit: Unit) -> tuple[Sequence, ...]:
        if unit.start not in self._decoded:
            header = read_header(self._lines, unit, self._names)
            wanted = dict(paths_of(header, b""))
            self._decoded[unit.start] = tuple(decode(self._lines[unit.code : unit.end], header, wanted))
        return self._decoded[unit.start]


def source_places(elf: Elf, debug: Elf | None) -> SourcePlaces | None:
    """Of a file whose debug information lies in it, or in another; None where there is none."""
    for each in (elf, debug):
        try:
            if each is not None and (section := each.section(".debug_line")) is not None and section.type != 8:
                return SourcePlaces(each)
        except TracerError:
            continue
    return None
