"""Where each map of a program lives in the kernel."""

from __future__ import annotations

import pytest

from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.backends.bcc.maps.tables import tables

BOTH = "@: shared hash of value, generation in the key, mark in the key"


@pytest.mark.parametrize(
    ("body", "description"),
    [
        ("{ @ = count(); }", "@: per CPU array of u64"),
        ("{ @n++; }", "@n: per CPU array of u64"),
        ("{ @n += arg1; }", "@n: per CPU array of u64 hits, u64 total"),
        ("{ @n--; }", "@n: per CPU array of u64 hits, u64 total"),
        ("{ @ = sum(arg1); }", "@: per CPU array of u64 hits, u64 total"),
        ("{ @[arg0] = avg(arg1); }", "@: per CPU hash of u64 hits, u64 total"),
        ("{ @ = max(arg1); }", "@: per CPU array of u64, larger is further out"),
        ("{ @ = hist(arg1); }", "@: per CPU array of u64"),
        ("{ @[arg0] = hist(arg1); }", "@: per CPU hash of u64"),
        ("{ @ = arg0; }", "@: shared hash of value"),
        ("{ @[tid] = nsecs; }", "@: shared hash of value"),
        ("{ @n++; if (@n > 5) { exit(); } }", "@n: shared hash of value"),
        ("{ @n++; @n = 3; }", "@n: shared hash of value"),
        ("{ print(@n++); }", "@n: shared hash of value"),
        ("{ @ = count(); if ((uint64)@ > 5) { exit(); } }", "@: shared hash of u64"),
        ("{ @[arg0] = count(); delete(@, arg1); }", "@: per CPU hash of u64"),
        ("{ @ = count(); clear(@); }", "@: per CPU hash of u64, mark in the key"),
        ("{ @[arg0] = count(); zero(@); }", "@: per CPU hash of u64, mark in the key"),
        ("{ @ = str(arg1); clear(@); }", "@: shared hash of value, mark in the key"),
        ("{ @ = arg0; clear(@); } interval:s:1 { zero(@); }", BOTH),
    ],
)
def test_a_map_lives_where_its_uses_allow(body: str, description: str) -> None:
    (table,) = tables(plan_of(probe(body))).values()
    assert table.describe() == description


def test_maps_that_no_probe_touches_have_no_table() -> None:
    found = tables(plan_of("begin { @a = 1; @b[2] = 3; } " + probe("{ print(@a); @c = count(); }")))
    assert list(found) == ["@c"]


def test_clearing_in_end_needs_no_generation_since_no_hit_comes_after_it() -> None:
    body = probe("{ @[arg0] = count(); }")
    (ended,) = tables(plan_of(body + " end { clear(@); }")).values()
    (timed,) = tables(plan_of(body + " interval:s:1 { clear(@); }")).values()
    assert (ended.generation, ended.max_entries) == (None, 16384)
    assert (timed.generation, timed.max_entries) == (0, 3 * 16384)


def test_a_long_string_key_takes_a_number_for_each_length() -> None:
    found = tables(plan_of(probe("{ @a[str(arg1)] = count(); @b = count(); @c[str(arg1, 100)] = count(); }")))
    assert [table.numbers for table in found.values()] == [(0, 1, 2), (3,), (4, 5)]


def test_a_histogram_has_an_element_for_each_bucket() -> None:
    found = tables(plan_of(probe("{ @a = hist(arg1); @b = hist(arg1, 5); @c = lhist(arg1, 0, 100, 25); }")))
    assert [table.max_entries for table in found.values()] == [65, 59 * 32 + 1, 6]
