"""A run as a whole: where it was made, its table, what was reached, what changed; as text, JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.benchmark.baseline import Baseline, Change, changes
from scripts.benchmark.host import Host
from scripts.benchmark.model import Results
from scripts.benchmark.ratios import Ratio
from scripts.benchmark.reaching import Verdict
from scripts.benchmark.spread import spread
from scripts.benchmark.table import Grid, as_markdown, as_text, grid

_PAGE = """# Benchmarks

What tracing costs, beside other tracers. `sudo scripts/bench --markdown` wrote this page; `--help` says more.

{host}

- Every contestant does every work once in each round, in another order each time. Figures are medians ± half the
  distance between the quartiles.
- **÷** is a ratio: the median of those of each round. “÷ floor” is to the empty Typer program, or to the empty BPF
  program.
- **floor** is what nobody can undercut: an interpreter that does nothing, a loop without a probe, an event that the
  kernel's filter drops, a BPF program that returns at once.
- What a hit costs is the processor time of the traced program, its own loop included: a USDT probe on a nop. funccount,
  uprobe and argdist's `@[arg0 & 15]` probe a function whose first instruction is a nop. BCC's tools want the kernel's
  headers, and run with tracer's stubs of them.
- Answers are checked: counts, buckets, keys and lines against what the program did, losses against what was told. What
  was wrong, and why a cell is empty, stands below the table.
- **limits** are the project's own, as ratios to bpftrace; they stand at the end.

{table}
"""


@dataclass(frozen=True)
class Report:
    """Everything that a run found."""

    host: Host
    results: Results
    ratios: tuple[Ratio, ...]
    verdicts: tuple[Verdict, ...]
    changes: Mapping[tuple[str, str], Change] = field(default_factory=dict)
    compared: str | None = None

    def against(self, kept: Baseline) -> Report:
        """The report with what became of the ratios since."""
        where = "" if kept.machine == self.host.machine else f", on another machine ({kept.machine})"
        return replace(self, changes=changes(kept, self.ratios), compared=f"“was” is the baseline of {kept.day}{where}")

    @property
    def regressions(self) -> list[Change]:
        """The ratios that became worse by more than the noise."""
        return [change for change in self.changes.values() if change.is_worse]

    @property
    def table(self) -> Grid:
        """The one table."""
        return grid(self.results, self.ratios, self.verdicts, self.changes)

    def text(self) -> str:
        """The report for a terminal."""
        compared = (
            f"{self.compared}; {len(self.regressions)} ratios became worse beyond the noise\n" if self.compared else ""
        )
        return f"{self.host.line}\n\n{as_text(self.table)}{compared}"

    def write(self, page: Path) -> None:
        """Writes it as a page of the documentation, without what it was compared with. The page's sections stay."""
        table = as_markdown(grid(self.results, self.ratios, self.verdicts, {}))
        _, heading, sections = page.read_text().partition("\n## ") if page.exists() else ("", "", "")
        page.write_text(_PAGE.format(host=self.host.line, table=table.rstrip()) + heading + sections)


def to_json(report: Report) -> str:
    """The report as one object; figures round by round."""
    return json.dumps(
        {
            "host": asdict(report.host),
            "rows": [_row(report, number) for number in range(len(report.results.rows))],
            "regressions": [asdict(change) for change in report.regressions],
        },
        indent=1,
        ensure_ascii=False,
    )


def _row(report: Report, number: int) -> dict[str, Any]:
    row = report.results.rows[number]
    cells = {}
    for who in report.results.contestants:
        cell = report.results.cell(row.key, who)
        if cell.values or cell.absent:
            cells[who] = {**asdict(cell), **({"spread": asdict(spread(cell.figures))} if cell.figures else {})}
    return {
        "key": row.key,
        "title": row.title,
        "unit": row.unit,
        "contestants": cells,
        "ratios": {ratio.name: asdict(ratio.spread) for ratio in report.ratios if ratio.row == row.key},
        "limits": [asdict(verdict) for verdict in report.verdicts if verdict.row == row.key],
    }
