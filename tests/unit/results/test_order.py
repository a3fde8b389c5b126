from __future__ import annotations

from typing import Any

import pytest

from tests.typed_ir import map_of
from tracer.lang.types import BOOL, INT64, UINT64, StringType, TupleType, Type
from tracer.results.order import ordered
from tracer.results.values import Average, MapSnapshot

STRING = StringType(64)


def keys(
    kind: Any, items: dict[Any, Any], key: tuple[Type, ...] = (INT64,), value: Type = INT64, top: int = 0
) -> list[Any]:
    snapshot = MapSnapshot(map_of("@", kind, *key, value=value), items)
    return [key for key, _ in ordered(snapshot, top)]


@pytest.mark.parametrize("kind", ["count", "sum", "min", "max", "scalar"])
def test_integers_go_by_value_and_ties_by_key(kind: str) -> None:
    assert keys(kind, {(5,): 2, (-1,): 2, (3,): -7, (2,): 1}) == [(3,), (2,), (-1,), (5,)]


def test_averages_go_by_average_and_not_by_total() -> None:
    items = {(1,): Average(1, 10), (2,): Average(100, 500), (3,): Average(0, 0), (4,): Average(2, -3)}
    assert keys("avg", items) == keys("stats", items) == [(4,), (3,), (2,), (1,)]


def test_histograms_go_by_their_number_of_values() -> None:
    assert keys("hist", {(1,): {0: 1, 3: 4}, (2,): {7: 3}, (3,): {1: 5}, (4,): {}}) == [(4,), (2,), (1,), (3,)]


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (STRING, [b"b", b"a", b"c"]),
        (TupleType((INT64, STRING)), [(2, b"b"), (1, b"z"), (3, b"a")]),
        (BOOL, [True, False, True]),
    ],
)
def test_scalars_of_other_types_go_by_key(type: Type, values: list[Any]) -> None:
    items = dict(zip([(3,), (1,), (2,)], values, strict=True))
    assert keys("scalar", items, value=type) == [(1,), (2,), (3,)]


def test_keys_go_part_by_part_numbers_as_numbers_and_strings_as_bytes() -> None:
    items = {key: 1 for key in [(10, b"a"), (9, b"b"), (9, b"\xc3\xa9"), (9, b"a"), (-1, b"z"), (9, b"B")]}
    assert keys("count", items, (INT64, STRING)) == [
        (-1, b"z"),
        (9, b"B"),
        (9, b"a"),
        (9, b"b"),
        (9, b"\xc3\xa9"),
        (10, b"a"),
    ]


def test_unsigned_keys_above_2_to_the_63_come_last() -> None:
    assert keys("count", {(2**64 - 1,): 1, (0,): 1}, (UINT64,)) == [(0,), (2**64 - 1,)]


def test_top_keeps_the_end_of_the_order() -> None:
    items = {(key,): key * 10 for key in range(5)}
    assert keys("sum", items, top=2) == [(3,), (4,)]
    assert keys("sum", items, top=9) == [(0,), (1,), (2,), (3,), (4,)]
