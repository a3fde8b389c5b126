"""Entries of debug information: the tree of each compile unit, read where somebody asks and passed over where not.

Debug files are large (libjvm's has ten million entries), so nothing is decoded in advance. A unit's entries are walked
by the sizes that its abbreviations state. Whoever looks for a name or an address first asks where its bytes stand in
the section, which is a search at memory's speed, and then walks to that place alone, past all subtrees that say where
they end.

Sources: DWARF 5, 7.5 (format of debugging information), 7.27 and 7.28 (indexed strings and addresses), 6.1.2
(addresses by unit); DWARF 4, 7.5.1.2 (type units); GNU's extensions for dwz: GNU_ref_alt and GNU_strp_alt.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from tracer.errors import TracerError
from tracer.resolve.dwarf import constants as dw
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.sections import content
from tracer.resolve.elf.file import Elf

_LEB, _TEXT, _SIBLING = -1, -2, -8
_BLOCKS = {0x0A: -3, 0x03: -4, 0x04: -5, 0x09: -6, 0x18: -6}
_INDIRECT = -7
_FIXED = {
    0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x19: 0, 0x1C: 4, 0x1E: 16,
    0x20: 8, 0x21: 0, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
_OF_OFFSET_SIZE = frozenset((0x0E, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21))
_LEBS = frozenset((0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02))
_SIGNED, _FLAG_PRESENT, _IMPLICIT, _STRING, _REF_ADDR, _ADDR = 0x0D, 0x19, 0x21, 0x08, 0x10, 0x01
_STRX = frozenset((0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02))
_ADDRX = frozenset((0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01))
_REFERENCES = frozenset((0x11, 0x12, 0x13, 0x14, 0x15))
_STRP, _LINE_STRP, _REF_SIG8 = 0x0E, 0x1F, 0x20
_STRP_ALT, _REF_ALT = frozenset((0x1D, 0x1F21)), frozenset((0x1C, 0x24, 0x1F20))

_MOST_PLACES = 64
"""Places in the string table that are looked for: a short name ends many longer ones, and shares their bytes."""

_MOST_SEARCHED = 1 << 31
"""Bytes that are gone through for one name, some seconds."""

TYPES_AT, OTHER_AT = 1 << 40, 1 << 41
"""Added to offsets into .debug_types, and into dwz's file, where an entry is named by one number."""


class Abbreviation(NamedTuple):
    """What a code stands for: the tag, whether entries have children, (attribute, form, constant) each, and what is
    skipped with them: sizes, and negative numbers for what says its own size.
    """

    tag: int
    children: bool
    attributes: tuple[tuple[int, int, int], ...]
    skips: tuple[int, ...]


class Unit:
    """One unit, its entries from `first` to `end` in `data`."""

    __slots__ = (
        "_bases", "abbreviations", "address_size", "at", "base", "data", "end", "file", "first", "offset_size",
        "signature", "table", "type_at", "version",
    )  # fmt: skip

    def __init__(self, file: Entries, data: bytes, at: int, base: int) -> None:
        self.file, self.data, self.at, self.base = file, data, at, base
        (length,) = struct.unpack_from("<I", data, at)
        self.offset_size = 4
        at += 4
        if length == 0xFFFFFFFF:
            (length,) = struct.unpack_from("<Q", data, at)
            self.offset_size = 8
            at += 8
        self.end = at + length
        if self.end > len(data):
            raise ValueError("a unit that ends behind its section")
        (self.version,) = struct.unpack_from("<H", data, at)
        at += 2
        self.signature = self.type_at = 0
        size = self.offset_size
        if self.version >= 5:
            kind, self.address_size = data[at], data[at + 1]
            self.table = int.from_bytes(data[at + 2 : at + 2 + size], "little")
            at += 2 + size
            typed = kind in (2, 6)
            if kind in (4, 5):
                at += 8
        else:
            self.table = int.from_bytes(data[at : at + size], "little")
            self.address_size = data[at + size]
            at += size + 1
            typed = base & TYPES_AT != 0
        if typed:
            self.signature = int.from_bytes(data[at : at + 8], "little")
            self.type_at = self.at + int.from_bytes(data[at + 8 : at + 8 + size], "little")
            at += 8 + size
        self.first = at
        self.abbreviations: dict[int, Abbreviation] | None = None
        self._bases: dict[int, int] | None = None

    def _codes(self) -> dict[int, Abbreviation]:
        if self.abbreviations is None:
            self.abbreviations = self.file.abbreviations(self)
        return self.abbreviations

    def entry(self, at: int) -> Entry:
        """The entry at an offset of the section."""
        if not self.first <= at < self.end:
            raise ValueError("an entry outside its unit")
        code, behind = leb(self.data, at)
        return Entry(self, at, self._codes()[code], behind)

    @property
    def top(self) -> Entry:
        """The unit's own entry."""
        return self.entry(self.first)

    def walk(self, near: int | None = None, start: int | None = None) -> Iterator[tuple[int, int, Abbreviation]]:
        """Offset, depth and abbreviation of the entries from `start` on, parents first, until its subtree ends; with
        `near` the subtrees that do not hold that place are left out where they say where they end.
        """
        data, codes = self.data, self._codes()
        at, depth, end = self.first if start is None else start, 0, self.end
        while at < end:
            here = at
            code = data[at]
            at += 1
            if code >= 0x80:
                code, at = leb(data, here)
            if not code:
                depth -= 1
                if depth <= 0:
                    return
                continue
            abbreviation = codes[code]
            yield here, depth, abbreviation
            sibling = 0
            for skip in abbreviation.skips:
                if skip >= 0:
                    at += skip
                elif skip == _LEB:
                    while data[at] >= 0x80:
                        at += 1
                    at += 1
                elif skip == _TEXT:
                    at = data.index(b"\0", at) + 1
                elif skip == _SIBLING:
                    sibling = self.at + int.from_bytes(data[at : at + 4], "little")
                    at += 4
                else:
                    at = self._behind(skip, at)
            if abbreviation.children:
                if near is not None and at < sibling <= near and here != start:
                    at = sibling
                else:
                    depth += 1
            elif depth == 0:
                return
            if near is not None and here > near:
                return

    def _behind(self, skip: int, at: int) -> int:
        if skip == _INDIRECT:
            form, at = leb(self.data, at)
            for each in self.file.skips(form, self):
                if each >= 0:
                    at += each
                elif each == _LEB:
                    at = leb(self.data, at)[1]
                elif each == _TEXT:
                    at = self.data.index(b"\0", at) + 1
                else:
                    at = self._behind(each, at)
            return at
        if skip == -6:
            size, at = leb(self.data, at)
            return at + size
        width = {-3: 1, -4: 2, -5: 4}[skip]
        return at + width + int.from_bytes(self.data[at : at + width], "little")

    def value(self, form: int, constant: int, at: int) -> tuple[int | bytes, int]:
        """What stands at a place in a form, as it is, and the place behind it."""
        data = self.data
        if form == _IMPLICIT:
            return constant, at
        if form == _FLAG_PRESENT:
            return 1, at
        if form == _STRING:
            end = data.index(b"\0", at)
            return data[at:end], end + 1
        if form == 0x16:  # DW_FORM_indirect
            form, at = leb(data, at)
            return self.value(form, 0, at)
        (skip,) = self.file.skips(form, self)
        if skip == _LEB:
            return leb(data, at, form == _SIGNED)
        if skip < 0:
            end = self._behind(skip, at)
            width = {-3: 1, -4: 2, -5: 4}.get(skip) or leb(data, at)[1] - at
            return data[at + width : end], end
        return int.from_bytes(data[at : at + skip], "little"), at + skip

    def base_of(self, attribute: int) -> int:
        """DW_AT_str_offsets_base, DW_AT_addr_base, DW_AT_rnglists_base."""
        if self._bases is None:
            self._bases = {}
            top = self.top
            for each, _, _ in top.abbreviation.attributes:
                if each in (dw.STR_OFFSETS_BASE, dw.ADDR_BASE, dw.RNGLISTS_BASE, dw.GNU_ADDR_BASE):
                    self._bases[each] = top.number(each) or 0
        return self._bases.get(attribute, 0)


class Entry:
    """One entry. Attributes are decoded when one is asked for."""

    __slots__ = ("_attributes", "_behind", "abbreviation", "at", "tag", "unit")

    def __init__(self, unit: Unit, at: int, abbreviation: Abbreviation, behind: int) -> None:
        self.unit, self.at, self.abbreviation, self._behind = unit, at, abbreviation, behind
        self.tag = abbreviation.tag
        self._attributes: dict[int, tuple[int, int | bytes]] | None = None

    @property
    def id(self) -> int:
        """One number among all entries of the file."""
        return self.unit.base + self.at

    def raw(self, attribute: int) -> tuple[int, int | bytes] | None:
        """The form and the value as it stands there."""
        if self._attributes is None:
            self._attributes, at = {}, self._behind
            for name, form, constant in self.abbreviation.attributes:
                value, at = self.unit.value(form, constant, at)
                self._attributes.setdefault(name, (form, value))
        return self._attributes.get(attribute)

    def __contains__(self, attribute: int) -> bool:
        return self.raw(attribute) is not None

    def integer(self, attribute: int) -> tuple[int, int] | None:
        """The form and the value of what is a number as it stands there."""
        form, value = self.raw(attribute) or (0, b"")
        return (form, value) if isinstance(value, int) else None

    def number(self, attribute: int, default: int | None = None) -> int | None:
        """A constant, a flag, or an offset into a section."""
        found = self.integer(attribute)
        return default if found is None else found[1]

    def signed(self, attribute: int) -> int | None:
        """A constant with its sign, which data1 to data8 do not say: as a C compiler means it."""
        found = self.integer(attribute)
        if found is None:
            return None
        form, value = found
        bits = {0x0B: 8, 0x05: 16, 0x06: 32, 0x07: 64}.get(form)
        return value - (1 << bits) if bits and value >> (bits - 1) else value

    def block(self, attribute: int) -> bytes | None:
        """An expression."""
        found = self.raw(attribute)
        return found[1] if found is not None and isinstance(found[1], bytes) else None

    def text(self, attribute: int = dw.NAME) -> str:
        """A string, "" where there is none."""
        found = self.raw(attribute)
        if found is None:
            return ""
        form, value = found
        raw = value if isinstance(value, bytes) else self.unit.file.string(self.unit, form, value)
        return raw.decode("utf-8", "surrogateescape")

    def address(self, attribute: int) -> int | None:
        """An address; None where there is none, or only a size."""
        found = self.integer(attribute)
        if found is None:
            return None
        form, value = found
        if form in _ADDRX:
            unit = self.unit
            base = unit.base_of(dw.ADDR_BASE) or unit.base_of(dw.GNU_ADDR_BASE)
            at, size = base + value * unit.address_size, unit.address_size
            return int.from_bytes(unit.file.addresses[at : at + size], "little")
        return value if form == _ADDR else None

    def follow(self, attribute: int) -> Entry | None:
        """The entry that a reference leads to."""
        found = self.integer(attribute)
        if found is None:
            return None
        form, value = found
        if form in _REFERENCES:
            return self.unit.entry(self.unit.at + value)
        if form == _REF_ADDR:
            return self.unit.file.at((self.unit.base & ~TYPES_AT) + value)
        if form == _REF_SIG8:
            return self.unit.file.signed(value)
        if form in _REF_ALT:
            return self.unit.file.at(OTHER_AT + value)
        return None

    def children(self) -> Iterator[Entry]:
        """The entries right below."""
        if self.abbreviation.children:
            start = self.at
            # Subtrees of children are left out: none of them holds the section's last byte.
            for at, depth, abbreviation in self.unit.walk(near=self.unit.end - 1, start=start):
                if depth == 1:
                    yield Entry(self.unit, at, abbreviation, leb(self.unit.data, at)[1])


class Entries:
    """The debug information of one file. `other` is dwz's, which holds what several files have in common."""

    def __init__(self, elf: Elf, other: Entries | None = None, base: int = 0) -> None:
        self.elf = elf
        self.other = other
        self._base = base
        self._tables: dict[tuple[int, int, int, int], dict[int, Abbreviation]] = {}
        self._contents: dict[str, bytes] = {}

    @cached_property
    def info(self) -> bytes:
        """.debug_info."""
        return content(self.elf, ".debug_info")

    @cached_property
    def _types(self) -> bytes:
        return content(self.elf, ".debug_types")

    @cached_property
    def strings(self) -> bytes:
        """.debug_str."""
        return content(self.elf, ".debug_str")

    @cached_property
    def _line_strings(self) -> bytes:
        return content(self.elf, ".debug_line_str")

    @cached_property
    def _offsets(self) -> bytes:
        return content(self.elf, ".debug_str_offsets")

    @cached_property
    def addresses(self) -> bytes:
        """.debug_addr."""
        return content(self.elf, ".debug_addr")

    def section(self, name: str) -> bytes:
        """Any other section."""
        if name not in self._contents:
            self._contents[name] = content(self.elf, name)
        return self._contents[name]

    @cached_property
    def units(self) -> list[Unit]:
        """All units, in order."""
        found = []
        for data, base in ((self.info, self._base), (self._types, self._base + TYPES_AT)):
            at = 0
            while at + 11 <= len(data):
                unit = Unit(self, data, at, base)
                if unit.end <= at:
                    raise ValueError("a unit of no size")
                if 2 <= unit.version <= 5 and unit.address_size in (4, 8):
                    found.append(unit)
                at = unit.end
        return found

    @cached_property
    def _starts(self) -> list[int]:
        return [unit.base + unit.at for unit in self.units]

    def unit_of(self, place: int) -> Unit:
        """The unit that holds an entry by its number."""
        return self.units[bisect_right(self._starts, place) - 1]

    def at(self, place: int) -> Entry:
        """An entry by its number."""
        if place & OTHER_AT and not self._base:
            if self.other is None:
                raise TracerError("the file that dwz moved debug information to is not there")
            return self.other.at(place)
        unit = self.unit_of(place)
        return unit.entry(place - unit.base)

    @cached_property
    def _signatures(self) -> dict[int, Unit]:
        return {unit.signature: unit for unit in self.units if unit.type_at}

    def signed(self, signature: int) -> Entry | None:
        """The type of a type unit."""
        unit = self._signatures.get(signature)
        return None if unit is None else unit.entry(unit.type_at)

    def string(self, unit: Unit, form: int, value: int) -> bytes:
        """A string that stands elsewhere."""
        if form in _STRX:
            at = unit.base_of(dw.STR_OFFSETS_BASE) + value * unit.offset_size
            value = int.from_bytes(self._offsets[at : at + unit.offset_size], "little")
        elif form in _STRP_ALT:
            if self.other is None:
                return b""
            return self.other.string(unit, _STRP, value)
        table = self._line_strings if form == _LINE_STRP else self.strings
        return table[value : table.index(b"\0", value)]

    # --- abbreviations ---

    def skips(self, form: int, unit: Unit) -> tuple[int, ...]:
        """How a value in that form is passed over."""
        if form in _FIXED:
            return (_FIXED[form],)
        if form in _LEBS:
            return (_LEB,)
        if form == _STRING:
            return (_TEXT,)
        if form in _BLOCKS:
            return (_BLOCKS[form],)
        if form in _OF_OFFSET_SIZE:
            return (unit.offset_size,)
        if form == _ADDR:
            return (unit.address_size,)
        if form == _REF_ADDR:
            return (unit.address_size if unit.version < 3 else unit.offset_size,)
        if form == 0x16:
            return (_INDIRECT,)
        raise ValueError(f"form {form:#x} is unknown")

    @cached_property
    def _abbreviations(self) -> bytes:
        return content(self.elf, ".debug_abbrev")

    def abbreviations(self, unit: Unit) -> dict[int, Abbreviation]:
        """A unit's abbreviations by their codes."""
        key = (unit.table, unit.version, unit.address_size, unit.offset_size)
        if key not in self._tables:
            self._tables[key] = self._table(unit)
        return self._tables[key]

    def _table(self, unit: Unit) -> dict[int, Abbreviation]:
        data, at = self._abbreviations, unit.table
        found: dict[int, Abbreviation] = {}
        while True:
            code, at = leb(data, at)
            if not code:
                return found
            tag, at = leb(data, at)
            children = data[at] != 0
            at += 1
            attributes, skips = [], [0]
            while True:
                name, at = leb(data, at)
                form, at = leb(data, at)
                constant = 0
                if form == _IMPLICIT:
                    constant, at = leb(data, at, signed=True)
                if not name and not form:
                    break
                attributes.append((name, form, constant))
                for skip in (_SIBLING,) if name == dw.SIBLING and form == 0x13 else self.skips(form, unit):
                    if skip >= 0 and skips[-1] >= 0:
                        skips[-1] += skip
                    else:
                        skips.append(skip)
            found[code] = Abbreviation(tag, children, tuple(attributes), tuple(skips))

    # --- looking for something ---

    def named(self, name: str, tags: frozenset[int], within: Unit | None = None) -> Iterator[Entry]:
        """The entries of that name and one of these tags, all or those of a unit, in no order worth mentioning."""
        wanted = name.encode("utf-8", "surrogateescape")
        seen: set[int] = set()
        for data, base in ((self.info, self._base), (self._types, self._base + TYPES_AT)):
            if within is not None and within.base != base:
                continue
            for place in self._places(wanted, data, within):
                unit = self.unit_of(base + place)
                if not (unit.base == base and unit.first <= place < unit.end) or place in seen:
                    continue
                seen.add(place)
                found = None
                for at, _, abbreviation in unit.walk(near=place):
                    if at > place:
                        break
                    found = at, abbreviation
                if found is not None and found[1].tag in tags:
                    entry = unit.entry(found[0])
                    if entry.text() == name:
                        yield entry
        for unit in self._indexing(wanted):
            if within is not None and unit is not within:
                continue
            for at, _, abbreviation in unit.walk():
                if abbreviation.tag in tags:
                    entry = unit.entry(at)
                    if entry.text() == name:
                        yield entry
        if self.other is not None and within is None:
            yield from self.other.named(name, tags)

    def _places(self, name: bytes, data: bytes, within: Unit | None) -> Iterator[int]:
        """Where a name, or its offset in the table of strings, stands in .debug_info."""
        first, end = (within.first, within.end) if within is not None else (0, len(data))
        marks = [name + b"\0", *(struct.pack("<I", at) for at in self._string_places(name))]
        for mark in marks[: max(2, _MOST_SEARCHED // max(end - first, 1))]:
            at = data.find(mark, first, end)
            while at >= 0:
                yield at
                at = data.find(mark, at + 1, end)

    def _string_places(self, name: bytes) -> list[int]:
        """Offsets of the name in .debug_str, those where a string begins first."""
        found: list[int] = []
        at = self.strings.find(name + b"\0")
        while at >= 0 and len(found) < _MOST_PLACES:
            if at == 0 or self.strings[at - 1] == 0:
                found.insert(0, at)
            else:
                found.append(at)
            at = self.strings.find(name + b"\0", at + 1)
        return found

    def _indexing(self, name: bytes) -> Iterator[Unit]:
        """The units whose table of string offsets names it."""
        if not self._offsets:
            return
        bases = sorted((unit.base_of(dw.STR_OFFSETS_BASE), number) for number, unit in enumerate(self.units))
        seen = set()
        for offset in self._string_places(name):
            mark = struct.pack("<I", offset)
            at = self._offsets.find(mark)
            while at >= 0:
                found = bisect_right(bases, (at, len(bases))) - 1
                if found >= 0 and (number := bases[found][1]) not in seen:
                    seen.add(number)
                    yield self.units[number]
                at = self._offsets.find(mark, at + 1)
