from __future__ import annotations

import time

import pytest

from tests.typed_ir import N, arg, builtin, clause, map_of, num, op, program, run, str_of, text
from tracer.dataclass import replace
from tracer.host.clock import clock_ns
from tracer.kinds.site import ArgSpec, Reg, Site, Unreadable
from tracer.lang import typed
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT8,
    UINT64,
    IntType,
    Stack,
    StackType,
    StringType,
    Symbol,
    SymbolType,
    TupleType,
)  # fmt: skip
from tracer.plan.model import Variant
from tracer.results.events import Event, ExitEvent, Loss, PrintfEvent
from tracer.results.store import LocalMaps
from tracer.results.values import Average
from tracer.steps.lower import lower
from tracer.steps.python.compile import compile_clause, source_of
from tracer.steps.python.runtime import NO_ROOM, Runtime
from tracer.steps.python.without_hit import host_values

INT32 = IntType(32, True)


def value_of(expr: typed.Expr, hit: tuple[object, ...] = (), by_zero: int = 0) -> object:
    """What an expression is worth in a clause that prints it, and divides by zero so many times."""
    result = run(program([clause([typed.PrintValue(N, 0, expr)])], shapes=[expr.type]), [hit])
    assert result.loss == Loss(divisions=by_zero)
    return result.events[0].value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("operator", "left", "right", "type", "expected"),
    [
        ("+", 2**63 - 1, 1, INT64, -(2**63)),
        ("+", 2**64 - 1, 1, UINT64, 0),
        ("-", 0, 1, UINT64, 2**64 - 1),
        ("*", 2**31, 2, INT32, 0),
        ("/", -10, 3, INT64, -3),
        ("/", 10, -3, INT64, -3),
        ("/", 7, 0, INT64, 1),
        ("/", -(2**63), -1, INT64, -(2**63)),
        ("%", -10, 3, INT64, -1),
        ("%", 10, -3, INT64, 1),
        ("%", -7, 0, INT64, 1),
        ("%", -(2**63), -1, INT64, 0),
        ("/", 2**64 - 1, 2**63, UINT64, 1),
        ("%", 2**64 - 1, 10, UINT64, 5),
        ("<<", 1, 63, INT64, -(2**63)),
        ("<<", 1, 64, INT64, 1),
        ("<<", 1, 65, UINT64, 2),
        (">>", -8, 1, INT64, -4),
        (">>", 2**64 - 8, 1, UINT64, 2**63 - 4),
        (">>", 8, 64, UINT64, 8),
        ("^", -1, 5, INT64, -6),
    ],
)
def test_integer_arithmetic_follows_the_64_bit_rules(
    operator: str, left: int, right: int, type: IntType, expected: int
) -> None:
    by_zero = int(operator in ("/", "%") and right == 0)
    assert value_of(op(operator, num(left, type), num(right, type)), (), by_zero) == expected
    # The same with operands that are not known when the clause is compiled.
    low = typed.Cast(type, N, arg(0))
    high = typed.Cast(type, N, arg(1))
    assert value_of(op(operator, low, high), (left % 2**64, right % 2**64), by_zero) == expected


def test_casts_cut_and_extend() -> None:
    def cast(value: int, bits: int, signed: bool) -> object:
        return value_of(typed.Cast(IntType(bits, signed), N, arg(0)), (value % 2**64,))

    assert [
        cast(255, 8, True),
        cast(256, 8, False),
        cast(65535, 16, True),
        cast(-1, 32, False),
        cast(-1, 64, True),
    ] == [
        -1,
        0,
        -1,
        4294967295,
        -1,
    ]


def test_a_false_predicate_keeps_the_body_from_running() -> None:
    body = [typed.Aggregate(N, "@", (), "count", None)]
    one = clause(body, predicate=op(">", arg(0), num(2, UINT64), BOOL))
    result = run(program([one], [map_of("@", "count")]), [(n,) for n in range(5)])
    assert result.maps.get("@", ()) == 2


def test_an_unreadable_value_ends_the_clause_where_it_is_needed() -> None:
    body = [
        typed.Aggregate(N, "@before", (), "count", None),
        typed.Printf(N, 0, (arg(0),)),
        typed.Aggregate(N, "@after", (), "count", None),
    ]
    result = run(
        program([clause(body)], [map_of("@before", "count"), map_of("@after", "count")], ["%d"]), [(None,), (1,)]
    )
    assert (result.maps.get("@before", ()), result.maps.get("@after", ())) == (2, 1)
    assert result.events == [PrintfEvent(0, (1,))]
    assert result.loss == Loss(unreadable=1)


def test_an_unreadable_value_that_is_not_needed_does_no_harm() -> None:
    guarded = op("&&", op("==", arg(0), num(1, UINT64), BOOL), op("==", arg(1), num(2, UINT64), BOOL), BOOL)
    body = [typed.If(N, guarded, (typed.Printf(N, 0, ()),), ()), typed.Printf(N, 1, ())]
    result = run(program([clause(body)], formats=["both", "end"]), [(0, None), (1, None), (1, 2)])
    assert result.events == [PrintfEvent(1, ()), PrintfEvent(0, ()), PrintfEvent(1, ())]
    assert result.loss == Loss(unreadable=1)


def test_a_long_string_is_cut_and_counted_unless_the_program_gave_the_size() -> None:
    body = [typed.Printf(N, 0, (str_of(arg(0), 8), str_of(arg(1), 4, sized=True)))]
    result = run(program([clause(body)], formats=["%s %s"]), [(b"coffee beans", b"coffee"), (b"seven b", b"tea")])
    assert result.events == [PrintfEvent(0, (b"coffee ", b"cof")), PrintfEvent(0, (b"seven b", b"tea"))]
    assert result.loss == Loss(truncated=1)


def test_an_exit_ends_the_clause_and_no_later_hit_counts() -> None:
    body = [
        typed.Aggregate(N, "@", (), "count", None),
        typed.If(N, op("==", arg(0), num(2, UINT64), BOOL), (typed.Exit(N, num(3, UINT8)),), ()),
        typed.Printf(N, 0, ()),
    ]
    result = run(program([clause(body)], [map_of("@", "count")], ["on"]), [(1,), (2,), (3,)])
    assert result.events == [PrintfEvent(0, ()), ExitEvent(3)]
    assert result.maps.get("@", ()) == 2
    assert result.runtime.exiting


def test_a_loop_is_cut_at_the_limit_and_counted() -> None:
    body = [typed.While(N, typed.BoolLit(BOOL, N, True), (typed.Aggregate(N, "@", (), "count", None),))]
    result = run(program([clause(body)], [map_of("@", "count")]), [()])
    assert result.maps.get("@", ()) == typed.LOOP_LIMIT == 131072
    assert result.loss == Loss(loops=1)


def test_a_loop_of_just_the_limit_is_not_cut() -> None:
    below = op("<", typed.Var(INT64, N, 0, "$i"), num(typed.LOOP_LIMIT), BOOL)
    step = typed.ExprStmt(N, typed.VarIncr(INT64, N, 0, 1, False))
    result = run(program([clause([typed.While(N, below, (step,))], slots=[INT64])]), [()])
    assert result.loss == Loss()


def test_a_map_takes_no_more_keys_than_its_limit_and_counts_the_rest() -> None:
    body = [typed.Aggregate(N, "@", (arg(0),), "count", None), typed.MapSet(N, "@x", (arg(0),), num(1))]
    maps = [map_of("@", "count", UINT64), map_of("@x", "scalar", UINT64)]
    result = run(program([clause(body)], maps, config=typed.Config(max_map_keys=2)), [(n,) for n in (1, 2, 3, 1)])
    assert result.maps.snapshot("@").items == {(1,): 2, (2,): 1}
    assert result.maps.snapshot("@x").items == {(1,): 1, (2,): 1}
    assert result.loss == Loss(keys=2, full=frozenset({"@", "@x"}))


def test_sums_wrap_by_the_sign_of_their_map() -> None:
    body = [typed.Aggregate(N, name, (), "sum", arg(0)) for name in ("@signed", "@unsigned")]
    maps = [map_of("@signed", "sum"), map_of("@unsigned", "sum", value=UINT64)]
    result = run(program([clause(body)], maps), [(2**63,), (2**63 - 1,)])
    assert (result.maps.get("@signed", ()), result.maps.get("@unsigned", ())) == (-1, 2**64 - 1)
    result = run(program([clause(body)], maps), [(2**63,), (2**63,)])
    assert (result.maps.get("@signed", ()), result.maps.get("@unsigned", ())) == (0, 0)


def test_averages_are_read_as_signed_or_unsigned() -> None:
    body = [
        typed.Aggregate(N, "@", (), "avg", typed.Cast(INT64, N, arg(0))),
        typed.PrintValue(N, 0, typed.MapGet(INT64, N, "@", ())),
    ]
    result = run(program([clause(body)], [map_of("@", "avg")], shapes=[INT64]), [(2**64 - 3,), (2**64 - 4,)])
    assert [event.value for event in result.events] == [-3, -3]  # type: ignore[union-attr]
    assert result.maps.get("@", ()) == Average(2, -7)


def test_the_next_value_after_zero_replaces_a_minimum_and_a_maximum() -> None:
    body = [
        typed.Aggregate(N, "@min", (), "min", arg(0)),
        typed.Aggregate(N, "@max", (), "max", typed.Cast(INT64, N, arg(0))),
    ]
    one = program([clause(body)], [map_of("@min", "min", value=UINT64), map_of("@max", "max")])
    store = LocalMaps(one)
    run(one, [(5,)], store)
    store.zero("@min")
    store.zero("@max")
    assert (store.get("@min", ()), store.get("@max", ())) == (0, 0)
    run(one, [(2**64 - 9,), (2**64 - 7,)], store)
    assert (store.get("@min", ()), store.get("@max", ())) == (2**64 - 9, -7)


def test_an_operand_keeps_its_value_when_a_later_one_changes_the_variable() -> None:
    dollar = typed.Var(INT64, N, 0, "$x")
    step = typed.VarIncr(INT64, N, 0, 1, False)
    body = [typed.VarSet(N, 0, num(5)), typed.Printf(N, 0, (dollar, step, dollar, op("+", dollar, step), dollar))]
    result = run(program([clause(body, slots=[INT64])], formats=["%d"]), [()])
    assert result.events == [PrintfEvent(0, (5, 5, 6, 12, 7))]


def test_probe_and_func_are_the_variants() -> None:
    body = [typed.Printf(N, 0, (builtin("probe", StringType(99)), builtin("func", StringType(99))))]
    one = program([clause(body)], formats=["%s"])
    events: list[Event] = []
    variant = Variant(0, {}, {"probe": "usdt:/é:a:b".encode(), "func": b"main"}, ())
    steps = lower(one, one.clauses[0])
    compile_clause(one, one.clauses[0], steps, variant, Runtime(LocalMaps(one), events.append))(())
    assert events == [PrintfEvent(0, ("usdt:/é:a:b".encode(), b"main"))]


def test_probe_in_begin_is_its_name_and_func_is_empty() -> None:
    body = [typed.Printf(N, 0, (builtin("probe", StringType(99)), builtin("func", StringType(99))))]
    begin = replace(clause(body, kind="begin", names=["BEGIN"]), sites=(Site("begin", "begin", "", (), 0),))
    result = run(program([begin], formats=["%s"]), [()])
    assert result.events == [PrintfEvent(0, (b"begin", b""))]


def test_for_over_a_map_goes_by_key_and_may_delete() -> None:
    pair = typed.Var(TupleType((INT64, INT64)), N, 0, "$kv")
    key, value = (typed.TupleItem(INT64, N, pair, index) for index in (0, 1))
    body = [
        *(typed.MapSet(N, "@", (num(n),), num(n * 10)) for n in (3, 1, 2)),
        typed.ForMap(N, 0, "@", (typed.Printf(N, 0, (key, value)), typed.Delete(N, "@", (key,)))),
        typed.Printf(N, 0, (typed.MapLen(UINT64, N, "@"),)),
    ]
    one = clause(body, slots=[TupleType((INT64, INT64))], kind="begin")
    result = run(program([one], [map_of("@", "scalar", INT64)], ["%d"]), [()])
    assert [event.args for event in result.events] == [(1, 10), (2, 20), (3, 30), (0,)]  # type: ignore[union-attr]


def test_memory_at_a_computed_address_is_out_of_reach() -> None:
    body = [typed.Printf(N, 0, (str_of(op("*", arg(0), num(4096, UINT64))),))]
    result = run(program([clause(body)], formats=["%s"]), [(1,), (5,)])
    assert result.events == []
    assert result.loss == Loss(unreadable=2)


def test_a_stack_that_could_not_be_walked_is_empty_and_counted() -> None:
    body = [typed.Printf(N, 0, (typed.UStack(StackType(3), N), typed.USym(SymbolType(), N, num(16, UINT64))))]
    result = run(program([clause(body)], formats=["%s%s"]), [(Stack(7, (1, 2)), 7, 0), (Stack(7, ()), 7, 0)])
    symbol = Symbol(7, 16)
    assert result.events == [PrintfEvent(0, (Stack(7, (1, 2)), symbol)), PrintfEvent(0, (Stack(7, ()), symbol))]
    assert result.loss == Loss(stacks=1)


def test_a_value_that_the_kernel_had_no_room_for_ends_the_clause_where_it_is_needed() -> None:
    body = [typed.If(N, arg(1), (typed.Printf(N, 0, (str_of(arg(0)),)),), ()), typed.Printf(N, 1, ())]
    result = run(program([clause(body)], formats=["%s", "end"]), [(1, NO_ROOM), (0, NO_ROOM), (1, None), (1, b"x")])
    assert [(event.format, event.args) for event in result.events] == [  # type: ignore[union-attr]
        (1, ()), (0, (b"x",)), (1, ()),
    ]  # fmt: skip
    assert result.loss == Loss(unreadable=1, crowded=1)


def test_what_stands_in_a_register_is_not_tested_at_each_hit() -> None:
    one = program([clause([typed.Printf(N, 0, (arg(0), arg(1)))])], formats=["%d%d"])
    spec = ArgSpec("8@%rax", 8, False, Reg("ax"))
    variant = Variant(0, {0: spec, 1: ArgSpec("?", 8, False, Unreadable("why"))}, {}, ())
    source = source_of(one, one.clauses[0], lower(one, one.clauses[0]), variant, Runtime(LocalMaps(one), print))
    assert "a0 is None" not in source
    assert "a1 is None" in source


def test_no_text_of_the_users_gets_into_the_source() -> None:
    evil = b"'); import os; os._exit(1) #"
    body = [
        typed.Printf(N, 0, (text(evil), typed.Call(INT64, N, "strstr", (text(evil), str_of(arg(0)))))),
        typed.MapSet(N, "@evil'''", (text(evil),), text(evil)),
    ]
    decl = map_of("@evil'''", "scalar", StringType(64), value=StringType(64))
    one = program([clause(body, names=["evil'\n"])], [decl], ["evil %s"])
    source = source_of(one, one.clauses[0], lower(one, one.clauses[0]), None, Runtime(LocalMaps(one), print))
    assert "evil" not in source and "import" not in source and "'" not in source
    assert run(one, [(b"import",)]).events == [PrintfEvent(0, (evil, 4))]


def test_deep_expressions_compile() -> None:
    deep: typed.Expr = arg(0)
    for _ in range(100):
        deep = typed.Unary(UINT64, N, "-", op("+", deep, arg(1)))
    assert value_of(deep, (3, 0)) == 3


def test_host_values_follow_the_fetches() -> None:
    import os

    names = ["pid", "cpid", "nsecs", "comm", "cpu"]
    body = [typed.Printf(N, 0, (*(builtin(name) for name in names), arg(0)))]
    before = clock_ns()
    pid, cpid, nsecs, comm, cpu, arg0 = host_values(lower(program([]), clause(body, kind="begin")), child_pid=77)
    assert (pid, cpid, arg0) == (os.getpid(), 77, None)
    assert before <= nsecs <= clock_ns()  # type: ignore[operator]
    assert isinstance(comm, bytes) and 0 < len(comm) <= 15
    assert 0 <= cpu < (os.cpu_count() or 1)  # type: ignore[operator]


@pytest.mark.parametrize("body_name", ["count by argument", "printf", "hist"])
def test_a_hundred_thousand_hits_take_a_fraction_of_a_second(body_name: str) -> None:
    body: dict[str, typed.Stmt] = {
        "count by argument": typed.Aggregate(N, "@count", (arg(0),), "count", None),
        "printf": typed.Printf(N, 0, (arg(0), str_of(arg(1)))),
        "hist": typed.Aggregate(N, "@hist", (), "hist", arg(0)),
    }
    one = program([clause([body[body_name]])], [map_of("@count", "count", UINT64), map_of("@hist", "hist")], ["%d %s"])
    hits = [(n % 1000, b"tea") if body_name == "printf" else (n % 1000,) for n in range(100_000)]


    def seconds() -> float:
        start = time.process_time()
        run(one, hits)
        return time.process_time() - start

    # 0.02 to 0.1 s here; ten times that would make a million hits a matter of many seconds. Of three, since a
    # collection of all that the tests have made may fall into one.
    assert min(seconds() for _ in range(3)) < 0.5
