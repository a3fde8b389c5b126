from __future__ import annotations

from pathlib import Path

import pytest

from scripts.benchmark.baseline import Baseline, changes, keep, load
from scripts.benchmark.host import Host
from scripts.benchmark.model import FLOOR, BenchError, Cell, Results, Row
from scripts.benchmark.ratios import ratios
from scripts.benchmark.reaching import verdicts
from scripts.benchmark.report import Report
from scripts.benchmark.spread import Spread
from scripts.benchmark.table import as_markdown, as_text, grid

WHOS = (FLOOR, "tracer bcc", "tracer ftrace", "bpftrace 0.17.0")
RESULTS = Results(
    rows=(
        Row("program", "an empty program", "ns"),
        Row("count", "count", "ns", floor="program"),
        Row("string-cold", "a string", "ns", floor="program"),
        Row("printf-whole", "runs with all there", "runs"),
    ),
    contestants=WHOS,
    cells={
        ("program", FLOOR): Cell((500, 514, 528)),
        ("count", "tracer bcc"): Cell((520, 544, 548)),
        ("count", "tracer ftrace"): Cell((700, 700, 700)),
        ("count", "bpftrace 0.17.0"): Cell((600, 585, 600)),
        ("string-cold", "tracer bcc"): Cell((650, 650, 650)),
        ("string-cold", "tracer ftrace"): Cell(absent="no such thing"),
        ("string-cold", "bpftrace 0.17.0"): Cell((1928, 1928, 1928), ('prints "" for every string',) * 3),
        ("printf-whole", "tracer bcc"): Cell((1, 0, 1), ("2 of 9 lost and not told",)),
    },
)
BPFTRACES = [("bpftrace 0.17.0", (0, 17, 0))]

TEXT = """\
                                                                                tracer bcc      tracer
                                               tracer     bpftrace  tracer bcc  ÷ bpftrace    ftrace ÷
work                        floor  tracer bcc  ftrace       0.17.0     ÷ floor      0.17.0  tracer bcc   limits
---------------------------------------------------------------------------------------------------------------
an empty program     ns    514 ±7
count                ns                544 ±7  700 ±0       600 ±4  1.04 ±0.01  0.91 ±0.02  1.29 ±0.02  NOT met
a string             ns                650 ±0     [1]  1,928 ±0[2]  1.26 ±0.02        0.34                  met
runs with all there  runs           2 of 3[3]                                                           NOT met

[1] tracer ftrace: cannot: no such thing
[2] bpftrace 0.17.0: prints "" for every string
[3] tracer bcc: 2 of 9 lost and not told

count: tracer ftrace ≤ 1.20 × tracer bcc: 1.29, NOT met
count: tracer bcc adds ≤ 30 ns (30 ns at a floor of 514): 20, met
a string: tracer bcc ≤ 0.34 × bpftrace 0.17.0: 0.34, met
runs with all there: tracer bcc all there in 90% of the runs: 2 of 3, NOT met
"""

MARKDOWN = """\
| work |  | floor | tracer bcc | tracer ftrace | bpftrace 0.17.0 | tracer bcc ÷ floor | tracer bcc ÷ bpftrace 0.17.0 | tracer ftrace ÷ tracer bcc | limits |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| an empty program | ns | 514 ±7 |  |  |  |  |  |  |  |
| count | ns |  | 544 ±7 | 700 ±0 | 600 ±4 | 1.04 ±0.01 | 0.91 ±0.02 | 1.29 ±0.02 | NOT met |
| a string | ns |  | 650 ±0 | [1] | 1,928 ±0[2] | 1.26 ±0.02 | 0.34 |  | met |
| runs with all there | runs |  | 2 of 3[3] |  |  |  |  |  | NOT met |

- [1] tracer ftrace: cannot: no such thing
- [2] bpftrace 0.17.0: prints "" for every string
- [3] tracer bcc: 2 of 9 lost and not told

- count: tracer ftrace ≤ 1.20 × tracer bcc: 1.29, NOT met
- count: tracer bcc adds ≤ 30 ns (30 ns at a floor of 514): 20, met
- a string: tracer bcc ≤ 0.34 × bpftrace 0.17.0: 0.34, met
- runs with all there: tracer bcc all there in 90% of the runs: 2 of 3, NOT met
"""  # noqa: E501


def test_the_table_shows_figures_ratios_limits_and_what_was_wrong() -> None:
    table = grid(RESULTS, ratios(RESULTS), verdicts(RESULTS, BPFTRACES), {})
    assert as_text(table) == TEXT
    assert as_markdown(table) == MARKDOWN


def change(least: float, median: float, most: float) -> tuple[bool, bool]:
    was = Spread(median=1.0, lower=0.98, upper=1.02, least=0.95, most=1.05)
    found = ratios(RESULTS)[0]
    now = type(found)(found.row, found.who, found.of, Spread(median, median, median, least, most))
    (one,) = changes(Baseline("here", "2026-01-01", {(found.row, found.name): was}), [now]).values()
    return one.is_worse, one.is_better


def test_a_ratio_is_worse_where_no_round_reaches_into_those_kept() -> None:
    assert change(1.06, 1.10, 1.20) == (True, False)
    assert change(1.04, 1.10, 1.20) == (False, False)
    assert change(0.80, 0.90, 0.94) == (False, True)
    assert change(0.80, 0.90, 0.96) == (False, False)


def test_a_small_step_is_none_however_steady_both_are() -> None:
    was = Spread(1.0, 1.0, 1.0, 1.0, 1.0)
    found = ratios(RESULTS)[0]
    now = type(found)(found.row, found.who, found.of, Spread(1.02, 1.02, 1.02, 1.02, 1.02))
    (one,) = changes(Baseline("here", "2026-01-01", {(found.row, found.name): was}), [now]).values()
    assert not one.is_beyond_noise


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    found = ratios(RESULTS)
    keep(found, "here", "2026-01-01", path)
    kept = load(path)
    assert kept is not None
    assert (kept.machine, kept.day) == ("here", "2026-01-01")
    assert set(kept.ratios) == {(each.row, each.name) for each in found}
    assert not any(each.is_beyond_noise for each in changes(kept, found).values())


def test_a_part_that_was_not_measured_stays_as_it_was_kept_on_the_same_machine(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    found = ratios(RESULTS)
    rows = {each.row for each in found}
    assert rows == {"count", "string-cold"}
    keep(found, "here", "2026-01-01", path)
    keep([each for each in found if each.row == "count"], "here", "2026-01-02", path)
    kept = load(path)
    assert kept is not None and {row for row, _ in kept.ratios} == rows
    keep([each for each in found if each.row == "count"], "elsewhere", "2026-01-03", path)
    kept = load(path)
    assert kept is not None and {row for row, _ in kept.ratios} == {"count"}


def test_a_broken_baseline_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text("{}")
    with pytest.raises(BenchError, match=r"baseline\.json is no baseline: 'ratios'; scripts/bench --keep makes a new"):
        load(path)
    assert load(tmp_path / "none") is None


def test_the_table_says_what_was_and_whether_that_is_worse_or_better() -> None:
    found = ratios(RESULTS)
    kept = {(each.row, each.name): each.spread for each in found}
    kept["count", "tracer bcc ÷ floor"] = Spread(0.9, 0.9, 0.9, 0.9, 0.9)
    kept["count", "tracer ftrace ÷ tracer bcc"] = Spread(2, 2, 2, 2, 2)
    changed = changes(Baseline("here", "2026-01-01", kept), found)
    (_, line, *_) = grid(RESULTS, found, [], changed).lines
    assert line[-3:] == ("1.04 ±0.01 (was 0.90 WORSE)", "0.91 ±0.02 (was 0.91)", "1.29 ±0.02 (was 2.00 better)")


def test_a_page_that_is_written_anew_keeps_its_sections(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    report = Report(Host("6.18", "some CPU", 2, 0.5, 0.5, "2026-11-26"), RESULTS, (), ())
    report.write(page)
    page.write_text(page.read_text().replace("some CPU", "another") + "\n## A section\nas it was\n")
    report.write(page)
    head, _, section = page.read_text().partition("\n## ")
    assert head.startswith("# Benchmarks\n") and "some CPU, 2 cores, Linux 6.18; load 0.50 before" in head
    assert section == "A section\nas it was\n"
