"""The operators on wrapped integers against Python's exact arithmetic and against a C compiler's rules."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tracer.backends.bcc.codegen import operands as numbers, wide
from tracer.lang.fixed_width import quotient, remainder
from tracer.lang.types import BOOL, INT64, UINT64, IntType, operations
from tracer.steps.python import value_source as python

NUMBERS, COUNTS = st.integers(-(1 << 64), 1 << 64), st.integers(0, 63)
TYPES = [IntType(bits, signed) for bits in (8, 16, 32, 64) for signed in (True, False)]
TYPED = st.sampled_from(TYPES).flatmap(
    lambda type: st.tuples(
        st.just(type),
        st.integers().map(lambda n: operations.wrap(n, type)),
        st.integers().map(lambda n: operations.wrap(n, type)),
    )
)


def bounds(type: IntType) -> tuple[int, int]:
    return (-(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1) if type.signed else (0, (1 << type.bits) - 1)


def test_every_operation_is_spelled_in_python_and_in_c() -> None:
    structure = {operations.TUPLE}  # of C, where a tuple is its parts
    for each in operations.OPERATIONS:
        assert each.python or each in python.SPELLED, each
        assert each.c or each.sign or each in {*numbers.SPELLED, *wide.SPELLED, *structure}, each
    assert len(operations.OPERATIONS) == len({each.name for each in operations.OPERATIONS}) >= 40


@given(st.data(), st.sampled_from([op for op in operations.BINARY.values() if op.bounds is not None]))
def test_a_result_lies_within_its_bounds(data: st.DataObject, op: operations.Operation) -> None:
    assert callable(op.bounds)
    sides = [sorted(data.draw(st.tuples(NUMBERS, NUMBERS))) for _ in range(2)]
    if op in (operations.SHL, operations.SHR):
        sides[1] = sorted(data.draw(st.tuples(COUNTS, COUNTS)))
    left, right = (data.draw(st.integers(*side)) for side in sides)
    found = op.bounds((-1, 1), *map(tuple, sides))
    if found is None or (right == 0 and op in (operations.QUOT, operations.REM)):
        return
    exact = {operations.QUOT: quotient, operations.REM: remainder}.get(op)
    result = exact(left, right) if exact else eval(str(op.python).format(f"({left})", f"({right})"))
    assert found[0] <= result <= found[1]


@given(TYPED)
def test_every_result_is_a_value_of_the_type(case: tuple[IntType, int, int]) -> None:
    type, left, right = case
    low, high = bounds(type)
    for operator in operations.ARITHMETIC.values():
        assert low <= operator(left, right, type) <= high


@given(TYPED)
def test_quotient_and_remainder_give_back_the_dividend(case: tuple[IntType, int, int]) -> None:
    type, left, right = case
    quotient, remainder = operations.div(left, right, type), operations.mod(left, right, type)
    if right == 0:
        assert (quotient, remainder) == (1, 1)
        return
    assert operations.wrap(quotient * right + remainder, type) == left
    assert abs(remainder) < abs(right)
    assert remainder == 0 or (remainder < 0) == (left < 0)


@pytest.mark.parametrize(
    ("op", "left", "right", "type", "result"),
    [
        ("/", -10, 3, INT64, -3),
        ("%", -10, 3, INT64, -1),
        ("/", 10, -3, INT64, -3),
        ("%", 10, -3, INT64, 1),
        ("/", 7, 0, INT64, 1),
        ("%", -7, 0, INT64, 1),
        ("/", -(1 << 63), -1, INT64, -(1 << 63)),
        ("+", (1 << 64) - 1, 1, UINT64, 0),
        ("-", 0, 1, UINT64, (1 << 64) - 1),
        ("*", 1 << 62, 2, INT64, -(1 << 63)),
        ("<<", 1, 64, UINT64, 1),
        ("<<", 1, 63, INT64, -(1 << 63)),
        (">>", -8, 1, INT64, -4),
        (">>", (1 << 64) - 8, 1, UINT64, (1 << 63) - 4),
        (">>", 8, -63, INT64, 4),
        ("&", -1, 6, INT64, 6),
        ("|", -8, 1, INT64, -7),
        ("^", (1 << 64) - 1, 1, UINT64, (1 << 64) - 2),
    ],
)
def test_corner_cases_follow_bpf(op: str, left: int, right: int, type: IntType, result: int) -> None:
    assert operations.ARITHMETIC[op](left, right, type) == result


@pytest.mark.parametrize(
    ("value", "type", "result"),
    [
        (255, IntType(8, True), -1),
        (256, IntType(8, False), 0),
        (-1, IntType(32, False), 4294967295),
        (-1, UINT64, (1 << 64) - 1),
        ((1 << 64) - 1, INT64, -1),
        (True, INT64, 1),
    ],
)
def test_casts_cut_and_reread_the_sign(value: int, type: IntType, result: int) -> None:
    assert operations.cast(value, type) == result


def test_a_cast_to_bool_asks_whether_it_is_not_zero() -> None:
    assert [operations.cast(value, BOOL) for value in (0, 1, -1, 256)] == [False, True, True, True]


@given(TYPED)
def test_negation_and_complement_are_their_own_inverse(case: tuple[IntType, int, int]) -> None:
    type, value, _ = case
    assert operations.wrap(-operations.wrap(-value, type), type) == value
    assert operations.wrap(~operations.wrap(~value, type), type) == value
