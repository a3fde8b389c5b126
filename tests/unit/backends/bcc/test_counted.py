"""Whose hits a map counts, so that the program needs no second counter for the overhead guard."""

from __future__ import annotations

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc.codegen.generate import generate
from tracer.dataclass import replace


@pytest.mark.parametrize(
    "program",
    [
        probe("{ @ = count(); }") + " END { print(@); }",
        probe("{ @ = count(); }") + " interval:s:1 { clear(@); } BEGIN { @ = count(); }",
        probe("{ @ = sum(arg0); }"),
        probe("{ @ = hist(arg0); }"),
        probe("{ @++; }"),
        probe("{ @--; }"),
        probe("{ @ += arg0; }"),
        probe("{ @[arg0 & 15] = count(); }"),
        probe("{ @ = count(); @b[arg0] = sum(arg0); if (arg0) { @c = count(); } }"),
    ],
)
def test_a_map_that_counts_every_hit_is_all_that_counts_them(program: str) -> None:
    generated = generate(plan_of(program))
    assert generated.counted == {0: generated.tables["@"]}
    assert "= enter_uncounted();" in generated.text


@pytest.mark.parametrize(
    "program",
    [
        probe("/arg0/ { @ = count(); }"),
        probe("{ @[arg0] = count(); }"),
        probe("{ @[str(arg1)] = count(); }"),
        probe("{ @[arg0 & 255] = count(); }"),
        probe("{ @[arg0 & 15] = hist(arg0); }"),
        probe("{ @ = max(arg0); }"),
        probe("{ if (arg0) { @ = count(); } }"),
        probe("{ @ = count(); } ") + probe("{ @ = count(); }"),
        probe("{ @ = count(); clear(@); }"),
        probe("{ @ = count(); if (arg0 > 3) { return; } @b = count(); }"),
        probe("{ @[arg2] = count(); }"),
    ],
)
def test_a_map_that_does_not_or_that_takes_long_to_read_is_no_counter(program: str) -> None:
    generated = generate(plan_of(program))
    assert generated.counted == {} and "enter_uncounted()" not in generated.text


def test_one_of_two_clauses_can_have_a_counter_and_the_other_none() -> None:
    generated = generate(plan_of(probe("{ @a[arg0] = count(); }") + probe("{ @b = count(); }")))
    assert generated.counted == {1: generated.tables["@b"]}


def test_returns_and_those_who_are_not_followed_are_counted_apart() -> None:
    plan = plan_of(probe("{ @ = count(); }"))
    assert generate(replace(plan, shared=True)).counted == {}
    returns = plan_of(probe("{ @ = count(); }"), replace(site(), kind="uretprobe"))
    assert generate(returns).counted == {}
