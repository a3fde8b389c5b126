"""An event's `hist` file: the tables of its triggers.

Each begins with `# trigger info: hist:keys=… [active]`, then a line for each row

    { f0:         12, f1: ~ 10-19 } hitcount:          3  f2:         40
    { f0:         12, f1: ~ 2^5   } hitcount:          1  f2:          7

and at its end `Hits: N` (hits that are in the table) and `Dropped: N` (those for which there was no row).
"""

from __future__ import annotations

import re

from tracer.dataclass import dataclass
from tracer.errors import TracerError

_INFO = "# trigger info: "
_NUMBER = re.compile(r": +(?:~ )?(2\^)?(\d+)")
_TOTAL = re.compile(r"^    (Hits|Dropped): (\d+)$", re.MULTILINE)
Row = tuple[int, tuple[int, ...]]
"""Hits and sums, each as unsigned 64 bits."""


@dataclass(frozen=True, slots=True)
class Table:
    """A trigger's rows by key. A number of a key is as unsigned 64 bits, of buckets the first value of the bucket."""

    rows: dict[tuple[int, ...], Row]
    hits: int
    dropped: int


def parse(text: str) -> dict[str, Table]:
    """The tables by their trigger's line, without its state. Raises `TracerError` where it cannot be read."""
    tables: dict[str, Table] = {}
    for section in text.split(_INFO)[1:]:
        line, _, rest = section.partition("\n")
        line, _, _ = line.rpartition(" [")
        totals = dict(_TOTAL.findall(rest))
        if not line or totals.keys() != {"Hits", "Dropped"}:
            raise TracerError("this kernel writes hist files in an unknown form", detail=section[:1000])
        rows = dict(_row(row) for row in rest.splitlines() if row.startswith("{ "))
        tables[line] = Table(rows, int(totals["Hits"]), int(totals["Dropped"]))
    return tables


def _row(text: str) -> tuple[tuple[int, ...], Row]:
    key, mark, values = text.partition(" } hitcount")
    columns = tuple(_first(int(number)) if power else int(number) for power, number in _NUMBER.findall(key))
    numbers = [int(number) for _, number in _NUMBER.findall(values)]
    if not mark or not numbers or len(columns) != key.count(", ") + 1:
        raise TracerError("this kernel writes hist files in an unknown form", detail=text)
    return columns, (numbers[0], tuple(numbers[1:]))


def _first(power: int) -> int:
    """The first value that `.log2` counts under a power of two: those up to 2^n that are more than 2^(n-1)."""
    return (1 << power - 1) + 1 if power else 0
