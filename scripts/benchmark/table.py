"""One table of everything: as text, or as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scripts.benchmark.baseline import Change
from scripts.benchmark.model import Cell, Results, Row
from scripts.benchmark.ratios import Ratio
from scripts.benchmark.reaching import Verdict
from scripts.benchmark.spread import spread

_WIDEST_HEADER = 11


@dataclass(frozen=True)
class Grid:
    """The table as words: a header, lines as long as it, the notes that its cells' marks name, and the limits."""

    header: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    limits: tuple[str, ...]


def grid(
    results: Results,
    ratios: Sequence[Ratio],
    verdicts: Sequence[Verdict],
    changes: Mapping[tuple[str, str], Change],
) -> Grid:
    """Figures, ratios, and what must be reached. Columns without a word are left out."""
    notes: dict[str, int] = {}
    names = tuple(dict.fromkeys(ratio.name for ratio in ratios))
    header = ("work", "", *results.contestants, *names, "limits")
    lines = []
    for row in results.rows:
        cells = [_figure(row, results.cell(row.key, who), who, notes) for who in results.contestants]
        by_name = {ratio.name: ratio for ratio in ratios if ratio.row == row.key}
        compared = [_ratio(by_name.get(name), changes.get((row.key, name))) for name in names]
        limits = [verdict for verdict in verdicts if verdict.row == row.key]
        state = "" if not limits else "met" if all(verdict.is_met for verdict in limits) else "NOT met"
        lines.append((row.title, row.unit, *cells, *compared, state))
    kept = [column for column in range(len(header)) if any(line[column] for line in lines)]
    return Grid(
        tuple(header[column] for column in kept),
        tuple(tuple(line[column] for column in kept) for line in lines),
        tuple(f"[{number}] {text}" for text, number in notes.items()),
        tuple(_limit(row, verdict) for row in results.rows for verdict in verdicts if verdict.row == row.key),
    )


def _figure(row: Row, cell: Cell, who: str, notes: dict[str, int]) -> str:
    def mark(text: str) -> str:
        return f"[{notes.setdefault(f'{who}: {text}', len(notes) + 1)}]"

    marks = mark("; ".join(dict.fromkeys(cell.faults))) if cell.faults else ""
    if not cell.figures:
        return mark(f"cannot: {cell.absent}") if cell.absent else marks
    if row.unit == "runs":
        return f"{sum(cell.figures):.0f} of {len(cell.figures)}{marks}"
    figures = spread(cell.figures)
    noise = f" ±{figures.half:,.{row.digits}f}" if len(cell.figures) > 1 else ""
    stopped = mark(f"then no more: {cell.absent}") if cell.absent else ""
    return f"{figures.median:,.{row.digits}f}{noise}{marks}{stopped}"


def _limit(row: Row, verdict: Verdict) -> str:
    state = "met" if verdict.is_met else "NOT met"
    return f"{row.title}: {verdict.who} {verdict.rule}: {verdict.measured}, {state}"


def _ratio(ratio: Ratio | None, change: Change | None) -> str:
    if ratio is None:
        return ""
    text = f"{ratio.spread.median:.2f}"
    if ratio.spread.most > ratio.spread.least:
        text += f" ±{ratio.spread.half:.2f}"
    if change is None:
        return text
    word = " WORSE" if change.is_worse else " better" if change.is_better else ""
    return f"{text} (was {change.was:.2f}{word})"


def as_text(table: Grid) -> str:
    """Aligned, for a terminal that is wide."""
    headers = [textwrap.wrap(word, _WIDEST_HEADER) or [""] for word in table.header]
    depth = max(map(len, headers))
    top = [[""] * (depth - len(words)) + words for words in headers]
    rows = [*(tuple(words[line] for words in top) for line in range(depth)), *table.lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.header))]
    lines = [_padded(row, widths) for row in rows]
    lines.insert(depth, "-" * max(map(len, lines)))
    return "\n".join([*lines, "", *table.notes, "", *table.limits]).rstrip() + "\n"


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    words = [
        word.ljust(width) if column < 2 else word.rjust(width)
        for column, (word, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(words).rstrip()


def as_markdown(table: Grid) -> str:
    """A table of Markdown, and its notes as a list."""
    rows = [table.header, ("---",) * len(table.header), *table.lines]
    lines = ["| " + " | ".join(word.replace("|", "\\|") for word in row) + " |" for row in rows]
    blocks = [lines, [f"- {note}" for note in table.notes], [f"- {limit}" for limit in table.limits]]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
