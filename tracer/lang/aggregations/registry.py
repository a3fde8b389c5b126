"""All aggregations by name: what `MapDecl.kind` says, unless the map holds plain values."""

from __future__ import annotations

from typing import Final

from tracer.lang.aggregations import histograms, numbers
from tracer.lang.aggregations.model import Aggregation

AGGREGATIONS: Final[dict[str, Aggregation]] = {
    each.name: each for each in (*numbers.AGGREGATIONS, *histograms.AGGREGATIONS)
}
