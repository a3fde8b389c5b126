"""The ratios that matter: tracer to the floor, to its peers, and its one backend to the other, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scripts.benchmark.model import FLOOR, Results, Row
from scripts.benchmark.spread import Spread, ratio

_COSTS = ("ms", "ns", "MB")


@dataclass(frozen=True)
class Ratio:
    """The cost of `who` in terms of that of `of` (a contestant in the same row, or the floor of that row): less is
    better.
    """

    row: str
    who: str
    of: str
    spread: Spread

    @property
    def name(self) -> str:
        """The name of its column, and of its entry in the baseline."""
        return f"{self.who} ÷ {self.of}"


def ratios(results: Results) -> list[Ratio]:
    """The ratios of all rows, row by row."""
    return [ratio for row in results.rows if row.unit in _COSTS for ratio in _of_row(results, row)]


def _of_row(results: Results, row: Row) -> Iterator[Ratio]:
    for who in results.contestants:
        if not who.startswith("tracer "):
            continue
        ours = results.cell(row.key, who).values
        for of in _others(results, who):
            theirs = results.cell(row.key, of).values
            if of == FLOOR:
                theirs = results.floor(row.floor)
            quotient = ratio(ours, theirs)
            if quotient is not None:
                yield Ratio(row.key, who, of, quotient)


def _others(results: Results, who: str) -> list[str]:
    """The contestants that a tracer is held against: every bpftrace, bcc where it is ftrace, itself of another tree."""
    backend = who.split()[1]
    peers = [name for name in results.contestants if name.startswith("bpftrace ")]
    if who != f"tracer {backend}":
        return [f"tracer {backend}"]
    return [FLOOR, *peers] if backend == "bcc" else ["tracer bcc"]
