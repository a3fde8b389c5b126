from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.typed_ir import clause, map_of, program
from tracer.lang.typed import MapDecl
from tracer.lang.types import UINT64
from tracer.results.merge import merge
from tracer.results.store import UNSET, LocalMaps
from tracer.results.values import Average

KINDS: list[str] = ["count", "sum", "min", "max", "avg", "stats", "hist", "lhist"]


def decl_of(kind: str) -> MapDecl:
    return map_of("@", kind, UINT64, parameters={"lhist": (-5, 20, 3)}.get(kind, ()))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_several_stores_counted_adds_up_to_what_one_would_have_counted(
    kind: str, data: st.DataObject
) -> None:
    hits = st.tuples(st.integers(0, 2), st.integers(-10, 30) | st.integers(-(2**63), 2**63 - 1))
    parts = data.draw(st.lists(st.lists(hits, max_size=6), max_size=4))
    typed_program = program([clause([])], [decl_of(kind)])
    one = LocalMaps(typed_program)
    several = []
    for part in parts:
        several.append(LocalMaps(typed_program))
        for key, value in part:
            several[-1].aggregate("@", (key,), kind, value)
            one.aggregate("@", (key,), kind, value)
    assert merge(decl_of(kind), [store.partial("@") for store in several]) == one.snapshot("@").items


@pytest.mark.parametrize(
    ("kind", "partials", "merged"),
    [
        ("min", [{(): UNSET}, {(): 5}], {(): 5}),
        ("min", [{(): 5}, {(): UNSET}], {(): 5}),
        ("max", [{(): UNSET}, {(): -5}], {(): -5}),
        ("max", [{(): UNSET}, {(): UNSET}], {(): 0}),
        ("sum", [{(): 2**63 - 1}, {(): 1}], {(): -(2**63)}),
        ("avg", [{(): Average(1, -5)}, {(): Average(2, 3)}], {(): Average(3, -2)}),
        ("hist", [{(): {1: 2}}, {(): {1: 1, 5: 1}}, {(): {}}], {(): {1: 3, 5: 1}}),
        ("scalar", [{(1,): 1, (2,): 2}, {(1,): 9}], {(1,): 9, (2,): 2}),
    ],
)
def test_partial_values_join(kind: Any, partials: list[Any], merged: Any) -> None:
    assert merge(map_of("@", kind), partials) == merged


def test_merging_changes_no_part() -> None:
    part: dict[Any, Any] = {(): {1: 2}}
    merge(map_of("@", "hist"), [part, part])
    assert part == {(): {1: 2}}
