"""The aggregations: one object each."""

from __future__ import annotations

from tracer.lang.aggregations import histograms, numbers

AGGREGATIONS = (*numbers.AGGREGATIONS, *histograms.AGGREGATIONS)
