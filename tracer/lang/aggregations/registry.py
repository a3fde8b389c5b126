"""All aggregations by name: what `MapDecl.kind` says, unless the map holds plain values."""

from __future__ import annotations

from typing import Final

from tracer.lang.aggregations import histograms, numbers
from tracer.lang.aggregations.model import Aggregation, Buckets, Keeps
from tracer.lang.typed import MapDecl

AGGREGATIONS: Final[dict[str, Aggregation]] = {
    each.name: each for each in (*numbers.AGGREGATIONS, *histograms.AGGREGATIONS)
}


def keeps_of(decl: MapDecl) -> Keeps:
    """What a hit does to a key of a map; "value" for plain values."""
    return AGGREGATIONS[decl.kind].keeps if decl.kind in AGGREGATIONS else "value"


def buckets_of(decl: MapDecl) -> Buckets | None:
    """The buckets of a histogram; None for other maps."""
    return AGGREGATIONS[decl.kind].buckets if decl.kind in AGGREGATIONS else None
