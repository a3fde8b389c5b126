"""The function that holds an address, and its parameters.

Its unit is found by `.debug_aranges`, or by what each unit's own entry says it covers, and its entry by the bytes of
its address. Source: DWARF 5, 6.1.2 (addresses), 3.3 (functions).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import covers
from tracer.resolve.dwarf.units.unit import Entry, Unit

_MOST_CHAIN = 8


def function_at(entries: Entries, address: int) -> Entry | None:
    """The function whose code holds an address, as it was compiled."""
    for unit in units_at(entries, address):
        mark = address.to_bytes(unit.address_size, "little")
        place = unit.data.find(mark, unit.first, unit.end)
        while place >= 0:
            last = None
            for offset, _, abbreviation in unit.walk(near=place):
                if offset > place:
                    break
                last = offset, abbreviation
            if last is not None and last[1].tag == dw.SUBPROGRAM:
                entry = unit.entry(last[0])
                if entry.address(dw.LOW_PC) == address:
                    return entry
            place = unit.data.find(mark, place + 1, unit.end)
        for offset, _, abbreviation in unit.walk():
            if abbreviation.tag == dw.SUBPROGRAM:
                entry = unit.entry(offset)
                if covers(entry, address):
                    return entry
    return None


def units_at(entries: Entries, address: int) -> Iterator[Unit]:
    """The units whose code holds an address. A unit that was split off is returned whole."""
    candidates = [unit for start, end, unit in listed(entries) if start <= address < end]
    for unit in candidates or [unit for unit in entries.units if covers(unit.top, address)]:
        yield from entries.whole(unit)


def listed(entries: Entries) -> Iterator[tuple[int, int, Unit]]:
    """A range of .debug_aranges: the start and end of code, and its unit."""
    data = entries.section(".debug_aranges")
    offset = 0
    while offset + 12 <= len(data):
        (length,) = struct.unpack_from("<I", data, offset)
        if length == 0xFFFFFFFF:
            return  # DWARF in 64 bits: the units' own entries tell as well
        _, place, size, segment = struct.unpack_from("<HIBB", data, offset + 4)
        pair = 2 * size
        first = offset + 16  # of the header's 12 bytes the next multiple of a pair's
        end = offset + 4 + length
        if size in (4, 8) and not segment:
            last = first + (end - first) // pair * pair
            unit = entries.unit_of(place)
            for start, covered in struct.iter_unpack("<QQ" if size == 8 else "<II", data[first:last]):
                if covered:
                    yield start, start + covered, unit
        if end <= offset:
            return
        offset = end


def origins(entry: Entry) -> Iterator[Entry]:
    """An entry, the entry that it is a copy of, and so on. Each states what those before it leave out."""
    for _ in range(_MOST_CHAIN):
        yield entry
        other = entry.follow(dw.ABSTRACT_ORIGIN) or entry.follow(dw.SPECIFICATION)
        if other is None:
            return
        entry = other


def origin(entry: Entry) -> Entry:
    """The entry with the name and type of a function or a parameter: itself, or the one that it is a copy of."""
    *_, last = origins(entry)
    return last


def attribute(entry: Entry, name: int) -> Entry | None:
    """The entry that an attribute refers to; the attribute of the entry or of the one that it is a copy of."""
    return next((target for original in origins(entry) if (target := original.follow(name)) is not None), None)


def has(entry: Entry, name: int) -> bool:
    """Whether an entry, or what it is a copy of, has an attribute."""
    return any(name in original for original in origins(entry))


def linked_name(entry: Entry) -> str:
    """The name of a function: the linker's, else the source's."""
    names = (original.text(name) for original in origins(entry) for name in (dw.LINKAGE_NAME, dw.MIPS_LINKAGE_NAME))
    return next(filter(None, names), "") or origin(entry).text()


def name_of(entry: Entry) -> str:
    """The name of a parameter."""
    return entry.text() or origin(entry).text()


def parameters_of(entry: Entry) -> list[tuple[Entry, Entry]]:
    """The parameters of a function in the order of its text: as declared, and as this copy has them. Both are the same
    where the copy says nothing of one.
    """
    concrete = [child for child in entry.children() if child.tag == dw.PARAMETER]
    abstract = entry.follow(dw.ABSTRACT_ORIGIN)
    if abstract is None:
        return [(parameter, parameter) for parameter in concrete]
    copies = {}
    for parameter in concrete:
        other = parameter.follow(dw.ABSTRACT_ORIGIN)
        if other is not None:
            copies[other.id] = parameter
    declared = [child for child in abstract.children() if child.tag == dw.PARAMETER]
    pairs = [(parameter, copies.get(parameter.id, parameter)) for parameter in declared]
    return pairs or [(parameter, parameter) for parameter in concrete]
