from __future__ import annotations

import pytest

from tests import typed_ir as ir
from tests.unit.backends.ftrace.plans import compiled, count, load, probe, site, spec
from tracer.kinds.site import Mem, Reg
from tracer.lang import typed
from tracer.lang.types import BOOL, INT64, UINT64, IntType, StringType, Type

ARGS = (spec(Reg("di")), spec(Reg("si"), 4, True), spec(Reg("dx"), 4), spec(Mem("ax", 8)), spec(Reg("cx"), 8, True))


def test(op: str, index: int, value: int, type: Type = UINT64) -> typed.Expr:
    leaf: typed.Expr = ir.arg(index)
    if type != UINT64:
        leaf = typed.Cast(type, ir.N, leaf)
    assert isinstance(type, IntType)
    return ir.op(op, leaf, ir.num(value, type), BOOL)


def named(op: str, name: bytes) -> typed.Expr:
    return ir.op(op, ir.builtin("comm", StringType(16)), typed.Cast(StringType(16), ir.N, ir.text(name)), BOOL)


def pushed(predicate: typed.Expr) -> str | None:
    """The filter, with a mark where something is left to user space."""
    maps: dict[str, Type | None] = {"@": UINT64, "@n": None}
    event = compiled(probe([count(ir.arg(0))], site(args=ARGS), predicate=predicate), maps=maps).events[0]
    if event.filter is None:
        return None
    names = {f"f{number}": fetch.place for number, fetch in enumerate(event.places[0].fetches)}
    text = event.filter.text
    for name, place in names.items():
        text = text.replace(name, place)
    return text if event.filter.whole else f"{text} …"


test.__test__ = False  # type: ignore[attr-defined]

HUGE = (1 << 64) - 5


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (test("==", 0, 7), "%di == 7"),
        (test("!=", 0, 7), "%di != 7"),
        (test(">=", 0, HUGE), f"%di >= {HUGE}"),
        (test("<", 2, 10), "%dx < 10"),
        (test("==", 1, 7), "%si == 7"),
        # -5 as it is once it is read as unsigned
        (test("==", 1, HUGE), "%si == -5"),
        (test("<", 1, -5, INT64), "%si < -5"),
        (test(">", 4, 5), "%cx > 5"),
        (test("==", 4, -5, INT64), "%cx == 18446744073709551611"),
        (ir.op(">", ir.num(3, UINT64), ir.arg(0), BOOL), "%di < 3"),
        (ir.arg(0), "%di != 0"),
        (ir.op("&", ir.arg(0), ir.num(1 << 63, UINT64)), f"%di & {1 << 63}"),
        (ir.op("==", ir.op("&", ir.arg(2), ir.num(6, UINT64)), ir.num(0, UINT64), BOOL), "!(%dx & 6)"),
        (ir.op("&", ir.arg(1), ir.num((1 << 31) - 1, UINT64)), f"%si & {(1 << 31) - 1}"),
        # the bits that extend the number, which the field has not
        (ir.op("&", ir.arg(1), ir.num(1 << 31, UINT64)), None),
        (ir.op("&", ir.arg(2), ir.num(1 << 32, UINT64)), None),
        (ir.op("==", ir.op("&", ir.arg(0), ir.num(6, UINT64)), ir.num(2, UINT64), BOOL), None),
        (ir.op("&", ir.arg(0), ir.arg(2)), None),
        (typed.Unary(BOOL, ir.N, "!", ir.arg(0)), "!(%di != 0)"),
        (ir.op("||", test("==", 0, 1), test("==", 2, 2), BOOL), "(%di == 1 || %dx == 2)"),
        (ir.op("&&", test("==", 0, 1), test("==", 2, 2), BOOL), "%di == 1 && %dx == 2"),
        (named("==", b"app"), 'COMM == "app"'),
        (named("!=", b"a b*:[1]"), 'COMM != "a b*:[1]"'),
        (ir.op("==", ir.text(b"app"), ir.builtin("comm", StringType(16)), BOOL), 'COMM == "app"'),
        (ir.op("&&", typed.Unary(BOOL, ir.N, "!", named("==", b"")), ir.arg(0), BOOL), 'COMM != "" && %di != 0'),
    ],
)
def test_comparisons_of_registers_with_constants_are_the_kernels(predicate: typed.Expr, expected: str) -> None:
    assert pushed(predicate) == expected


@pytest.mark.parametrize(
    "predicate",
    [
        test("<", 1, 7),  # as unsigned, -1 is not less than 7
        test("==", 2, 1 << 32),  # the kernel would cut the constant to the field
        test("==", 1, 1 << 31),
        test("<", 0, 7, INT64),  # the field is unsigned
        test("==", 3, 7),  # memory, which may be unreadable
        test("==", 0, 7, IntType(32, True)),  # the field is wider
        ir.op("==", ir.arg(0), ir.arg(2), BOOL),
        ir.op("==", load(ir.arg(0), 64), ir.num(1, UINT64), BOOL),
        ir.op("==", ir.builtin("pid"), ir.num(1, UINT64), BOOL),
        ir.op("==", ir.builtin("tid"), ir.num(1, UINT64), BOOL),
        ir.op("==", ir.str_of(ir.arg(0)), ir.text(b"x"), BOOL),
        named("==", b'"'),
        named("==", b"it's"),
        named("==", b"back\\slash"),
        named("==", b"\xc3\xbc"),
        named("==", b"a\nb"),
        named("==", b"longer than 15 b"),
        ir.op("||", test("==", 0, 1), test("==", 3, 2), BOOL),
    ],
)
def test_what_the_kernel_would_answer_otherwise_is_left_to_user_space(predicate: typed.Expr) -> None:
    assert pushed(predicate) is None


def test_only_what_comes_before_anything_that_can_fail_is_the_kernels() -> None:
    first, memory, last = test("==", 0, 1), test("==", 3, 2), test("==", 2, 3)
    both = ir.op("&&", ir.op("&&", first, memory, BOOL), last, BOOL)
    assert pushed(both) == "%di == 1 …"
    assert pushed(ir.op("&&", memory, first, BOOL)) is None


def test_what_cannot_fail_and_changes_nothing_may_be_tested_after_the_kernel() -> None:
    register = test("==", 0, 1)
    of_numbers = ir.op("<", ir.arg(0), ir.op("/", ir.builtin("pid"), ir.num(3, UINT64)), BOOL)
    place = typed.Call(INT64, ir.N, "strstr", (ir.builtin("comm", StringType(16)), ir.text(b"a")))
    of_name = ir.op("==", place, ir.num(0), BOOL)
    of_map = ir.op("==", typed.MapGet(UINT64, ir.N, "@n", ()), ir.arg(1), BOOL)
    for first in (of_numbers, of_name, of_map):
        assert pushed(ir.op("&&", first, register, BOOL)) == "%di == 1 …"
    counts = ir.op("==", typed.MapIncr(UINT64, ir.N, "@n", (), 1, True), ir.num(3, UINT64), BOOL)
    stack = ir.op("==", ir.arg(3), ir.num(1, UINT64), BOOL)
    through = ir.op("==", load(ir.arg(0)), ir.num(1, UINT64), BOOL)
    text = ir.op("==", ir.str_of(ir.arg(0)), ir.text(b"x"), BOOL)
    by_zero = ir.op("<", ir.arg(0), ir.op("/", ir.arg(2), ir.builtin("pid")), BOOL)  # is counted
    for first in (counts, stack, through, text, by_zero):
        assert pushed(ir.op("&&", first, register, BOOL)) is None
