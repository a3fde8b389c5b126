"""The registry of the aggregations by name, which is the `MapDecl.kind` of a map that holds no plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracer.lang.registry import Registry

if TYPE_CHECKING:
    from tracer.lang.aggregations.aggregation import Aggregation, Buckets, Kept
    from tracer.lang.typed import MapDecl

_MODULES = ("numbers", "histograms", "quantiles", "series")
SOURCES: Final = tuple((f"tracer.lang.aggregations.{name}", "AGGREGATIONS") for name in _MODULES)
AGGREGATIONS: Final[Registry[Aggregation]] = Registry(*SOURCES)


def kept_of(decl: MapDecl) -> Kept:
    """The way in which the keys of a map are kept, and what a hit does to one."""
    if decl.kind == "scalar":
        from tracer.lang.aggregations.aggregation import PLAIN

        return PLAIN
    return AGGREGATIONS[decl.kind].kept


def buckets_of(decl: MapDecl) -> Buckets | None:
    """The buckets of a histogram; None for other maps."""
    return None if decl.kind == "scalar" else AGGREGATIONS[decl.kind].buckets
