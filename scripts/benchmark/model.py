"""Rows, works and readings, and the table made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

FLOOR = "floor"
"""The column of what cannot be undercut: no probe, an empty program, an interpreter that does nothing."""


class BenchError(Exception):
    """The benchmark cannot go on; the message is one line for the user."""


class Cannot(Exception):
    """A contestant cannot do a work here; the message is the reason. It is not asked again."""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    `key` names it in JSON and in the baseline, `floor` is the key of the row whose floor it is held against.
    """

    key: str
    title: str
    unit: str
    digits: int = 0
    floor: str | None = None


@dataclass(frozen=True)
class Reading:
    """The result of one run: a figure for each row it fills, and the errors of its answer."""

    figures: Mapping[str, float]
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """A thing to do: `runs` by contestant, `absent` the reasons of those who cannot.

    `warm` is run once, unmeasured, before a contestant's first run, so that its caches are filled.
    """

    part: str
    rows: tuple[Row, ...]
    runs: Mapping[str, Callable[[], Reading]]
    absent: Mapping[str, str] = field(default_factory=dict)
    warm: Mapping[str, Callable[[], object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """The results of a contestant for a row: a figure for each round, None where the run failed or was not made."""

    values: tuple[float | None, ...] = ()
    faults: tuple[str, ...] = ()
    absent: str | None = None

    @property
    def figures(self) -> tuple[float, ...]:
        """The figures of the rounds that gave one."""
        return tuple(value for value in self.values if value is not None)


@dataclass(frozen=True)
class Results:
    """All rows in order, all contestants in the order of their columns, and a cell where a contestant was asked."""

    rows: tuple[Row, ...]
    contestants: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def cell(self, row: str, contestant: str) -> Cell:
        """The cell, an empty one where the contestant was not asked."""
        return self.cells.get((row, contestant), Cell())

    def has(self, row: str, contestant: str) -> bool:
        """Whether there is a figure."""
        return bool(self.cell(row, contestant).figures)

    def floor(self, row: str | None) -> tuple[float | None, ...]:
        """The floor that a row names, round by round; where the kernel has no uprobe_multi, that of a perf event."""
        if row == "program" and not self.has(row, FLOOR):
            row = "program-perf"
        return self.cell(row, FLOOR).values if row else ()
