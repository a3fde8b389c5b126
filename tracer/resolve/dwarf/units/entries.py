"""The debug information of one file: its units, and what they refer to in other sections and files.

Sources: DWARF 5, 7.5 (format of debugging information), 7.26 to 7.28 (indexed strings and addresses), 7.3.2 (split
units); GNU's extensions for dwz: GNU_ref_alt and GNU_strp_alt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, partial

from tracer.errors import TracerError
from tracer.resolve.dwarf.sections import content
from tracer.resolve.dwarf.units import constants as dw, forms
from tracer.resolve.dwarf.units.forms import Abbreviations
from tracer.resolve.dwarf.units.split import SplitUnits
from tracer.resolve.dwarf.units.unit import OTHER_AT, SPLIT_AT, TYPES_AT, Entry, Unit
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import SHT_SYMTAB
from tracer.resolve.elf.symbol_table import Table, read_table

_HEADER_V5 = {dw.STR_OFFSETS_BASE: 8, dw.RNGLISTS_BASE: 12, dw.LOCLISTS_BASE: 12}
"""The offsets at which the tables of a split unit begin, behind their headers; the unit does not state them."""


class Entries:
    """The debug information of one file, a `File`. `other` is dwz's, which holds what several files have in common. Of
    a unit that was split off, `skeleton` is what is left of it in the traced file, and `section` gives its sections.
    """

    def __init__(
        self, elf: Elf, other: Entries | None = None, base: int = 0, skeleton: Unit | None = None,
        section: Callable[[str], bytes] | None = None,
    ) -> None:  # fmt: skip
        self.elf = elf
        self.other = other
        self.skeleton = skeleton
        self._base = base
        self._read = section or partial(content, elf)
        self._tables: dict[tuple[int, int, int, int], Abbreviations] = {}
        self._contents: dict[str, bytes] = {}

    def section(self, name: str) -> bytes:
        """A section's bytes, of a split unit those that belong to it."""
        if name not in self._contents:
            self._contents[name] = self._read(name)
        return self._contents[name]

    @cached_property
    def symbols(self) -> Table | None:
        """The contents of .symtab."""
        return read_table(self.elf, SHT_SYMTAB)

    @cached_property
    def info(self) -> bytes:
        """The bytes of .debug_info."""
        return self.section(".debug_info")

    @cached_property
    def types(self) -> bytes:
        """The bytes of .debug_types."""
        return self.section(".debug_types")

    @cached_property
    def strings(self) -> bytes:
        """The bytes of .debug_str."""
        return self.section(".debug_str")

    @cached_property
    def offsets(self) -> bytes:
        """The bytes of .debug_str_offsets."""
        return self.section(".debug_str_offsets")

    @cached_property
    def addresses(self) -> bytes:
        """The bytes of .debug_addr, which is never split off."""
        return self.section(".debug_addr") if self.skeleton is None else self.skeleton.file.addresses

    @property
    def parts(self) -> tuple[tuple[bytes, int], ...]:
        """The sections that hold entries, and the number of the first byte of each."""
        return (self.info, self._base), (self.types, self._base + TYPES_AT)

    @cached_property
    def units(self) -> list[Unit]:
        units = []
        for data, base in self.parts:
            offset = 0
            while offset + 11 <= len(data):
                unit = Unit(self, data, offset, base)
                if unit.end <= offset:
                    raise ValueError("a unit of no size")
                if 2 <= unit.version <= 5 and unit.address_size in (4, 8):
                    units.append(unit)
                offset = unit.end
        return units

    @cached_property
    def _starts(self) -> list[int]:
        return [unit.base + unit.offset for unit in self.units]

    def unit_of(self, number: int) -> Unit:
        """The unit that holds the entry of a number."""
        return self.units[bisect_right(self._starts, number) - 1]

    def entry(self, number: int) -> Entry:
        if number >> SPLIT_AT != self._base >> SPLIT_AT:
            return self.split.numbered(number >> SPLIT_AT).entry(number)
        if number & OTHER_AT and not self._base & OTHER_AT:
            if self.other is None:
                raise TracerError("the file that dwz moved debug information to is not there")
            return self.other.entry(number)
        unit = self.unit_of(number)
        return unit.entry(number - unit.base)

    @cached_property
    def split(self) -> SplitUnits[Entries]:
        """The units that were split off to other files."""
        return SplitUnits(self, lambda elf, base, skeleton, section: Entries(elf, None, base, skeleton, section))

    def whole(self, unit: Unit) -> Iterator[Unit]:
        """A unit, or what was split off from it."""
        split = self.split.of(unit)
        if split is None:
            yield unit
        else:
            yield from (part for part in split.units if not part.type_at)

    @cached_property
    def _signatures(self) -> dict[int, Unit]:
        return {unit.signature: unit for unit in self.units if unit.type_at}

    def signed(self, signature: int) -> Entry | None:
        unit = self._signatures.get(signature)
        if unit is not None:
            return unit.entry(unit.type_at)
        if self.skeleton is None:
            return None
        assert isinstance(self.skeleton.file, Entries)
        return self.skeleton.file.split.signed(self.skeleton, signature)

    def string(self, unit: Unit, form: int, value: int) -> bytes:
        if form in forms.STRX:
            offset = unit.base_of(dw.STR_OFFSETS_BASE) + value * unit.offset_size
            value = int.from_bytes(self.offsets[offset : offset + unit.offset_size], "little")
        elif form in forms.STRP_ALT:
            if self.other is None:
                return b""
            return self.other.string(unit, forms.STRP, value)
        table = self.section(".debug_line_str") if form == forms.LINE_STRP else self.strings
        return table[value : table.index(b"\0", value)]

    def bases(self, unit: Unit) -> dict[int, int]:
        """The places in other sections at which what belongs to a unit begins, as far as the unit itself does not say
        it.
        """
        skeleton = self.skeleton
        if skeleton is None:
            return {}
        bases = {name: skeleton.base_of(name) for name in (dw.ADDR_BASE, dw.GNU_ADDR_BASE, dw.GNU_RANGES_BASE)}
        return {**bases, **_HEADER_V5} if unit.version >= 5 else bases

    def abbreviations(self, unit: Unit) -> Abbreviations:
        """A unit's abbreviations by their codes."""
        key = (unit.table, unit.version, unit.address_size, unit.offset_size)
        if key not in self._tables:
            self._tables[key] = Abbreviations(self.section(".debug_abbrev"), unit.table, unit)
        return self._tables[key]


def file_of(entry: Entry) -> Entries:
    """The file that an entry is in; of what was split off, the one that it was split off from."""
    file = entry.unit.file
    file = file if file.skeleton is None else file.skeleton.file
    assert isinstance(file, Entries)
    return file
