"""Attach points as the user wrote them, and what is incomplete when one of them ends."""

from __future__ import annotations

import pytest

from tests.unit.lang.programs import analysed
from tracer.plan.lower import lower
from tracer.plan.points import first_numbers, maps_behind, points

TWO = """uprobe:/bin/app:load, usdt:/bin/app:shop:order /arg0/ { @ = count(); }
BEGIN { @b = 1; }
uretprobe:/bin/app:load { @ = count(); }"""


def test_attach_points_are_numbered_in_the_order_of_the_program() -> None:
    plan = lower(analysed(TWO))
    found = points(plan)
    assert [point.text for point in found] == [
        "uprobe:/bin/app:load", "usdt:/bin/app:shop:order", "uretprobe:/bin/app:load",
    ]  # fmt: skip
    assert [TWO[point.span.start : point.span.end] for point in found] == [point.text for point in found]
    assert list(first_numbers(plan).values()) == [0, 2]


@pytest.mark.parametrize(
    ("others", "behind"),
    [
        ("", ("@a",)),
        ("usdt:/bin/app:shop:order { @o = count(); }", ("@a",)),
        ("usdt:/bin/app:shop:order /@a/ { @o = count(); }", ("@a", "@o")),
        ("usdt:/bin/app:shop:order { @o = @a; } interval:s:1 { @i = @o; } END { @e = 1; }", ("@a", "@i", "@o")),
        ("usdt:/bin/app:shop:order { @o++; print(@a); clear(@a); }", ("@a",)),
        ("interval:s:1 { @a++; @i++; print(@a); zero(@a); }", ("@a",)),
        ("interval:s:1 { @i = @a++; @k[@a] = 1; @l = len(@k); }", ("@a", "@i", "@k", "@l")),
    ],
    ids=[
        "its own",
        "not others'",
        "those that its own decide",
        "and those behind them",
        "not those beside it",
        "nor where it is shown",
        "but what its value is made of",
    ],
)
def test_the_maps_that_lack_something_without_a_clause(others: str, behind: tuple[str, ...]) -> None:
    plan = lower(analysed(f"uprobe:/bin/app:load {{ @a++; }} {others}"))
    assert maps_behind(plan, plan.probes[0].clause) == behind


@pytest.mark.parametrize(
    "body",
    ["@x = 1;", "@x++;", "$a = @x++;", "@x += 2;", "@x = sum(1);", "@x[1] = 2; delete(@x, 1);", "@x = hist(arg0);"],
)
def test_every_way_to_write_a_map_counts(body: str) -> None:
    plan = lower(analysed(f"uprobe:/bin/app:load {{ {body} }}"))
    assert maps_behind(plan, plan.probes[0].clause) == ("@x",)
