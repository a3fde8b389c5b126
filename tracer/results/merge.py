"""One map from several partial ones: CPUs, or what the kernel counted and what BEGIN, END and interval added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracer.lang.aggregations.aggregation import UNSET
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.typed import MapDecl
from tracer.results.values import Key, MapValue


def merge(decl: MapDecl, partials: Iterable[Mapping[Key, MapValue]]) -> dict[Key, MapValue]:
    """The sum of partial maps, in the forms of `results.values`; none of them is changed.

    Sums wrap at 64 bits. `UNSET` in a min or max map (a key that `zero` left without a value) gives way to any value,
    and becomes 0 where there is none. Scalars do not add up: the last partial map that has the key gives its value.
    """
    aggregation = None if decl.kind == "scalar" else AGGREGATIONS[decl.kind]
    merge_two = None if aggregation is None else aggregation.merge
    merged: dict[Key, MapValue] = {}
    for partial in partials:
        for key, value in partial.items():
            held = merged.get(key)
            merged[key] = _copy(value) if held is None else value if merge_two is None else merge_two(decl, held, value)
    for key, value in merged.items():
        if value is UNSET:
            merged[key] = 0
    return merged


def _copy(value: MapValue) -> MapValue:
    return dict(value) if isinstance(value, dict) else value
