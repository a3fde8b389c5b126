"""The results of the tests on a kernel: kept, reported, and written into the table of docs/kernels.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scripts.lab import LabError, NotAvailable
from scripts.lab.cache import cache_directory
from scripts.lab.kernels import KERNELS, SOURCE_PACKAGE, Kernel

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
COMPLAINED = "the kernel complained"
_OWN = "tests of this kernel"
_FROM = "<!-- written by scripts/vm test --all: from here -->"
_TO = "<!-- to here -->"
_COUNTED = ("passed", "refused", "exceptions", "failed")
_HEADER = ("kernel", "run on", "where from", "backend", *_COUNTED, "suite", "own tests")


@dataclass(frozen=True)
class Result:
    """The result of a test in a guest.

    `outcome` is passed, skipped or failed; or refused or excepted, where the suite says that the backend refuses the
    case, or answers otherwise on such a kernel, and it did so.
    """

    test: str
    backend: str | None
    outcome: str
    said: str

    @property
    def part(self) -> str:
        """The part with which it is counted."""
        if self.backend is None:
            return _OWN
        return f"{'suite' if self.test.startswith('tests/suite/') else 'contract'} on {self.backend}"


@dataclass(frozen=True)
class Outcome:
    """The results of the tests on one kernel; `trouble` are other errors, in lines."""

    kernel: str
    release: str
    results: tuple[Result, ...]
    trouble: tuple[str, ...]
    took_s: float
    day: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything is as it must be."""
        return not self.trouble and bool(self.results) and not self.failures

    @property
    def done(self) -> tuple[str, ...]:
        """The tests that did not fail."""
        return tuple(result.test for result in self.results if result.outcome != "failed")

    def with_more(self, later: Outcome) -> Outcome:
        """The run with the results of a later one that went on with it; what the kernel complained of stays."""
        results = {result.test: result for result in (*self.results, *later.results)}
        complaints = tuple(line for line in self.trouble if line.startswith(COMPLAINED))
        took = self.took_s + later.took_s
        return replace(later, results=tuple(results.values()), trouble=(*complaints, *later.trouble), took_s=took)

    @property
    def failures(self) -> tuple[Result, ...]:
        """The tests that failed."""
        return tuple(result for result in self.results if result.outcome == "failed")


@dataclass(frozen=True)
class Row:
    """The results of one backend on a kernel, in legs: a case in one format. The tests of tests/vm have no backend.

    `refused` and `excepted` legs have passed too: the suite says that the backend refuses the case everywhere, or that
    it answers otherwise on such a kernel.
    """

    part: str
    passed: int = 0
    refused: int = 0
    excepted: int = 0
    skipped: int = 0
    failed: int = 0

    def __str__(self) -> str:
        parts = [f"{self.passed} passed"]
        parts += [
            f"{count} {name}"
            for count, name in (
                (self.refused, "refused"),
                (self.excepted, "said exceptions"),
                (self.skipped, "left out"),
                (self.failed, "FAILED"),
            )
            if count
        ]
        return f"{self.part}: {', '.join(parts)}"


def rows(results: Sequence[Result]) -> list[Row]:
    """The counts by suite and backend, the tests of the kernel last."""
    table: list[Row] = []
    for part in sorted({result.part for result in results}, key=lambda name: (name == _OWN, name)):
        counts = Counter(result.outcome for result in results if result.part == part)
        outcomes = ("passed", "refused", "excepted", "skipped", "failed")
        table.append(Row(part, *(counts[outcome] for outcome in outcomes)))
    return table


def report(outcome: Outcome) -> str:
    """The report in some lines: the counts, and all that went wrong."""
    verdict = "passed" if outcome.passed else "FAILED"
    lines = [f"{outcome.kernel} ({outcome.release or 'did not boot'}): {verdict}, {outcome.took_s:.0f} s"]
    lines += [f"  {row}" for row in rows(outcome.results)]
    for result in outcome.failures:
        lines += [f"--- {outcome.kernel}: {result.test}", result.said.rstrip()]
    lines += [f"--- {outcome.kernel}: {line}" for line in outcome.trouble]
    return "\n".join(lines)


def keep(outcome: Outcome) -> None:
    """Keeps what came of the whole suite on a kernel, instead of what was kept of it."""
    path = cache_directory() / "results" / f"{outcome.kernel}.json"
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(to_json(outcome))
    part.replace(path)


def kept(kernel: str) -> Outcome | None:
    """The kept results of a kernel."""
    path = cache_directory() / "results" / f"{kernel}.json"
    return from_json(path.read_text()) if path.exists() else None


def to_json(outcome: Outcome) -> str:
    """The outcome as one object."""
    return json.dumps(asdict(outcome))


def from_json(text: str) -> Outcome:
    """The inverse of `to_json`."""
    fields = json.loads(text)
    results = tuple(Result(**result) for result in fields.pop("results"))
    return Outcome(results=results, trouble=tuple(fields.pop("trouble")), **fields)


def write_table(outcomes: Mapping[str, Outcome | NotAvailable], document: Path = DOCUMENT) -> None:
    """Puts the table between its marks in the document, which stays as it is otherwise. A kernel of which this machine
    has no outcome keeps its rows.
    """
    text = document.read_text()
    before, mark, rest = text.partition(_FROM)
    old, end, after = rest.partition(_TO)
    if not mark or not end:
        raise LabError(f"{document} has no marks for the table")
    document.write_text(f"{before}{_FROM}\n{table(outcomes, _rows_of(old))}\n{_TO}{after}")


def _rows_of(text: str) -> dict[str, list[str]]:
    """The rows of each kernel in a table; a row without a name goes on with the one above."""
    by_kernel: dict[str, list[str]] = {}
    kernel = ""
    for line in text.splitlines():
        if line.startswith("| "):
            kernel = next(iter(line.split("|")[1].split()), kernel)
            by_kernel.setdefault(kernel, []).append(line)
    return by_kernel


def table(outcomes: Mapping[str, Outcome | NotAvailable], before: Mapping[str, Sequence[str]] | None = None) -> str:
    """The table in Markdown, and below it whatever differed. `before`: the rows of kernels without an outcome."""
    lines = ["", _line(_HEADER), _line("---" for _ in _HEADER)]
    notes: list[str] = []
    for kernel in KERNELS:
        outcome = outcomes.get(kernel.name)
        if isinstance(outcome, Outcome):
            lines += _rows(kernel, outcome)
            notes += [f"- {kernel.name}: `{result.test}` failed." for result in outcome.failures]
            notes += [f"- {kernel.name}: {line}" for line in outcome.trouble[:1]]
        elif outcome is None and before and kernel.name in before:
            lines += before[kernel.name]
        else:
            why = "not run" if outcome is None else f"not available: {outcome}"
            lines.append(_line((kernel.name, why, *("" for _ in _HEADER[2:]))))
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _rows(kernel: Kernel, outcome: Outcome) -> list[str]:
    counts = {row.part: row for row in rows(outcome.results)}
    lines: list[str] = []
    for backend in kernel.backends:
        row = counts.get(f"contract on {backend}", Row(""))
        first = not lines
        lines.append(
            _line(
                (
                    f"{kernel.name} ({outcome.release})" if first else "",
                    outcome.day if first else "",
                    _origin(kernel) if first else "",
                    backend,
                    *(str(count) for count in (row.passed, row.refused, row.excepted, row.failed)),
                    _short(counts.get(f"suite on {backend}")),
                    _short(counts.get(_OWN)) if first else "",
                )
            )
        )
    return lines


def _short(row: Row | None) -> str:
    """A row in a word or two; refusals and exceptions have passed too."""
    if row is None:
        return "not run"
    passed = row.passed + row.refused + row.excepted
    return f"{passed} passed" + (f", {row.failed} failed" if row.failed else "")


def _origin(kernel: Kernel) -> str:
    made_of = f"built from {SOURCE_PACKAGE}" if kernel.package is None else "Debian's package"
    return f"{made_of}, `{kernel.append}`" if kernel.append else made_of


def _line(cells: Iterable[str] | Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
