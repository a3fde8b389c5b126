"""Medians, their spread, and ratios within rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Several figures for one thing: the median, the quartiles, the smallest and the largest."""

    median: float
    lower: float
    upper: float
    least: float
    most: float

    @property
    def half(self) -> float:
        """Half the distance between the quartiles: what stands after ±."""
        return (self.upper - self.lower) / 2


def spread(figures: Sequence[float]) -> Spread:
    """The spread of at least one figure."""
    ordered = sorted(figures)
    return Spread(
        statistics.median(ordered), _quantile(ordered, 0.25), _quantile(ordered, 0.75), ordered[0], ordered[-1]
    )


def paired(
    ones: Sequence[float | None],
    others: Sequence[float | None],
    combine: Callable[[float, float], float],
) -> Spread | None:
    """The spread of the figures that `combine` makes of each round where both have one; None where no round has."""
    figures = [combine(one, other) for one, other in zip(ones, others, strict=False) if one is not None and other]
    return spread(figures) if figures else None


def ratio(ones: Sequence[float | None], others: Sequence[float | None]) -> Spread | None:
    """The spread of the quotients, round by round."""
    return paired(ones, others, lambda one, other: one / other)


def difference(ones: Sequence[float | None], others: Sequence[float | None]) -> Spread | None:
    """The spread of the differences, round by round."""
    return paired(ones, others, lambda one, other: one - other)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """By interpolation between the two figures nearest."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
