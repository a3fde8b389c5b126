"""Units of debug information and their entries, read where somebody asks and passed over where not.

Debug files are large (libjvm's has ten million entries), so nothing is decoded in advance. A unit's entries are walked
by the sizes that its abbreviations state, past all subtrees that say where they end.

Sources: DWARF 5, 7.5 (format of debugging information), 7.27 and 7.28 (indexed strings and addresses); DWARF 4, 7.5.1.2
(type units); GNU's extensions for dwz: GNU_ref_alt and GNU_strp_alt, and for split DWARF 4: GNU_addr_index.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.units import constants as dw, forms
from tracer.resolve.dwarf.units.forms import Abbreviation, Abbreviations, skip_of
from tracer.resolve.elf.file import Elf

TYPES_AT, OTHER_AT, SPLIT_AT = 1 << 40, 1 << 41, 44
"""Added to offsets into .debug_types, and into dwz's file, where an entry is named by one number. What is above the bit
`SPLIT_AT` says which other file a unit was split off to.
"""


class File(Protocol):
    """The interface that units need of their file; see `entries.Entries`."""

    elf: Elf
    skeleton: Unit | None

    @property
    def addresses(self) -> bytes:
        """The bytes of .debug_addr."""

    @property
    def units(self) -> list[Unit]:
        """All units, in order."""

    def section(self, name: str) -> bytes:
        """The bytes of a section."""

    def abbreviations(self, unit: Unit) -> Abbreviations:
        """A unit's abbreviations."""

    def bases(self, unit: Unit) -> dict[int, int]:
        """The places at which tables begin, as far as the unit does not say it."""

    def string(self, unit: Unit, form: int, value: int) -> bytes:
        """A string that stands elsewhere."""

    def entry(self, number: int) -> Entry:
        """The entry of a number."""

    def signed(self, signature: int) -> Entry | None:
        """The type of a type unit."""


class Unit:
    """One unit, whose entries lie from `first` to `end` in `data`."""

    __slots__ = (
        "_bases", "_top", "abbreviations", "address_size", "base", "data", "end", "file", "first", "offset",
        "offset_size", "signature", "split_id", "table", "type_at", "version",
    )  # fmt: skip

    def __init__(self, file: File, data: bytes, offset: int, base: int) -> None:
        self.file, self.data, self.offset, self.base = file, data, offset, base
        (length,) = struct.unpack_from("<I", data, offset)
        self.offset_size = 4
        offset += 4
        if length == 0xFFFFFFFF:
            (length,) = struct.unpack_from("<Q", data, offset)
            self.offset_size = 8
            offset += 8
        self.end = offset + length
        if self.end > len(data):
            raise ValueError("a unit that ends behind its section")
        (self.version,) = struct.unpack_from("<H", data, offset)
        offset += 2
        self.signature = self.type_at = self.split_id = 0
        size = self.offset_size
        if self.version >= 5:
            kind, self.address_size = data[offset], data[offset + 1]
            self.table = int.from_bytes(data[offset + 2 : offset + 2 + size], "little")
            offset += 2 + size
            typed = kind in (2, 6)
            if kind in (4, 5):
                self.split_id = int.from_bytes(data[offset : offset + 8], "little")
                offset += 8
        else:
            self.table = int.from_bytes(data[offset : offset + size], "little")
            self.address_size = data[offset + size]
            offset += size + 1
            typed = base & TYPES_AT != 0
        if typed:
            self.signature = int.from_bytes(data[offset : offset + 8], "little")
            self.type_at = self.offset + int.from_bytes(data[offset + 8 : offset + 8 + size], "little")
            offset += 8 + size
        self.first = offset
        self.abbreviations: Abbreviations | None = None
        self._bases: dict[int, int] | None = None
        self._top: Entry | None = None

    def codes(self) -> Abbreviations:
        """The unit's abbreviations."""
        if self.abbreviations is None:
            self.abbreviations = self.file.abbreviations(self)
        return self.abbreviations

    def entry(self, offset: int) -> Entry:
        """The entry at an offset of the section."""
        if not self.first <= offset < self.end:
            raise ValueError("an entry outside its unit")
        code, behind = leb(self.data, offset)
        return Entry(self, offset, self.codes()[code], behind)

    @property
    def top(self) -> Entry:
        """The unit's own entry."""
        if self._top is None:
            self._top = self.entry(self.first)
        return self._top

    def walk(self, near: int | None = None, start: int | None = None) -> Iterator[tuple[int, int, Abbreviation]]:
        """Offset, depth and abbreviation of the entries from `start` on, parents first, until its subtree ends. With
        `near`, subtrees that do not hold that place are left out where they state their end.
        """
        data, codes = self.data, self.codes()
        offset, depth, end = self.first if start is None else start, 0, self.end
        while offset < end:
            here = offset
            code = data[offset]
            offset += 1
            if code >= 0x80:
                code, offset = leb(data, here)
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
                    offset += skip
                elif skip == forms.LEB:
                    while data[offset] >= 0x80:
                        offset += 1
                    offset += 1
                elif skip == forms.TEXT:
                    offset = data.index(b"\0", offset) + 1
                elif skip == forms.SIBLING:
                    sibling = self.offset + int.from_bytes(data[offset : offset + 4], "little")
                    offset += 4
                else:
                    offset = self._behind(skip, offset)
            if abbreviation.children:
                if near is not None and offset < sibling <= near and here != start:
                    offset = sibling
                else:
                    depth += 1
            elif depth == 0:
                return
            if near is not None and here > near:
                return

    def _behind(self, skip: int, offset: int) -> int:
        if skip >= 0:
            return offset + skip
        if skip == forms.LEB:
            return leb(self.data, offset)[1]
        if skip == forms.TEXT:
            return self.data.index(b"\0", offset) + 1
        if skip == forms.INDIRECT:
            form, offset = leb(self.data, offset)
            return self._behind(skip_of(form, self), offset)
        if skip == forms.EXPRESSION:
            size, offset = leb(self.data, offset)
            return offset + size
        width = forms.BLOCK_WIDTHS[skip]
        return offset + width + int.from_bytes(self.data[offset : offset + width], "little")

    def value(self, form: int, constant: int, offset: int) -> tuple[int | bytes, int]:
        """The raw value of a form at a place, and the place after it."""
        data = self.data
        if form == forms.IMPLICIT:
            return constant, offset
        if form == forms.FLAG_PRESENT:
            return 1, offset
        if form == forms.STRING:
            end = data.index(b"\0", offset)
            return data[offset:end], end + 1
        if form == forms.INDIRECTLY:
            form, offset = leb(data, offset)
            return self.value(form, 0, offset)
        skip = skip_of(form, self)
        if skip == forms.LEB:
            return leb(data, offset, form == forms.SDATA)
        if skip < 0:
            end = self._behind(skip, offset)
            width = forms.BLOCK_WIDTHS.get(skip) or leb(data, offset)[1] - offset
            return data[offset + width : end], end
        return int.from_bytes(data[offset : offset + skip], "little"), offset + skip

    def base_of(self, attribute: int) -> int:
        """The offset at which the unit's part of another section begins: DW_AT_str_offsets_base, DW_AT_addr_base,
        DW_AT_rnglists_base, DW_AT_loclists_base, and GNU's.
        """
        if self._bases is None:
            self._bases = self.file.bases(self)
            top = self.top
            for name, _, _ in top.abbreviation.attributes:
                if name in dw.BASES:
                    self._bases[name] = top.number(name) or 0
        return self._bases.get(attribute, 0)

    def address(self, index: int) -> int:
        """The address of a number in .debug_addr."""
        offset = (self.base_of(dw.ADDR_BASE) or self.base_of(dw.GNU_ADDR_BASE)) + index * self.address_size
        return int.from_bytes(self.file.addresses[offset : offset + self.address_size], "little")


class Entry:
    """One entry. Attributes are decoded when one is asked for."""

    __slots__ = ("_attributes", "_behind", "abbreviation", "offset", "tag", "unit")

    def __init__(self, unit: Unit, offset: int, abbreviation: Abbreviation, behind: int) -> None:
        self.unit, self.offset, self.abbreviation, self._behind = unit, offset, abbreviation, behind
        self.tag = abbreviation.tag
        self._attributes: dict[int, tuple[int, int | bytes]] | None = None

    @property
    def id(self) -> int:
        """The number of the entry among all entries of the file."""
        return self.unit.base + self.offset

    def raw(self, attribute: int) -> tuple[int, int | bytes] | None:
        """The form and the value as it stands there."""
        if self._attributes is None:
            self._attributes, offset = {}, self._behind
            for name, form, constant in self.abbreviation.attributes:
                value, offset = self.unit.value(form, constant, offset)
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
        integer = self.integer(attribute)
        return default if integer is None else integer[1]

    def signed(self, attribute: int) -> int | None:
        """A constant with its sign: what is below 0 is sdata or fills eight bytes, since gcc writes 200 as data1."""
        integer = self.integer(attribute)
        if integer is None:
            return None
        form, value = integer
        return value - (1 << 64) if form == forms.DATA8 and value >> 63 else value

    def block(self, attribute: int) -> bytes | None:
        """An expression."""
        raw = self.raw(attribute)
        return raw[1] if raw is not None and isinstance(raw[1], bytes) else None

    def text(self, attribute: int = dw.NAME) -> str:
        """A string, "" where there is none."""
        raw = self.raw(attribute)
        if raw is None:
            return ""
        form, value = raw
        content = value if isinstance(value, bytes) else self.unit.file.string(self.unit, form, value)
        return content.decode("utf-8", "surrogateescape")

    def address(self, attribute: int) -> int | None:
        """An address; None where there is none, or only a size."""
        integer = self.integer(attribute)
        if integer is None:
            return None
        form, value = integer
        if form in forms.ADDRX:
            return self.unit.address(value)
        return value if form == forms.ADDR else None

    def follow(self, attribute: int) -> Entry | None:
        """The entry that a reference leads to."""
        integer = self.integer(attribute)
        if integer is None:
            return None
        form, value = integer
        if form in forms.REFERENCES:
            return self.unit.entry(self.unit.offset + value)
        if form == forms.REF_ADDR:
            return self.unit.file.entry((self.unit.base & ~TYPES_AT) + value)
        if form == forms.REF_SIG8:
            return self.unit.file.signed(value)
        if form in forms.REF_ALT:
            return self.unit.file.entry(OTHER_AT + value)
        return None

    def children(self) -> Iterator[Entry]:
        """The entries right below."""
        if self.abbreviation.children:
            start = self.offset
            # Subtrees of children are left out: none of them holds the section's last byte.
            for offset, depth, abbreviation in self.unit.walk(near=self.unit.end - 1, start=start):
                if depth == 1:
                    yield Entry(self.unit, offset, abbreviation, leb(self.unit.data, offset)[1])
