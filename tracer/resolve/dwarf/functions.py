"""The function that holds an address, and where its parameters are at its first instruction.

Its unit is found by `.debug_aranges`, or by what each unit's own entry says it covers, and its entry by the bytes of
its address. Sources: DWARF 5, 6.1.2 (addresses), 2.17 (ranges), 2.6.2 (location lists); DWARF 4, 2.6.2 and 2.17.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.resolve.dwarf import constants as dw
from tracer.resolve.dwarf.entries import Entries, Entry, Unit
from tracer.resolve.dwarf.leb import leb

_MOST_CHAIN = 8
_MOST_RANGES = 1 << 16


def function_at(entries: Entries, address: int) -> Entry | None:
    """The function whose code holds an address, as it was compiled."""
    units = list(_listed(entries, address)) or [unit for unit in entries.units if _covers(unit.top, address)]
    for unit in units:
        mark = struct.pack("<Q", address)
        place = unit.data.find(mark, unit.first, unit.end)
        while place >= 0:
            last = None
            for at, _, abbreviation in unit.walk(near=place):
                if at > place:
                    break
                last = at, abbreviation
            if last is not None and last[1].tag == dw.SUBPROGRAM:
                entry = unit.entry(last[0])
                if entry.address(dw.LOW_PC) == address:
                    return entry
            place = unit.data.find(mark, place + 1, unit.end)
        for at, _, abbreviation in unit.walk():
            if abbreviation.tag == dw.SUBPROGRAM:
                entry = unit.entry(at)
                if _covers(entry, address):
                    return entry
    return None


def _listed(entries: Entries, address: int) -> Iterator[Unit]:
    """The units that .debug_aranges names for an address."""
    data = entries.section(".debug_aranges")
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        if length == 0xFFFFFFFF:
            return  # DWARF in 64 bits: the units' own entries tell as well
        _, place, size, segment = struct.unpack_from("<HIBB", data, at + 4)
        first = at + (12 + 15) // 16 * 16
        end = at + 4 + length
        if size == 8 and not segment:
            last = first + (end - first) // 16 * 16
            for start, covered in struct.iter_unpack("<QQ", data[first:last]):
                if start <= address < start + covered:
                    yield entries.unit_of(place)
                    break
        if end <= at:
            return
        at = end


def start_of(entry: Entry) -> int | None:
    """A function's first instruction."""
    low = entry.address(dw.LOW_PC)
    return low if low is not None else next((start for start, _ in _ranges(entry)), None)


def _covers(entry: Entry, address: int) -> bool:
    low, high = entry.address(dw.LOW_PC), entry.raw(dw.HIGH_PC)
    if low is not None and high is not None:
        end = entry.address(dw.HIGH_PC)
        if end is None:
            end = low + (entry.number(dw.HIGH_PC) or 0)
        return low <= address < end
    return any(start <= address < end for start, end in _ranges(entry))


def _base(unit: Unit) -> int:
    return unit.top.address(dw.LOW_PC) or 0


def _ranges(entry: Entry) -> Iterator[tuple[int, int]]:
    found = entry.integer(dw.RANGES)
    if found is None:
        return
    form, at = found
    unit = entry.unit
    if unit.version < 5:
        yield from ((start, end) for start, end, _ in _old_list(unit, unit.file.section(".debug_ranges"), at, 0))
        return
    data = unit.file.section(".debug_rnglists")
    if form == 0x23:  # DW_FORM_rnglistx
        base = unit.base_of(dw.RNGLISTS_BASE)
        at = base + int.from_bytes(data[base + at * unit.offset_size :][: unit.offset_size], "little")
    yield from ((start, end) for start, end, _ in _list(unit, data, at, located=False))


def _old_list(unit: Unit, data: bytes, at: int, located: int) -> Iterator[tuple[int, int, bytes]]:
    """A list of .debug_ranges, or of .debug_loc (`located`)."""
    base = _base(unit)
    for _ in range(_MOST_RANGES):
        start, end = struct.unpack_from("<QQ", data, at)
        at += 16
        if start == 0xFFFF_FFFF_FFFF_FFFF:
            base = end
            continue
        if not start and not end:
            return
        expression = b""
        if located:
            (size,) = struct.unpack_from("<H", data, at)
            expression = data[at + 2 : at + 2 + size]
            at += 2 + size
        yield base + start, base + end, expression


def _list(unit: Unit, data: bytes, at: int, located: bool) -> Iterator[tuple[int, int, bytes]]:
    """A list of .debug_rnglists or .debug_loclists: the kinds have the same numbers but for two."""
    base = _base(unit)
    addresses = unit.base_of(dw.ADDR_BASE)

    def indexed(index: int) -> int:
        where = addresses + index * 8
        return int.from_bytes(unit.file.addresses[where : where + 8], "little")

    for _ in range(_MOST_RANGES):
        kind = data[at]
        at += 1
        if kind == 0:
            return
        if not located and kind >= 5:
            kind += 1  # there is no default location among ranges
        start = end = 0
        if kind in (1, 2, 3, 4):
            first, at = leb(data, at)
            if kind == 1:
                base = indexed(first)
                continue
            second, at = leb(data, at)
            if kind == 2:
                start, end = indexed(first), indexed(second)
            elif kind == 3:
                start = indexed(first)
                end = start + second
            else:
                start, end = base + first, base + second
        elif kind == 5:
            end = 1 << 64
        elif kind == 6:
            (base,) = struct.unpack_from("<Q", data, at)
            at += 8
            continue
        elif kind == 7:
            start, end = struct.unpack_from("<QQ", data, at)
            at += 16
        elif kind == 8:
            (start,) = struct.unpack_from("<Q", data, at)
            size, at = leb(data, at + 8)
            end = start + size
        else:
            return  # a view's number, or what is newer
        expression = b""
        if located:
            size, at = leb(data, at)
            expression = data[at : at + size]
            at += size
        yield start, end, expression


def origin(entry: Entry) -> Entry:
    """What says the names and types of a function or a parameter: itself, or the one that it is a copy of."""
    for _ in range(_MOST_CHAIN):
        other = entry.follow(dw.ABSTRACT_ORIGIN) or entry.follow(dw.SPECIFICATION)
        if other is None:
            return entry
        entry = other
    return entry


def attribute(entry: Entry, name: int) -> Entry | None:
    """What an attribute of an entry, or of what it is a copy of, leads to."""
    for _ in range(_MOST_CHAIN):
        found = entry.follow(name)
        if found is not None:
            return found
        other = entry.follow(dw.ABSTRACT_ORIGIN) or entry.follow(dw.SPECIFICATION)
        if other is None:
            return None
        entry = other
    return None


def has(entry: Entry, name: int) -> bool:
    """Whether an entry, or what it is a copy of, has an attribute."""
    for _ in range(_MOST_CHAIN):
        if name in entry:
            return True
        other = entry.follow(dw.ABSTRACT_ORIGIN) or entry.follow(dw.SPECIFICATION)
        if other is None:
            return False
        entry = other
    return False


def name_of(entry: Entry) -> str:
    """The name of a parameter."""
    return entry.text() or origin(entry).text()


def parameters_of(entry: Entry) -> list[tuple[Entry, Entry]]:
    """The parameters of a function in the order of its text: as declared, and as this copy has it (the same where it
    has no word on it).
    """
    own = [each for each in entry.children() if each.tag == dw.PARAMETER]
    abstract = entry.follow(dw.ABSTRACT_ORIGIN)
    if abstract is None:
        return [(each, each) for each in own]
    copies = {}
    for each in own:
        other = each.follow(dw.ABSTRACT_ORIGIN)
        if other is not None:
            copies[other.id] = each
    declared = [each for each in abstract.children() if each.tag == dw.PARAMETER]
    return [(each, copies.get(each.id, each)) for each in declared] or [(each, each) for each in own]


def location_at(entry: Entry, address: int) -> bytes | None:
    """The expression that says where a parameter is at an address; None where there is none."""
    found = entry.raw(dw.LOCATION)
    if found is None:
        return None
    form, value = found
    if isinstance(value, bytes):
        return value
    unit = entry.unit
    if unit.version < 5:
        places = _old_list(unit, unit.file.section(".debug_loc"), value, 1)
    else:
        data = unit.file.section(".debug_loclists")
        if form == 0x22:  # DW_FORM_loclistx
            top = unit.top
            base = top.number(dw.LOCLISTS_BASE, 0) or 0
            value = base + int.from_bytes(data[base + value * unit.offset_size :][: unit.offset_size], "little")
        places = _list(unit, data, value, located=True)
    return next((expression for start, end, expression in places if start <= address < end), b"")
