"""All aggregations by name: what `MapDecl.kind` says, unless the map holds plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracer.lang.registry import Registry

if TYPE_CHECKING:
    from tracer.lang.aggregations.model import Aggregation, Buckets, Keeps
    from tracer.lang.typed import MapDecl

_MODULES = ("numbers", "histograms", "series")
SOURCES: Final = tuple((f"tracer.lang.aggregations.{name}", "AGGREGATIONS") for name in _MODULES)
AGGREGATIONS: Final[Registry[Aggregation]] = Registry(*SOURCES)


def keeps_of(decl: MapDecl) -> Keeps:
    """What a hit does to a key of a map; "value" for plain values."""
    return "value" if decl.kind == "scalar" else AGGREGATIONS[decl.kind].keeps


def buckets_of(decl: MapDecl) -> Buckets | None:
    """The buckets of a histogram; None for other maps."""
    return None if decl.kind == "scalar" else AGGREGATIONS[decl.kind].buckets
