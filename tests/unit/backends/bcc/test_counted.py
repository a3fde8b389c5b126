"""Whose hits a map counts, so that the program needs no second counter for the overhead guard."""

from __future__ import annotations

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe, site
from tracer.backends.bcc.codegen.generate import generate
from tracer.dataclass import replace


def test_a_map_that_counts_every_hit_is_all_that_counts_them() -> None:
    generated = generate(plan_of(probe("{ @ = count(); }") + " END { print(@); }"))
    assert generated.counted == {0: generated.tables["@"].numbers[0]}
    assert "enter_uncounted()" in generated.text


@pytest.mark.parametrize(
    "program",
    [
        probe("/arg0/ { @ = count(); }"),
        probe("{ @[arg0] = count(); }"),
        probe("{ @ = sum(1); }"),
        probe("{ @ = count(); @b = sum(arg0); }"),
        probe("{ @ = count(); }") + probe("{ @ = count(); }"),
        probe("{ @ = count(); }") + " interval:s:1 { clear(@); }",
        probe("{ @ = count(); }") + " interval:s:1 { zero(@); }",
        probe("{ @ = count(); }") + " BEGIN { @ = count(); }",
    ],
)
def test_what_more_happens_to_the_map_or_before_takes_the_counter_back(program: str) -> None:
    generated = generate(plan_of(program))
    assert generated.counted == {} and "enter_uncounted()" not in generated.text


def test_returns_and_those_who_are_not_followed_are_counted_apart() -> None:
    plan = plan_of(probe("{ @ = count(); }"))
    assert generate(replace(plan, follow=True)).counted == {}
    returns = plan_of(probe("{ @ = count(); }"), replace(site(), kind="uretprobe"))
    assert generate(returns).counted == {}
