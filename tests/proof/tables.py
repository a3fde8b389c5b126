"""The kernel's elements of a map → the map, for one CPU, by the rules of `backends/bcc/maps` read plainly."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from tests.proof.world import cut_to
from tracer.backends.bcc.maps.element_bytes import KeyLayout, decoder
from tracer.backends.bcc.maps.tables import Table
from tracer.lang.aggregations.aggregation import BUCKETS, EXTREME, MEAN, PEAKS, TOTAL, VALUE
from tracer.lang.aggregations.registry import kept_of
from tracer.lang.typed import MapDecl
from tracer.lang.types import IntType
from tracer.results.store import empty_value
from tracer.results.values import Average, Key, MapStore, MapValue

Element = tuple[int, bytes, bytes]
"""Number of the kernel's map, key, value."""


def maps_of(decl: MapDecl, table: Table | None, elements: Sequence[Element], mark: int | None) -> dict[Key, MapValue]:
    """A map by its keys, as it is at a mark where probes clear it."""
    found: dict[Key, MapValue] = {}
    if table is None:
        return found
    for number, raw, value in elements:
        if number not in table.numbers:
            continue
        zeroed = False
        if mark is not None:
            (made,) = struct.unpack_from("=Q", raw, 8)
            if made & 0xFFFF_FFFF != mark & 0xFFFF_FFFF or made >> 32 > mark >> 32:
                continue
            zeroed = made >> 32 < mark >> 32
        bucket = 0
        if table.grid is not None:
            place, bucket = divmod(struct.unpack("=I", raw)[0], table.buckets)
            key = table.grid.key(place)
            if _is_nothing(table, value):
                continue
        else:
            assert table.key is not None
            bucket = struct.unpack_from("=I", raw, 4)[0] if table.buckets > 1 else 0
            key = table.key.decoder()(raw)
        if zeroed:
            found.setdefault(key, _nothing(decl))
        elif table.buckets > 1:
            counts = found.setdefault(key, {})
            assert isinstance(counts, dict)
            counts[bucket] = _value(decl, table, value)
        else:
            found[key] = _value(decl, table, value)
    return found


def in_kernel_order(decl: MapDecl, items: Mapping[Key, MapValue]) -> list[tuple[Key, MapValue]]:
    """As the shim walks a map: table by table, and in each as the elements were made."""
    layout = KeyLayout.of(decl.key, head=False)
    return sorted(items.items(), key=lambda item: len(layout.encode(item[0])))


def lister(maps: MapStore, decl: MapDecl) -> Callable[[], list[tuple[object, object]]]:
    """What the Python of steps goes over, in that order."""
    return lambda: [
        (key[0] if len(key) == 1 else key, value.mean if isinstance(value, Average) else value)
        for key, value in in_kernel_order(decl, maps.snapshot(decl.name).items)
    ]


def _is_nothing(table: Table, value: bytes) -> bool:
    """Whether nothing was added at a place of an array."""
    words = struct.unpack(f"={len(value) // 8}Q", value)
    return not (words[1] if table.cell is EXTREME else words[0])


def _nothing(decl: MapDecl) -> MapValue:
    if kept_of(decl) is MEAN:
        return Average(0, 0)
    if kept_of(decl) in (BUCKETS, PEAKS):
        return {}
    value: MapValue = empty_value(decl.value) if decl.kind == "scalar" else 0
    return value


def _value(decl: MapDecl, table: Table, raw: bytes) -> MapValue:
    if table.cell is VALUE:
        return decoder(decl.value)(raw, 0)
    words = struct.unpack(f"={len(raw) // 8}Q", raw)
    signed = isinstance(decl.value, IntType) and decl.value.signed
    match decl.kind:
        case "count" | "hist" | "lhist":
            return int(words[0])
        case "quantiles":
            return words[0], cut_to(words[1] ^ (signed << 63), 64, signed)
        case "sum":
            return cut_to(words[1], 64, signed)
        case "avg" | "stats":
            return Average(words[0], cut_to(words[1], 64, signed))
        case "max":
            return cut_to(words[0] ^ (signed << 63), 64, signed)
        case "min":
            return cut_to(~words[0] ^ (signed << 63), 64, signed)
    assert isinstance(decl.value, IntType)
    total = words[1] if table.cell is TOTAL else words[0]
    return cut_to(total, decl.value.bits, decl.value.signed)
