"""One map from several partial ones: CPUs, or what the kernel counted and what BEGIN, END and interval added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from tracer.lang.typed import MapDecl
from tracer.results.integers import wrap_int
from tracer.results.store import UNSET, is_signed
from tracer.results.values import Average, Key, MapValue


def merge(decl: MapDecl, partials: Iterable[Mapping[Key, MapValue]]) -> dict[Key, MapValue]:
    """The sum of partial maps, in the forms of `results.values`; none of them is changed.

    Sums wrap at 64 bits. `UNSET` in a min or max map (a key that `zero` left without a value) gives way to any value,
    and becomes 0 where there is none. Scalars do not add up: the last partial map that has the key gives its value.
    """
    merged: dict[Key, MapValue] = {}
    for partial in partials:
        for key, value in partial.items():
            held = merged.get(key)
            merged[key] = _copy(value) if held is None else _joined(decl, held, value)
    for key, value in merged.items():
        if value is UNSET:
            merged[key] = 0
    return merged


def _copy(value: MapValue) -> MapValue:
    return dict(value) if isinstance(value, dict) else value


def _joined(decl: MapDecl, held: MapValue, value: MapValue) -> MapValue:
    match decl.kind:
        case "count":
            return cast(int, held) + cast(int, value)
        case "sum":
            return wrap_int(cast(int, held) + cast(int, value), 64, is_signed(decl))
        case "min" | "max":
            if held is UNSET or value is UNSET:
                return value if held is UNSET else held
            choose = min if decl.kind == "min" else max
            return choose(cast(int, held), cast(int, value))
        case "avg" | "stats":
            one, other = cast(Average, held), cast(Average, value)
            return Average(one.hits + other.hits, wrap_int(one.total + other.total, 64, is_signed(decl)))
        case "hist" | "lhist":
            counts = cast("dict[int, int]", held)
            for bucket, count in cast("dict[int, int]", value).items():
                counts[bucket] = counts.get(bucket, 0) + count
            return counts
        case _:
            return value
