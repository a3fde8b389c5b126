from __future__ import annotations

import pytest

from tests.typed_ir import N, arg, builtin, clause, num, op, str_of
from tracer.errors import Span
from tracer.interp.fetch import fetches, is_fetchable, leaf_of, split_address
from tracer.lang import typed
from tracer.lang.types import BOOL, INT64, UINT64, IntType, StackType, StringType, SymbolType, UsernameType

DEEP = typed.Load(UINT64, N, op("+", arg(0), num(8, UINT64)))


def test_leaves_come_in_the_order_of_first_use_and_the_predicate_is_first() -> None:
    body = [
        typed.Printf(N, 0, (builtin("comm", StringType(16)), arg(2), str_of(arg(1)))),
        typed.Printf(N, 0, (arg(2), builtin("pid"))),
    ]
    found = fetches(clause(body, predicate=op(">", arg(0), num(3, UINT64), BOOL)))
    assert found == (arg(0), builtin("comm", StringType(16)), arg(2), str_of(arg(1)), builtin("pid"))


def test_one_leaf_at_two_places_is_fetched_once() -> None:
    first = typed.Arg(UINT64, Span(1, 5), 0)
    second = typed.Arg(UINT64, Span(9, 13), 0)
    strings = [typed.Str(StringType(64), Span(n, n + 1), a, False) for n, a in ((1, first), (9, second))]
    body = [typed.Printf(N, 0, (first, second, *strings))]
    assert [leaf_of(leaf) for leaf in fetches(clause(body))] == [arg(0), str_of(arg(0), 64)]


def test_strings_with_other_sizes_are_other_leaves() -> None:
    body = [typed.Printf(N, 0, (str_of(arg(0), 64), str_of(arg(0), 16, sized=True)))]
    assert len(fetches(clause(body))) == 2


def test_the_argument_of_a_fetchable_string_is_no_leaf_of_its_own() -> None:
    assert fetches(clause([typed.Printf(N, 0, (str_of(arg(3)),))])) == (str_of(arg(3)),)


def test_a_string_at_a_computed_address_needs_the_leaves_of_the_address() -> None:
    address = op("+", arg(0), op("*", arg(1), num(8, UINT64)))
    assert fetches(clause([typed.Printf(N, 0, (str_of(address),))])) == (arg(0), arg(1))


def test_elapsed_is_read_from_nsecs_and_username_from_uid_and_usym_needs_the_pid() -> None:
    body = [
        typed.Printf(
            N,
            0,
            (
                builtin("elapsed"),
                builtin("nsecs"),
                builtin("username", UsernameType()),
                typed.USym(SymbolType(), N, arg(0)),
            ),
        )
    ]
    assert fetches(clause(body)) == (builtin("nsecs"), builtin("uid"), arg(0), builtin("pid"))


def test_probe_and_func_are_constants_and_no_leaves() -> None:
    body = [typed.Printf(N, 0, (builtin("probe", StringType(64)), builtin("func", StringType(64))))]
    assert fetches(clause(body)) == ()


def test_stacks_and_the_return_value_are_leaves() -> None:
    stack = typed.UStack(StackType(5), N)
    returned = typed.Retval(UINT64, N)
    assert fetches(clause([typed.Printf(N, 0, (stack, returned))])) == (stack, returned)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        (arg(0), (arg(0), 0)),
        (typed.Retval(UINT64, N), (typed.Retval(UINT64, N), 0)),
        (op("+", arg(0), num(24, UINT64)), (arg(0), 24)),
        (op("+", num(24, UINT64), arg(0)), (arg(0), 24)),
        (op("-", arg(0), num(24, UINT64)), (arg(0), -24)),
        (op("+", arg(0), num(2**64 - 8, UINT64)), (arg(0), -8)),
        (op("+", op("+", arg(0), num(8, UINT64)), num(4, UINT64)), (arg(0), 12)),
        (DEEP, (DEEP, 0)),
        (op("+", DEEP, num(4, UINT64)), (DEEP, 4)),
        (typed.Cast(UINT64, N, typed.Load(INT64, N, arg(0))), (typed.Load(INT64, N, arg(0)), 0)),
        (op("+", arg(0), typed.Cast(UINT64, N, num(5))), (arg(0), 5)),
    ],
)
def test_an_address_is_a_base_and_a_constant(address: typed.Expr, parts: tuple[typed.Expr, int]) -> None:
    assert split_address(address) == parts
    assert is_fetchable(address)


@pytest.mark.parametrize(
    "address",
    [
        num(4096, UINT64),
        op("+", arg(0), arg(1)),
        op("-", num(8, UINT64), arg(0)),
        op("*", arg(0), num(2, UINT64)),
        typed.Var(UINT64, N, 0, "$x"),
        typed.Cast(UINT64, N, typed.Load(IntType(32, True), N, arg(0))),
        typed.Load(UINT64, N, op("+", arg(0), arg(1))),
        typed.MapGet(UINT64, N, "@x", ()),
        builtin("nsecs"),
    ],
)
def test_an_address_that_has_to_be_computed_is_not_fetchable(address: typed.Expr) -> None:
    assert not is_fetchable(address)
