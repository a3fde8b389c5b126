"""Series beside what bpftrace 0.27.1 prints of the same values; the time zone is UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.typed_ir import map_of
from tracer.lang.aggregations.aggregation import Series
from tracer.lang.types import INT64, UINT64, IntType
from tracer.render.series import json_series, text_series
from tracer.results.merge import merge
from tracer.results.order import ordered
from tracer.results.store import LocalMaps
from tracer.results.values import Key

AT = 1_795_389_684_700_000_000  # 2026-11-22 23:21:24.7
MS = 1_000_000


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(*values: int | None, step: int = 100 * MS, signed: bool = True) -> str:
    return text_series(Series(tuple((AT + i * step, value) for i, value in enumerate(values)), signed)).decode()


def test_the_values_of_a_range_around_zero() -> None:
    assert shown(-4, -1, None, 5, 8, 11) == (
        "             -4                                                 11\n"
        "hh:mm:ss.ms  |___________________________________________________|\n"
        "23:21:24.700 *             .                                     | -4\n"
        "23:21:24.800 |         *   .                                     | -1\n"
        "23:21:24.900 |             .                                     | -\n"
        "23:21:25.000 |             .                *                    | 5\n"
        "23:21:25.100 |             .                          *          | 8\n"
        "23:21:25.200 |             .                                     * 11\n"
        "             v___________________________________________________v\n"
        "             -4                                                 11\n"
    )


def test_one_value_stands_in_the_middle_with_all_digits_of_its_moment() -> None:
    assert shown(5) == (
        "                   4                                                   6\n"
        "hh:mm:ss.ns        |___________________________________________________|\n"
        "23:21:24.700000000 |                         *                         | 5\n"
        "                   v___________________________________________________v\n"
        "                   4                                                   6\n"
    )


def test_seconds_have_no_digits_and_microseconds_six() -> None:
    assert shown(-3, -4, step=1000 * MS).splitlines()[1:4] == [
        "hh:mm:ss |___________________________________________________|",
        "23:21:24 |                                                   * -3",
        "23:21:25 *                                                   | -4",
    ]
    # As bpftrace, it fills up by bytes.
    assert shown(17, 20, step=100_000).splitlines()[1:3] == [
        "hh:mm:ss.μs    |___________________________________________________|",
        "23:21:24.700000 *                                                   | 17",
    ]


@pytest.mark.parametrize(
    ("value", "signed", "low", "high", "star"),
    [
        ((1 << 64) - 1, False, 18446744073709551614, 18446744073709551615, 52),
        (0, False, 0, 1, 0),
        (0, True, -1, 1, 26),
        ((1 << 63) - 1, True, 9223372036854775806, 9223372036854775807, 52),
        (-(1 << 63), True, -9223372036854775808, -9223372036854775807, 0),
    ],
)
def test_the_scale_ends_where_the_type_does(value: int, signed: bool, low: int, high: int, star: int) -> None:
    scale, _, line, *_ = shown(value, signed=signed).splitlines()
    assert scale == f"{'':19}{low:<21}{high:>32}"
    assert line[19:].index("*") == star


def test_a_series_without_values() -> None:
    assert text_series(Series((), True)) == b"<no data>"
    assert shown(None).splitlines() == [
        "                   null                                             null",
        "hh:mm:ss.ns        |___________________________________________________|",
        "23:21:24.700000000 |                                                   | -",
        "                   v___________________________________________________v",
        "                   null                                             null",
    ]


def test_json_leaves_out_intervals_without_a_value() -> None:
    series = Series(((AT, -4), (AT + 100 * MS, None), (AT + 200 * MS, 9007199254740993)), True)
    assert json_series(series) == (
        b'[{"interval_start":"2026-11-22 23:21:24.700000000","value":-4},'
        b'{"interval_start":"2026-11-22 23:21:24.900000000","value":9007199254740993}]'
    )
    assert json_series(Series((), True)) == b"[]"


# --- what a key keeps


class Held:
    """A map of series with intervals of 10, which began at 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, function: str = "", count: int = 3, type: IntType = INT64):
        monkeypatch.setattr("tracer.lang.aggregations.series.boot_time_ns", lambda: 0)
        number = ("", "avg", "max", "min", "sum").index(function)
        self.decl = map_of("@", "tseries", INT64, value=type, parameters=(10, count, number))
        self.tables = [self.table(), self.table()]

    def table(self) -> LocalMaps:
        from tests.typed_ir import clause, program

        return LocalMaps(program([clause([])], [self.decl]))

    def take(self, *samples: tuple[int, int], key: Key = (1,)) -> None:
        for number, (when, value) in enumerate(samples):
            for table in (self.tables[0], self.tables[1 + number % (len(self.tables) - 1)]):
                table.aggregate("@", key, "tseries", value, when)

    def rows(self) -> dict[Key, tuple[tuple[int, int | None], ...]]:
        found: dict[Key, tuple[tuple[int, int | None], ...]] = {}
        for key, value in ordered(self.tables[0].snapshot("@"), 1):
            assert isinstance(value, Series)
            found[key] = value.intervals
        return found


def test_the_last_value_by_its_moment_stays_and_the_newest_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    held.take((5, 1), (12, 2), (11, 3), (41, 4), (33, 5), (9, 6))
    assert held.rows() == {(1,): ((30, 5), (40, 4))}


@pytest.mark.parametrize(("function", "value"), [("", -4), ("avg", -2), ("max", 2), ("min", -6), ("sum", -8)])
def test_values_of_one_interval_become_one(monkeypatch: pytest.MonkeyPatch, function: str, value: int) -> None:
    held = Held(monkeypatch, function)
    held.take((1, 2), (2, -6), (3, -4))
    assert held.rows() == {(1,): ((0, value),)}


def test_a_sum_wraps_as_its_type_does(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, "sum", type=UINT64)
    held.take((1, 1), (2, (1 << 64) - 1))
    assert held.rows() == {(1,): ((0, 0),)}


def test_every_key_begins_with_its_own_first_and_ends_with_the_last_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    held.take((20, 1), (30, 2), key=(1,))
    held.take((40, 3), key=(2,))
    held.take((5, 4), key=(3,))
    # print(@, 1) leaves nothing out, as in bpftrace.
    assert held.rows() == {(1,): ((20, 1), (30, 2), (40, None)), (2,): ((40, 3),), (3,): ((40, None),)}
    held.tables[0].zero("@")
    assert held.rows() == {(1,): (), (2,): (), (3,): ()}


@pytest.mark.parametrize("function", ["", "avg", "max", "min", "sum"])
def test_parts_merge_to_what_one_table_would_hold(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    held = Held(monkeypatch, function, count=4)
    held.tables.append(held.table())
    held.take((3, 9), (4, -1), (13, 4), (14, 8), (15, 3), (52, 7), (33, 2), (36, 1), (31, 6))
    whole, *parts = (table.snapshot("@").items for table in held.tables)
    assert merge(held.decl, parts) == whole


def test_what_is_kept_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, count=5)
    held.take(*((when, 1) for when in range(0, 10_000, 10)))
    assert len(held.tables[0].table("@")[1,]) == 5
