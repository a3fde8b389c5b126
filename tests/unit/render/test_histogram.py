from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from tests.typed_ir import map_of
from tracer.lang.aggregations.aggregation import Row
from tracer.lang.aggregations.buckets import linear_bucket, log2_bucket
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.typed import MapDecl
from tracer.render.histogram import json_histogram, text_histogram

HIST = map_of("@", "hist")


def rows(decl: MapDecl, counts: dict[int, int], div: int = 1) -> list[Row]:
    found = AGGREGATIONS[decl.kind].parts(decl, counts, div)
    assert isinstance(found, list)
    return found


def labels(bits: int, *values: int) -> list[str]:
    decl = map_of("@", "hist", parameters=(bits,))
    shown = [text_histogram(decl, rows(decl, {log2_bucket(value, bits): 1})) for value in values]
    return [text.decode()[:16].rstrip() for text in shown]


def test_bounds_use_units_of_1024() -> None:
    assert labels(0, -5, 0, 1, 2, 512, 1024, 1 << 20, 1 << 62) == [
        "(..., 0)",
        "[0]",
        "[1]",
        "[2, 4)",
        "[512, 1K)",
        "[1K, 2K)",
        "[1M, 2M)",
        "[4E, 8E)",
    ]


def test_the_width_of_a_bucket_decides_its_unit() -> None:
    assert labels(3, 15, 16, 1024, 8191, 8192, 9300) == [
        "[15]",
        "[16, 18)",
        "[1024, 1152)",
        "[7680, 8K)",
        "[8K, 9K)",
        "[9K, 10K)",
    ]


def test_lhist_with_step_1_shows_single_values_and_a_step_of_kib_units() -> None:
    ones = map_of("@", "lhist", parameters=(-2, 3, 1))
    kib = map_of("@", "lhist", parameters=(-2048, 1 << 20, 1024))
    assert [
        line[:16].rstrip() for line in text_histogram(ones, rows(ones, {0: 1, 3: 1, 6: 1})).decode().splitlines()
    ] == [
        "(..., -2)",
        "[-2]",
        "[-1]",
        "[0]",
        "[1]",
        "[2]",
        "[3, ...)",
    ]
    shown = text_histogram(kib, rows(kib, {1: 1, 2: 1, 3: 1})).decode().splitlines()
    assert [line[:16].rstrip() for line in shown] == ["[-2K, -1K)", "[-1K, 0)", "[0, 1K)"]


def test_a_range_that_step_does_not_divide_ends_in_an_open_bucket() -> None:
    decl = map_of("@", "lhist", parameters=(0, 10, 3))
    counts = {linear_bucket(value, 0, 10, 3): 1 for value in (7, 9, 100)}
    assert json_histogram(rows(decl, counts)) == b'[{"min": 6, "max": 8, "count": 1},{"min": 9, "count": 1}]'


@pytest.mark.parametrize(("count", "greatest", "length"), [(1, 3, 17), (2, 3, 34), (49, 52, 49), (3, 93, 1), (0, 7, 0)])
def test_bars_are_cut_off_and_not_rounded(count: int, greatest: int, length: int) -> None:
    text = text_histogram(HIST, [Row(0, 1, greatest), Row(1, 2, count)]).decode().splitlines()
    assert text[0].count("@") == 52
    assert text[1].count("@") == length


@given(st.dictionaries(st.integers(0, 64), st.integers(0, 2**64 - 1)), st.integers(1, 1000))
def test_every_histogram_can_be_drawn_and_parsed(counts: dict[int, int], div: int) -> None:
    table = rows(HIST, counts, div)
    lines = text_histogram(HIST, table).decode().splitlines()
    parsed = json.loads(json_histogram(table))
    assert len(lines) == len(parsed) == len(table)
    assert [entry["count"] for entry in parsed] == [row.hits for row in table]
    # Every line is 79 columns wide unless a count does not fit its eight.
    assert all(len(line) == 79 for line, row in zip(lines, table, strict=True) if row.hits < 10**8)


def test_a_histogram_that_zero_emptied_has_no_lines() -> None:
    assert rows(HIST, {}) == rows(HIST, {3: 0}) == []
    assert (text_histogram(HIST, []), json_histogram([])) == (b"", b"[]")


def test_bars_of_a_histogram_scaled_to_nothing_are_empty() -> None:
    assert text_histogram(HIST, rows(HIST, {1: 5}, 10)) == b"[0]                    0 |" + b" " * 52 + b"|\n"
