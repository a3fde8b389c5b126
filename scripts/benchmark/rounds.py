"""The rounds: every contestant does every work once in each, in another order each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scripts.benchmark.model import Cannot, Cell, Reading, Results, Row, Work


def run_rounds(works: Sequence[Work], contestants: Sequence[str], rounds: int, say: Callable[[str], None]) -> Results:
    """Runs all works in rounds, and returns all figures. `say` is told what begins."""
    gathered = _Gathered(works)
    for number in range(rounds):
        for work in works:
            for who in _rotated([who for who in contestants if who in work.runs], number):
                gathered.ask(work, who, number, say)
    return gathered.results(contestants)


def _rotated(names: list[str], by: int) -> list[str]:
    turn = by % len(names) if names else 0
    return names[turn:] + names[:turn]


class _Gathered:
    """The figures that came so far."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works
        self._values: dict[tuple[str, str], list[float | None]] = {}
        self._faults: dict[tuple[str, str], list[str]] = {}
        self._absent = {(row.key, who): why for work in works for row in work.rows for who, why in work.absent.items()}

    def ask(self, work: Work, who: str, number: int, say: Callable[[str], None]) -> None:
        """Runs a work once; twice where caches are to be filled first."""
        first = work.rows[0].key
        if (first, who) in self._absent:
            return
        say(f"round {number + 1}: {work.rows[0].title}: {who}")
        try:
            if number == 0 and who in work.warm:
                work.warm[who]()
            reading = work.runs[who]()
        except Cannot as why:
            for row in work.rows:
                self._absent[row.key, who] = str(why)
            return
        self._note(work.rows, who, number, reading)

    def _note(self, rows: Sequence[Row], who: str, number: int, reading: Reading) -> None:
        for row in rows:
            values = self._values.setdefault((row.key, who), [])
            values.extend([None] * (number - len(values)))
            values.append(reading.figures.get(row.key))
        self._faults.setdefault((rows[0].key, who), []).extend(reading.faults)

    def results(self, contestants: Sequence[str]) -> Results:
        """The figures as a table."""
        keys = dict.fromkeys([*self._values, *self._absent])
        cells = {
            key: Cell(tuple(self._values.get(key, ())), tuple(self._faults.get(key, ())), self._absent.get(key))
            for key in keys
        }
        rows = tuple(row for work in self._works for row in work.rows)
        return Results(rows, tuple(contestants), cells)
