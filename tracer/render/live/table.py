"""The rows of a live table: what each key counted since the last look and since the beginning, sorted and filtered."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.dataclass import dataclass, field

RATE, TOTAL, SUM, P50, P99, MAX, KEY = "rate/s", "total", "sum/s", "p50", "p99", "max", "key"
CPU, SAMPLES, FUNCTION = "cpu%", "samples", "function"
OF_COUNTS = (RATE, TOTAL, KEY)
OF_SAMPLES = (CPU, SAMPLES, FUNCTION)
OF_VALUES = (RATE, TOTAL, SUM, P50, P99, MAX, KEY)
_WIDTH = 11


@dataclass(slots=True)
class Row:
    """What a key had: `count` and `sum` since the last look, `total` since the beginning, and percentiles."""

    total: int = 0
    count: int = 0
    sum: int = 0
    percentiles: Mapping[str, int] = field(default_factory=dict)


class Table:
    """The table of keys; `values`: a value is summed up beside the counts. `hz`: the counts are samples, so many a
    second on each CPU, or 0. `sort` is a column of `columns`, the last of which is the key.
    """

    def __init__(self, values: bool, hz: int = 0) -> None:
        self.columns = OF_SAMPLES if hz else OF_VALUES if values else OF_COUNTS
        self.sort = SUM if values else self.columns[0]
        self._hz = hz
        self.filter = b""
        self.frozen = False
        self._rows: dict[bytes, Row] = {}
        self._shown: list[tuple[bytes, Row]] = []
        self._seconds = self._shown_seconds = 1.0

    def look(
        self, counts: Mapping[bytes, int], sums: Mapping[bytes, int], percentiles: Mapping[bytes, Mapping[str, int]],
        seconds: float,
    ) -> None:  # fmt: skip
        """What was counted in the last `seconds`. What is shown stays as it is while it is frozen."""
        self._seconds = max(seconds, 0.001)
        for row in self._rows.values():
            row.count = row.sum = 0
            row.percentiles = {}
        for key, count in counts.items():
            row = self._rows.setdefault(key, Row())
            row.count, row.sum, row.percentiles = count, sums.get(key, 0), percentiles.get(key, {})
            row.total += count
        if not self.frozen:
            self._show()

    def freeze(self) -> None:
        """Stops or goes on to show what comes."""
        self.frozen = not self.frozen
        if not self.frozen:
            self._show()

    def sort_by_next(self) -> None:
        """Sorts by the next column."""
        self.sort = self.columns[(self.columns.index(self.sort) + 1) % len(self.columns)]

    def lines(self, width: int, height: int) -> list[bytes]:
        """The head and the first rows, none longer than `width`, no more than `height`."""
        *numbers, last = self.columns
        head = b"".join([self._cell(self._head(name)) for name in numbers]) + b"  " + self._head(last)
        lines = [head]
        for key, row in self._sorted()[: max(height - 1, 0)]:
            cells = [self._cell(_shown(self._number(row, name))) for name in numbers]
            lines.append(b"".join(cells) + b"  " + b" ".join(key.split()))
        return [line[:width] for line in lines[:height]]

    def numbers(self, most: int | None) -> list[tuple[bytes, dict[str, float]]]:
        """The rows of the last look by the names of their columns, the first `most` of them."""
        names = self.columns[:-1]
        return [(key, {name: self._number(row, name) for name in names}) for key, row in self._sorted()[:most]]

    @property
    def seconds(self) -> float:
        """How long the last look took."""
        return self._shown_seconds

    def _sorted(self) -> list[tuple[bytes, Row]]:
        rows = [(key, row) for key, row in self._shown if self.filter in key]
        rows.sort(key=lambda pair: pair[0])
        if self.sort != self.columns[-1]:
            rows.sort(key=lambda pair: self._number(pair[1], self.sort), reverse=True)
        return rows

    def _show(self) -> None:
        self._shown = [
            (key, Row(row.total, row.count, row.sum, row.percentiles)) for key, row in self._rows.items()
        ]
        self._shown_seconds = self._seconds

    def _head(self, name: str) -> bytes:
        return name.encode() + b"*" * (name == self.sort)

    def _number(self, row: Row, name: str) -> float:
        if name == RATE:
            return row.count / self._shown_seconds
        if name == CPU:
            return 100 * row.count / self._hz / self._shown_seconds
        if name == SUM:
            return row.sum / self._shown_seconds
        return row.total if name in (TOTAL, SAMPLES) else row.percentiles.get(name, 0)

    def _cell(self, text: bytes) -> bytes:
        return text.rjust(_WIDTH)


def _shown(number: float) -> bytes:
    return b"%d" % round(number) if number >= 10 or number == round(number) else b"%.1f" % number


def keys_help(table: Table) -> bytes:
    """What keys do."""
    state = b"  FROZEN" if table.frozen else b""
    chosen = b"  /%b" % table.filter if table.filter else b""
    return b"q quit  s sort  f freeze  / filter%b%b" % (chosen, state)
