"""Finds entries by their names without walking through the units.

A name's bytes, or its offset in the table of strings, are searched for at memory's speed. What stands around a place
tells at once whether the name of an entry of the wanted kind can be there: the code of such an entry, before it. Only
then is the unit walked to that place, by which the entry is certain.

Sources: DWARF 5, 7.5.2 and 7.5.3; the merging of strings in GNU ld (bfd/merge.c) and LLVM (StringTableBuilder.cpp).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from tracer.resolve.dwarf.units import constants as dw, forms
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.forms import Abbreviations
from tracer.resolve.dwarf.units.unit import Entry, Unit

_MOST_SEARCHED = 1 << 31
"""The most bytes that are gone through for one name, which takes some seconds."""

_MOST_LOOKED_AT = 1 << 16
"""The most strings that end in the name."""

_Mark = tuple[bytes, int, int]
"""The code of an entry, as it is written, how many bytes behind it its name is, and the form of the name."""


def named(
    file: Entries, name: str, tags: frozenset[int], within: Unit | None = None, declared: bool = False,
    attribute: int = dw.NAME,
) -> Iterator[Entry]:  # fmt: skip
    """The entries of that name with one of these tags, of all units or of one, in no particular order. With `declared`
    also those that only declare what it names. `attribute` chooses the name: the source's or the linker's.
    """
    wanted = name.encode("utf-8", "surrogateescape")
    if within is not None and within.file is not file:
        assert isinstance(within.file, Entries)
        file = within.file
    search = _Search(file, wanted, tags, within, declared, attribute)
    yield from search.by_bytes()
    yield from search.by_index()
    if within is None:
        for split in file.split.naming(wanted):
            yield from named(split, name, tags, None, declared, attribute)
        if file.other is not None:
            yield from named(file.other, name, tags, None, declared, attribute)


class _Search:
    """The search for one name in one file."""

    def __init__(
        self, file: Entries, name: bytes, tags: frozenset[int], within: Unit | None, declared: bool, attribute: int
    ) -> None:
        self._file, self._name, self._tags, self._within, self._declared = file, name, tags, within, declared
        self._attribute = attribute
        self._marks: dict[int, tuple[list[_Mark], set[int]]] = {}
        self._seen: set[int] = set()

    def by_bytes(self) -> Iterator[Entry]:
        """The entries with which the name or its offset stands."""
        yield from self._standing(self._name + b"\0", forms.STRING)
        searched = 0
        places, tails = _string_places(self._file.strings, self._name + b"\0")
        for number, offset in enumerate((*places, *tails)):
            matched = False
            for entry in self._standing(struct.pack("<I", offset), forms.STRP):
                matched = True
                yield entry
            searched += len(self._file.info) if self._within is None else self._within.end - self._within.first
            # Of strings that share their ends one has the name's, and it is tried first.
            if number >= len(places) and (matched or (searched > _MOST_SEARCHED and number > len(places))):
                return

    def _standing(self, mark: bytes, form: int) -> Iterator[Entry]:
        for data, base in self._file.parts:
            within = self._within
            if within is not None and within.base != base:
                continue
            first, end = (within.first, within.end) if within is not None else (0, len(data))
            for place in _places(data, mark, first, end):
                unit = within or self._file.unit_of(base + place)
                if unit.base == base and unit.first <= place < unit.end:
                    start = self._entry_before(unit, place, form)
                    if start is not None and (entry := self._certain(unit, start)) is not None:
                        yield entry

    def _entry_before(self, unit: Unit, place: int, form: int) -> int | None:
        """The place at which an entry may begin whose name is at another."""
        marks, loose = self._marks_of(unit.codes())
        data = unit.data
        for code, distance, name_form in marks:
            start = place - distance - len(code)
            if name_form == form and data[start : start + len(code)] == code:
                return start
        if form in loose:
            return max((offset for offset, _, _ in unit.walk(near=place) if offset < place), default=None)
        return None

    def _marks_of(self, codes: Abbreviations) -> tuple[list[_Mark], set[int]]:
        """The beginnings of the wanted entries, and the forms of names whose place depends on what is before them."""
        cached = self._marks.get(id(codes))
        if cached is None:
            names, loose = codes.names(self._tags, self._declared, self._attribute)
            marks = [(_leb(code), distance, form) for code, distance, form in names]
            cached = self._marks[id(codes)] = marks, loose
        return cached

    def _certain(self, unit: Unit, offset: int, begins: bool = False) -> Entry | None:
        """The entry there, if there is one and it is wanted. `begins`: one begins there."""
        if unit.base + offset in self._seen:
            return None
        self._seen.add(unit.base + offset)
        if not begins and offset not in (start for start, _, _ in unit.walk(near=offset)):
            return None
        entry = unit.entry(offset)
        if entry.tag not in self._tags:
            return None
        wanted = entry.text(self._attribute).encode("utf-8", "surrogateescape") == self._name
        return entry if wanted and (self._declared or dw.DECLARATION not in entry) else None

    def by_index(self) -> Iterator[Entry]:
        """The entries with which a number for the name stands, by a table that belongs to the unit."""
        table = self._file.offsets
        if not table:
            return
        units: dict[int, list[Unit]] = {}
        for unit in self._file.units:
            units.setdefault(unit.base_of(dw.STR_OFFSETS_BASE), []).append(unit)
        bases = sorted(units)
        places, tails = _string_places(self._file.strings, self._name + b"\0")
        for number, offset in enumerate((*places, *tails)):
            matched = False
            for slot in _places(table, struct.pack("<I", offset), 0, len(table)):
                base = bases[max(bisect_right(bases, slot) - 1, 0)]
                if slot < base:
                    continue  # the table's header, which may look like it
                for unit in units[base]:
                    if self._within is None or unit is self._within:
                        matched = True
                        yield from self._indexed(unit, (slot - base) // unit.offset_size)
            if matched and number >= len(places):
                return

    def _indexed(self, unit: Unit, index: int) -> Iterator[Entry]:
        """The entries whose name has that number."""
        codes = unit.codes()
        marks, loose = self._marks_of(codes)
        walked = not loose.isdisjoint(forms.STRX)
        starts = [offset for offset, _, abbreviation in unit.walk() if abbreviation.tag in self._tags] if walked else []
        for code, distance, form in () if walked else marks:
            if form in forms.STRX:
                size = codes.skip(form)
                if size < 0:
                    starts += _around(unit, code, distance, _leb(index))
                elif index < 1 << 8 * size:
                    starts += _around(unit, code, distance, index.to_bytes(size, "little"))
        for start in starts:
            entry = self._certain(unit, start, walked)
            if entry is not None:
                yield entry


@lru_cache(maxsize=2)
def _string_places(strings: bytes, mark: bytes) -> tuple[list[int], list[int]]:
    """Offsets of a name in .debug_str: those where a string begins, else those where one ends, likely ones first. A
    linker that lets strings share their ends sorts strings by their ends, and shares the shortest with its neighbour.
    """
    starts: list[int] = []
    tails: list[tuple[bytes, int]] = []
    offset = strings.find(mark)
    while offset >= 0 and len(tails) < _MOST_LOOKED_AT:
        if offset == 0 or strings[offset - 1] == 0:
            starts.append(offset)
        else:
            start = strings.rfind(b"\0", max(offset - 4096, 0), offset) + 1
            tails.append((strings[start:offset][::-1], offset))
        offset = strings.find(mark, offset + 1)
    tails.sort()
    rest = [offset for _, offset in tails]
    return starts, [*rest[:1], *rest[:0:-1]] if not starts else []


def _around(unit: Unit, code: bytes, distance: int, written: bytes) -> Iterator[int]:
    """The places at which a code stands, and so many bytes behind it what is written for a number."""
    size = len(code) + distance
    for place in _places(unit.data, written if distance else code + written, unit.first, unit.end):
        start = place - size if distance else place
        if unit.data[start : start + len(code)] == code:
            yield start


def _places(data: bytes, mark: bytes, first: int, end: int) -> Iterator[int]:
    """The places at which a mark stands. The last byte of an offset is mostly zero, by which a search is slowest."""
    short = mark[:3] if len(mark) == 4 else mark
    place = data.find(short, first, end)
    while place >= 0:
        if short is mark or data[place + 3 : place + 4] == mark[3:]:
            yield place
        place = data.find(short, place + 1, end)


def _leb(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
