"""The table in docs/kernels.md: what passed where, from the last run of the whole suite on each kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scripts.lab.errors import LabError, NotAvailable
from scripts.lab.kernels import KERNELS, SOURCE_PACKAGE, Kernel
from scripts.lab.report import Row, rows
from scripts.lab.suite import ROOT, Outcome

DOCUMENT = ROOT / "docs" / "kernels.md"
_FROM = "<!-- written by scripts/vm test --all: from here -->"
_TO = "<!-- to here -->"
_HEADER = ("kernel", "run on", "where from", "backend", "passed", "refused", "exceptions", "failed", "own tests")


def write_table(outcomes: Mapping[str, Outcome | NotAvailable], document: Path = DOCUMENT) -> None:
    """Puts the table between its marks in the document, which stays as it is otherwise."""
    text = document.read_text()
    before, mark, rest = text.partition(_FROM)
    _, end, after = rest.partition(_TO)
    if not mark or not end:
        raise LabError(f"{document} has no marks for the table")
    document.write_text(f"{before}{_FROM}\n{table(outcomes)}\n{_TO}{after}")


def table(outcomes: Mapping[str, Outcome | NotAvailable]) -> str:
    """The table in Markdown, and below it whatever differed."""
    lines = ["", _line(_HEADER), _line("---" for _ in _HEADER)]
    notes: list[str] = []
    for kernel in KERNELS:
        outcome = outcomes.get(kernel.name)
        if isinstance(outcome, Outcome):
            lines += _rows(kernel, outcome)
            notes += [f"- {kernel.name}: `{result.test}` failed." for result in outcome.failures]
            notes += [f"- {kernel.name}: {line}" for line in outcome.trouble[:1]]
        else:
            why = "not run" if outcome is None else f"not available: {outcome}"
            lines.append(_line((kernel.name, why, *("" for _ in _HEADER[2:]))))
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _rows(kernel: Kernel, outcome: Outcome) -> list[str]:
    counts = {row.backend: row for row in rows(outcome.results)}
    own = counts.get(None, Row(None, 0, 0, 0, 0, 0))
    lines: list[str] = []
    for backend in kernel.backends:
        row = counts.get(backend, Row(backend, 0, 0, 0, 0, 0))
        first = not lines
        lines.append(
            _line(
                (
                    f"{kernel.name} ({outcome.release})" if first else "",
                    outcome.day if first else "",
                    _origin(kernel) if first else "",
                    backend,
                    *(str(count) for count in (row.passed, row.refused, row.excepted, row.failed)),
                    _own(own) if first else "",
                )
            )
        )
    return lines


def _own(row: Row) -> str:
    return f"{row.passed} passed" + (f", {row.failed} failed" if row.failed else "")


def _origin(kernel: Kernel) -> str:
    made_of = f"built from {SOURCE_PACKAGE}" if kernel.package is None else "Debian's package"
    return f"{made_of}, `{kernel.append}`" if kernel.append else made_of


def _line(cells: Iterable[str] | Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
