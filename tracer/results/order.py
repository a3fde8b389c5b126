"""The order in which a map prints: bpftrace's, with ties in the order of their keys.

By value, ascending: integers and what count, sum, min and max hold by their value, avg and stats by their average,
histograms by how many values they hold. Scalars of any other type go by key alone. Keys: integers as numbers, strings
as bytes, parts from left to right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.lang.typed import MapDecl
from tracer.lang.types import IntType
from tracer.results.store import nothing
from tracer.results.values import Average, Key, MapSnapshot, MapValue


def ordered(snapshot: MapSnapshot, top: int = 0) -> list[tuple[Key, MapValue]]:
    """The entries in printing order; with `top`, only that many from the end: the greatest.

    A map without keys has one entry, even where it holds nothing: what it reads as. A histogram then has none.
    """
    decl = snapshot.decl
    if not snapshot.items and not decl.key and decl.kind not in ("hist", "lhist"):
        return [((), nothing(decl))]
    rank = _rank(decl)
    # The parts of one map's keys have one type each, so that the tuples compare as they are.
    entries = sorted(snapshot.items.items(), key=lambda entry: (rank(entry[1]), entry[0]))
    return entries[-top:] if top else entries


def _rank(decl: MapDecl) -> Callable[[Any], int]:
    if decl.kind in ("hist", "lhist"):
        return lambda counts: sum(counts.values())
    if decl.kind in ("avg", "stats"):
        return _mean
    if decl.kind == "scalar" and not isinstance(decl.value, IntType):
        return lambda value: 0
    return int


def _mean(average: Average) -> int:
    return average.mean
