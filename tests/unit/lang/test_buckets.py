from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tracer.lang.aggregations.buckets import (
    linear_bounds,
    linear_bucket,
    linear_count,
    log2_bounds,
    log2_bucket,
    quantile_bounds,
    quantile_bucket,
    quantile_count,
)

ANY_INT64 = st.integers(-(2**63), 2**63 - 1)
LINEAR = st.tuples(st.integers(-1000, 1000), st.integers(1, 2000), st.integers(1, 500))


@given(ANY_INT64 | st.sampled_from([0, 1, 2**62, 2**63 - 1, -1, -(2**63)]), st.integers(0, 5))
def test_a_value_lies_between_the_bounds_of_its_bucket(value: int, bits: int) -> None:
    bucket = log2_bucket(value, bits)
    low, high = log2_bounds(bucket, bits)
    assert 0 <= bucket <= (64 - bits) << bits
    assert (low is None or low <= value) and value < high


@given(st.integers(0, 5), st.integers(1, 2000))
def test_each_bucket_begins_where_the_one_before_ends(bits: int, bucket: int) -> None:
    bucket = min(bucket, (64 - bits) << bits)
    low, high = log2_bounds(bucket, bits)
    assert low == log2_bounds(bucket - 1, bits)[1]
    assert low is not None and low < high
    assert log2_bucket(low, bits) == log2_bucket(high - 1, bits) == bucket


def test_the_last_bucket_ends_where_signed_64_bit_integers_end() -> None:
    for bits in range(6):
        assert log2_bounds(log2_bucket(2**63 - 1, bits), bits)[1] == 2**63


def test_an_unsigned_value_from_2_to_the_63_is_read_as_negative() -> None:
    assert log2_bucket(2**63, 0) == log2_bucket(2**64 - 1, 3) == 0
    assert linear_bucket(2**64 - 1, 0, 10, 1) == 0


@given(ANY_INT64 | st.integers(-2000, 3000), LINEAR)
def test_a_value_lies_between_the_bounds_of_its_linear_bucket(value: int, parameters: tuple[int, int, int]) -> None:
    low, width, step = parameters
    bucket = linear_bucket(value, low, low + width, step)
    first, after = linear_bounds(bucket, low, low + width, step)
    assert 0 <= bucket < linear_count(low, low + width, step)
    assert (first is None or first <= value) and (after is None or value < after)


@pytest.mark.parametrize(
    ("value", "bucket"), [(-1, 0), (0, 1), (2, 1), (3, 2), (8, 3), (9, 4), (10, 4), (11, 4), (1000, 4)]
)
def test_a_range_that_step_does_not_divide_ends_in_one_open_bucket(value: int, bucket: int) -> None:
    assert linear_count(0, 10, 3) == 5
    assert linear_bucket(value, 0, 10, 3) == bucket
    assert linear_bounds(4, 0, 10, 3) == (9, None)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [3, 5])
def test_the_middle_of_a_bucket_of_quantiles_is_off_by_its_share_at_most(bits: int, signed: bool) -> None:
    """1/64 of a value with 5 bits, and the buckets follow each other from the least value to the greatest."""
    before = -(2**63) if signed else 0
    for bucket in range(quantile_count(bits, signed)):
        low, after = quantile_bounds(bucket, bits, signed)
        assert low == before < after
        before = after
        middle = (low + after - 1) // 2
        for value in (low, after - 1):
            assert quantile_bucket(value, bits, signed) == bucket
            assert abs(middle - value) * (2 << bits) <= abs(value)
    assert before == (2**63 if signed else 2**64)
