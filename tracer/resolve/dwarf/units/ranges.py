"""An entry covers ranges of addresses, and a value has its place at each address.

Sources: DWARF 5, 2.17 (ranges), 2.6.2 (location lists), 7.7.3 and 7.25; DWARF 4, 2.6.2 and 2.17.3; GNU's DebugFission
for the lists of split units before DWARF 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.units import constants as dw, forms
from tracer.resolve.dwarf.units.unit import Entry, Unit

_MOST_RANGES = 1 << 16
_ADDRESS = {8: struct.Struct("<Q"), 4: struct.Struct("<I")}
_PAIRS = {8: struct.Struct("<QQ"), 4: struct.Struct("<II")}
"""The layouts of one address and of two, by the bytes of an address."""


def start_of(entry: Entry) -> int | None:
    """A function's first instruction."""
    low = entry.address(dw.LOW_PC)
    return low if low is not None else next((start for start, _ in _ranges(entry)), None)


def covers(entry: Entry, address: int) -> bool:
    """Whether an entry's code holds an address."""
    return any(start <= address < end for start, end in code_of(entry))


def code_of(entry: Entry) -> Iterator[tuple[int, int]]:
    """The beginning and end of each piece of an entry's code."""
    low, high = entry.address(dw.LOW_PC), entry.raw(dw.HIGH_PC)
    if low is not None and high is not None:
        end = entry.address(dw.HIGH_PC)
        yield low, low + (entry.number(dw.HIGH_PC) or 0) if end is None else end
    else:
        yield from _ranges(entry)


def _base(unit: Unit) -> int:
    return (unit.file.skeleton or unit).top.address(dw.LOW_PC) or 0


def _ranges(entry: Entry) -> Iterator[tuple[int, int]]:
    raw = entry.integer(dw.RANGES)
    if raw is None:
        return
    form, offset = raw
    unit = entry.unit
    if unit.version < 5:
        skeleton = unit.file.skeleton
        data = (unit if skeleton is None else skeleton).file.section(".debug_ranges")
        if skeleton is not None:
            offset += unit.base_of(dw.GNU_RANGES_BASE)
        yield from ((start, end) for start, end, _ in _old_list(unit, data, offset, located=False))
        return
    data = unit.file.section(".debug_rnglists")
    if form == forms.RNGLISTX:
        base = unit.base_of(dw.RNGLISTS_BASE)
        offset = base + int.from_bytes(data[base + offset * unit.offset_size :][: unit.offset_size], "little")
    yield from ((start, end) for start, end, _ in _list(unit, data, offset, located=False))


def _old_list(unit: Unit, data: bytes, offset: int, located: bool) -> Iterator[tuple[int, int, bytes]]:
    """A list of .debug_ranges, or of .debug_loc (`located`)."""
    base = _base(unit)
    pair, last = _PAIRS[unit.address_size], (1 << 8 * unit.address_size) - 1
    for _ in range(_MOST_RANGES):
        start, end = pair.unpack_from(data, offset)
        offset += pair.size
        if start == last:
            base = end
            continue
        if not start and not end:
            return
        expression = b""
        if located:
            (size,) = struct.unpack_from("<H", data, offset)
            expression = data[offset + 2 : offset + 2 + size]
            offset += 2 + size
        yield base + start, base + end, expression


def _old_split_list(unit: Unit, data: bytes, offset: int) -> Iterator[tuple[int, int, bytes]]:
    """A list of .debug_loc.dwo before DWARF 5: addresses are numbers in .debug_addr."""
    base = _base(unit)
    for _ in range(_MOST_RANGES):
        kind = data[offset]
        if kind not in (1, 2, 3, 4):
            return
        offset += 1
        first, offset = leb(data, offset) if kind != 4 else _word(data, offset)
        if kind == 1:
            base = unit.address(first)
            continue
        second, offset = leb(data, offset) if kind == 2 else _word(data, offset)
        start = base + first if kind == 4 else unit.address(first)
        end = unit.address(second) if kind == 2 else second + (start if kind == 3 else base)
        (size,) = struct.unpack_from("<H", data, offset)
        yield start, end, data[offset + 2 : offset + 2 + size]
        offset += 2 + size


def _word(data: bytes, offset: int) -> tuple[int, int]:
    """A number of four bytes, and the offset behind it."""
    return int.from_bytes(data[offset : offset + 4], "little"), offset + 4


def _list(unit: Unit, data: bytes, offset: int, located: bool) -> Iterator[tuple[int, int, bytes]]:
    """A list of .debug_rnglists or .debug_loclists: the kinds have the same numbers but for two."""
    base = _base(unit)
    indexed, one, pair = unit.address, _ADDRESS[unit.address_size], _PAIRS[unit.address_size]
    for _ in range(_MOST_RANGES):
        kind = data[offset]
        offset += 1
        if kind == 0:
            return
        if not located and kind >= 5:
            kind += 1  # there is no default location among ranges
        start = end = 0
        if kind in (1, 2, 3, 4):
            first, offset = leb(data, offset)
            if kind == 1:
                base = indexed(first)
                continue
            second, offset = leb(data, offset)
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
            (base,) = one.unpack_from(data, offset)
            offset += one.size
            continue
        elif kind == 7:
            start, end = pair.unpack_from(data, offset)
            offset += pair.size
        elif kind == 8:
            (start,) = one.unpack_from(data, offset)
            size, offset = leb(data, offset + one.size)
            end = start + size
        else:
            return  # a view's number, or what is newer
        expression = b""
        if located:
            size, offset = leb(data, offset)
            expression = data[offset : offset + size]
            offset += size
        yield start, end, expression


def location_at(entry: Entry, address: int, attribute: int = dw.LOCATION) -> bytes | None:
    """The expression that says where a parameter is at an address, or what else has a list of places; None where there
    is none, b"" where it has none at the address.
    """
    raw = entry.raw(attribute)
    if raw is None:
        return None
    form, value = raw
    if isinstance(value, bytes):
        return value
    unit = entry.unit
    if unit.version < 5:
        data = unit.file.section(".debug_loc")
        split = unit.file.skeleton is not None
        places = _old_split_list(unit, data, value) if split else _old_list(unit, data, value, located=True)
    else:
        data = unit.file.section(".debug_loclists")
        if form == forms.LOCLISTX:
            base = unit.base_of(dw.LOCLISTS_BASE)
            value = base + int.from_bytes(data[base + value * unit.offset_size :][: unit.offset_size], "little")
        places = _list(unit, data, value, located=True)
    return next((expression for start, end, expression in places if start <= address < end), b"")


def fixed_address(entry: Entry) -> int | None:
    """The address of a variable that has the same one at all times."""
    expression = entry.block(dw.LOCATION) or b""
    if expression[:1] == b"\x03":  # DW_OP_addr
        return int.from_bytes(expression[1:], "little")
    if expression[:1] in (b"\xa1", b"\xfb"):  # DW_OP_addrx, DW_OP_GNU_addr_index
        return entry.unit.address(leb(expression, 1)[0])
    return None
