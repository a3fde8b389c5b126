"""The order in which a map prints: bpftrace's, with ties in the order of their keys.

By value, ascending: integers and what count, sum, min and max hold by their value, avg and stats by their average,
histograms by how many values they hold. Scalars of any other type, and series, go by key
alone. Keys: integers as numbers, strings as bytes, parts from left to right.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.types import IntType
from tracer.results.store import nothing
from tracer.results.values import Key, MapSnapshot, MapValue


def ordered(snapshot: MapSnapshot, top: int = 0) -> list[tuple[Key, MapValue]]:
    """The entries in printing order; with `top`, only that many from the end: the greatest.

    A map without keys has one entry, even where it holds nothing: what it reads as. A histogram then has none.
    """
    decl = snapshot.decl
    aggregation = None if decl.kind == "scalar" else AGGREGATIONS[decl.kind]
    if not snapshot.items and not decl.key and (aggregation is None or aggregation.single):
        return [((), nothing(decl))]
    rank: Callable[[Any], int] | None = int if isinstance(decl.value, IntType) else _by_key_alone
    items = snapshot.items
    if aggregation is not None:
        rank = aggregation.rank
        items = dict(zip(items, aggregation.together(decl, list(items.values())), strict=True))
    if rank is None:
        return sorted(items.items(), key=itemgetter(0))
    # The parts of one map's keys have one type each, so that the tuples compare as they are.
    entries = sorted(items.items(), key=lambda entry: (rank(entry[1]), entry[0]))
    return entries[-top:] if top else entries


def _by_key_alone(value: Any) -> int:
    return 0
