from __future__ import annotations

import pytest

from scripts.benchmark.growth import Patience
from scripts.benchmark.model import FLOOR, Cannot, Cell, Results, Row
from scripts.benchmark.reaching import Verdict, verdicts

OLD, NEW = ("bpftrace 0.17.0", (0, 17, 0)), ("bpftrace 0.27.0", (0, 27, 0))


def results(**figures: dict[str, float]) -> Results:
    """Of one round; a row's key is written with _ for -, a contestant's name is short."""
    names = {"floor": FLOOR, "bcc": "tracer bcc", "ftrace": "tracer ftrace", "old": OLD[0], "new": NEW[0]}
    cells = {
        (key.replace("_", "-"), names[who]): Cell((value,))
        for key, of_row in figures.items()
        for who, value in of_row.items()
    }
    rows = tuple(Row(key.replace("_", "-"), key, "ms") for key in figures)
    return Results(rows, tuple(names.values()), cells)


def test_a_limit_is_a_ratio_to_the_older_bpftrace() -> None:
    found = results(begin={"bcc": 100, "old": 200, "new": 400}, typer={"floor": 100})
    assert verdicts(found, [NEW, OLD]) == [
        Verdict("begin", "tracer bcc", "≤ 0.66 × bpftrace 0.17.0", "0.50", True),
    ]


def test_where_only_a_newer_one_ran_it_is_held_against_that() -> None:
    found = results(begin={"bcc": 100, "new": 200}, typer={"floor": 100})
    assert verdicts(found, [NEW]) == [
        Verdict("begin", "tracer bcc", "≤ 0.40 × bpftrace 0.27.0", "0.50", False),
    ]


def test_where_none_ran_it_is_held_against_the_floor() -> None:
    found = results(begin={"bcc": 133, "ftrace": 1}, typer={"floor": 100})
    assert verdicts(found, []) == [
        Verdict("begin", "tracer bcc", "≤ 1.33 × an empty Typer program", "1.33", True),
    ]
    assert verdicts(results(memory_warm={"bcc": 90}), []) == []


def test_half_the_lines_are_no_measure_for_all_of_them() -> None:
    assert verdicts(results(printf={"bcc": 2000, "new": 1500}), [NEW]) == []


def test_a_hit_may_add_what_it_adds_to_the_newer_bpftrace() -> None:
    found = results(
        program={"floor": 400}, empty={"new": 440}, count={"bcc": 425, "new": 470}, hist={"bcc": 490, "new": 520}
    )
    assert verdicts(found, [NEW]) == [
        Verdict("count", "tracer bcc", "adds ≤ 30 ns (what bpftrace 0.27.0 adds)", "25", True),
        Verdict("hist", "tracer bcc", "adds ≤ 80 ns (what bpftrace 0.27.0 adds)", "90", False),
    ]


def test_without_one_it_may_add_what_0_26_added_at_its_floor() -> None:
    found = results(program={"floor": 257}, count={"bcc": 273})
    assert verdicts(found, [OLD]) == [
        Verdict("count", "tracer bcc", "adds ≤ 15 ns (30 ns at a floor of 514)", "16", False),
    ]


def test_without_uprobe_multi_the_floor_is_that_of_a_perf_event() -> None:
    found = results(program_perf={"floor": 500}, string={"bcc": 600})
    (verdict,) = verdicts(found, [])
    assert (verdict.rule, verdict.measured, verdict.is_met) == ("≤ 1.26 × an empty BPF program", "1.20", True)


def test_one_that_attaches_site_by_site_is_not_asked_for_thousands() -> None:
    patience = Patience(limit_s=10)
    patience.ask("slow", 10)
    patience.note("slow", 1, 0.5)
    patience.ask("slow", 10)
    patience.note("slow", 10, 1.4)
    patience.ask("slow", 100)
    patience.note("slow", 100, 9.5)
    with pytest.raises(Cannot, match=r"^would take 90 s; 100 sites take 9\.0 s$"):
        patience.ask("slow", 1_000)


def test_one_that_attaches_all_at_once_is_asked_whatever_the_noise() -> None:
    patience = Patience(limit_s=10)
    patience.note("fast", 1, 0.5)
    patience.note("fast", 100, 1.5)
    patience.ask("fast", 10_000)


def test_a_hit_on_ftrace_is_held_against_one_on_bcc() -> None:
    bcc = {"bcc": 400.0}
    found = results(count={**bcc, "ftrace": 500}, hist={**bcc, "ftrace": 640}, key={**bcc, "ftrace": 720})
    beside = [each for each in verdicts(found, []) if each.rule.endswith("× tracer bcc")]
    assert beside == [
        Verdict("count", "tracer ftrace", "≤ 1.20 × tracer bcc", "1.25", False),
        Verdict("hist", "tracer ftrace", "≤ 1.80 × tracer bcc", "1.60", True),
        Verdict("key", "tracer ftrace", "≤ 1.80 × tracer bcc", "1.80", True),
    ]
