"""Random programs: the compiled clause does what a plain tree walk does, on both kinds of store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.naive import Naive
from tests.typed_ir import N, builtin, clause, map_of, num, program, str_of, text
from tracer.interp.compile import compile_clause
from tracer.interp.fetch import fetches
from tracer.interp.runtime import Runtime
from tracer.lang import typed
from tracer.lang.types import BOOL, INT64, UINT64, IntType, StackType, StringType, SymbolType, TupleType, Type
from tracer.results.events import Event, Loss
from tracer.results.store import LocalMaps
from tracer.results.values import Key, MapSnapshot, MapStore, MapValue

INT32, UINT32, INT8, UINT8, UINT16 = (
    IntType(32, True),
    IntType(32, False),
    IntType(8, True),
    IntType(8, False),
    IntType(16, False),
)
INT_TYPES = [INT64, UINT64, INT64, UINT64, INT32, UINT32, INT8, UINT8, UINT16]
STRING = StringType(8)
PAIR = TupleType((INT64, STRING))

SLOTS: list[Type] = [INT64, UINT64, INT32, STRING, BOOL, PAIR, UINT8]
SCALARS = [
    map_of("@int", "scalar", INT64, value=INT64),
    map_of("@unsigned", "scalar", value=UINT64),
    map_of("@small", "scalar", STRING, INT64, value=INT8),
    map_of("@text", "scalar", UINT64, value=STRING),
    map_of("@pair", "scalar", PAIR, value=PAIR),
]
AGGREGATIONS = [
    map_of("@count", "count", INT64),
    map_of("@sum", "sum", value=INT64),
    map_of("@usum", "sum", INT64, value=UINT64),
    map_of("@min", "min", STRING, value=INT64),
    map_of("@max", "max", value=UINT64),
    map_of("@avg", "avg", INT64, value=INT64),
    map_of("@uavg", "avg", value=UINT64),
    map_of("@stats", "stats", value=INT64),
    map_of("@hist", "hist", value=UINT64),
    map_of("@hist3", "hist", INT64, value=INT64, bits=3),
    map_of("@lhist", "lhist", value=INT64, low=-10, high=11, step=4),
]
MAPS = SCALARS + AGGREGATIONS
FORMATS = ["%d"]
SHAPES: list[Type] = [INT64, STRING, PAIR, BOOL]

EDGES = [
    0,
    1,
    2,
    7,
    63,
    64,
    127,
    128,
    255,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -1,
    -2,
    -128,
    -(2**63),
]


def bounds(type: IntType) -> tuple[int, int]:
    return (-(2 ** (type.bits - 1)), 2 ** (type.bits - 1) - 1) if type.signed else (0, 2**type.bits - 1)


def ints(type: IntType) -> st.SearchStrategy[int]:
    low, high = bounds(type)
    return st.sampled_from([edge for edge in EDGES if low <= edge <= high]) | st.integers(low, high)


@st.composite
def int_expr(draw: st.DrawFn, type: IntType, depth: int) -> typed.Expr:
    leaves = ["literal", "literal", "slot"]
    if type == UINT64:
        leaves += ["arg", "arg", "retval", "pid", "elapsed"]
    if type in (INT32, UINT64):
        leaves += ["load"]
    inner = ["unary", "binary", "binary", "binary", "ternary", "cast", "cast", "step"]
    if type == INT64:
        inner += ["get", "increment", "item", "length"]
    if type == UINT64:
        inner += ["strlen", "strncmp", "sum"]
    match draw(st.sampled_from(leaves if depth == 0 else leaves + inner * 2)):
        case "literal":
            return num(draw(ints(type)), type)
        case "arg":
            return typed.Arg(UINT64, N, draw(st.integers(0, 2)))
        case "retval":
            return typed.Retval(UINT64, N)
        case "pid":
            return builtin("pid")
        case "elapsed":
            return builtin("elapsed")
        case "load":
            return typed.Load(type, N, typed.Arg(UINT64, N, 0))
        case "slot":
            slots = [slot for slot, slot_type in enumerate(SLOTS) if slot_type == type]
            return typed.Var(type, N, slots[0], "$x") if slots else num(draw(ints(type)), type)
        case "unary":
            return typed.Unary(type, N, draw(st.sampled_from("-~")), draw(int_expr(type, depth - 1)))
        case "binary":
            operator = draw(st.sampled_from(["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]))
            return typed.Binary(type, N, operator, draw(int_expr(type, depth - 1)), draw(int_expr(type, depth - 1)))
        case "ternary":
            condition = draw(condition_expr(depth - 1))
            return typed.Ternary(type, N, condition, draw(int_expr(type, depth - 1)), draw(int_expr(type, depth - 1)))
        case "cast":
            if draw(st.booleans()):
                return typed.Cast(type, N, draw(bool_expr(depth - 1)))
            return typed.Cast(type, N, draw(int_expr(draw(st.sampled_from(INT_TYPES)), depth - 1)))
        case "step":
            slots = [slot for slot, slot_type in enumerate(SLOTS) if slot_type == type]
            if not slots:
                return num(draw(ints(type)), type)
            return typed.VarIncr(type, N, slots[0], draw(st.sampled_from([1, -1])), draw(st.booleans()))
        case "get":
            name = draw(st.sampled_from(["@int", "@count", "@avg"]))
            return typed.MapGet(INT64, N, name, (draw(int_expr(INT64, depth - 1)),))
        case "sum":
            return typed.MapGet(UINT64, N, "@max", ())
        case "increment":
            key = (draw(int_expr(INT64, depth - 1)),)
            return typed.MapIncr(INT64, N, "@int", key, draw(st.sampled_from([1, -1])), draw(st.booleans()))
        case "item":
            return typed.TupleItem(INT64, N, draw(pair_expr(depth - 1)), 0)
        case "length":
            return typed.Cast(INT64, N, typed.MapLen(UINT64, N, "@int"))
        case "strlen":
            return typed.Strlen(UINT64, N, draw(string_expr(depth - 1)))
        case _:
            left, right = draw(string_expr(depth - 1)), draw(string_expr(depth - 1))
            return typed.Strncmp(UINT64, N, left, right, draw(st.integers(0, 6)))


@st.composite
def bool_expr(draw: st.DrawFn, depth: int) -> typed.Expr:
    if depth == 0:
        return draw(
            st.sampled_from([typed.BoolLit(BOOL, N, True), typed.BoolLit(BOOL, N, False), typed.Var(BOOL, N, 4, "$b")])
        )
    match draw(st.integers(0, 7)):
        case 0 | 1:
            type = draw(st.sampled_from(INT_TYPES))
            operator = draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
            return typed.Binary(BOOL, N, operator, draw(int_expr(type, depth - 1)), draw(int_expr(type, depth - 1)))
        case 2:
            operator = draw(st.sampled_from(["==", "!="]))
            strategy = draw(st.sampled_from([string_expr, pair_expr]))
            return typed.Binary(BOOL, N, operator, draw(strategy(depth - 1)), draw(strategy(depth - 1)))
        case 3 | 4:
            operator = draw(st.sampled_from(["&&", "||"]))
            return typed.Binary(BOOL, N, operator, draw(condition_expr(depth - 1)), draw(condition_expr(depth - 1)))
        case 5:
            return typed.Unary(BOOL, N, "!", draw(condition_expr(depth - 1)))
        case 6:
            return typed.HasKey(BOOL, N, "@int", (draw(int_expr(INT64, depth - 1)),))
        case _:
            return typed.Strcontains(BOOL, N, draw(string_expr(depth - 1)), draw(string_expr(depth - 1)))


def condition_expr(depth: int) -> st.SearchStrategy[typed.Expr]:
    return bool_expr(depth) | int_expr(INT64, depth) | int_expr(UINT8, depth)


@st.composite
def string_expr(draw: st.DrawFn, depth: int) -> typed.Expr:
    match draw(st.integers(0, 3 if depth == 0 else 5)):
        case 0:
            return text(draw(st.sampled_from([b"", b"a", b"ab", b"abc", b"\xff'\"\\"])))
        case 1:
            return typed.Var(STRING, N, 3, "$s")
        case 2:
            return str_of(
                typed.Arg(UINT64, N, draw(st.integers(0, 1))), draw(st.sampled_from([4, 8])), draw(st.booleans())
            )
        case 3:
            return builtin("comm", StringType(16))
        case 4:
            arms = draw(string_expr(depth - 1)), draw(string_expr(depth - 1))
            return typed.Ternary(STRING, N, draw(condition_expr(depth - 1)), *arms)
        case _:
            return typed.MapGet(STRING, N, "@text", (draw(int_expr(UINT64, depth - 1)),))


@st.composite
def pair_expr(draw: st.DrawFn, depth: int) -> typed.Expr:
    match draw(st.integers(0, 1 if depth == 0 else 2)):
        case 0:
            depth = max(depth - 1, 0)
            return typed.TupleExpr(PAIR, N, (draw(int_expr(INT64, depth)), draw(string_expr(depth))))
        case 1:
            return typed.Var(PAIR, N, 5, "$p")
        case _:
            return typed.MapGet(PAIR, N, "@pair", (draw(pair_expr(depth - 1)),))


def expr_of(type: Type, depth: int) -> st.SearchStrategy[typed.Expr]:
    match type:
        case IntType():
            return int_expr(type, depth)
        case StringType():
            return string_expr(depth)
        case TupleType():
            return pair_expr(depth)
        case _:
            return bool_expr(depth)


def key_of(draw: st.DrawFn, decl: typed.MapDecl, depth: int) -> tuple[typed.Expr, ...]:
    return tuple(draw(expr_of(part, depth)) for part in decl.key)


@st.composite
def statement(draw: st.DrawFn, depth: int, in_loop: bool) -> typed.Stmt:
    kinds = [
        "var",
        "var",
        "set",
        "set",
        "add",
        "aggregate",
        "aggregate",
        "aggregate",
        "delete",
        "expr",
        "printf",
        "value",
    ]
    if depth > 0:
        kinds += ["if", "if", "while", "range"]
    if in_loop:
        kinds += ["break", "continue"]
    kinds += [draw(st.sampled_from(["return", "exit", "events", "var"]))]
    size = max(depth, 1)
    match draw(st.sampled_from(kinds)):
        case "var":
            slot = draw(st.integers(0, len(SLOTS) - 1))
            return typed.VarSet(N, slot, draw(expr_of(SLOTS[slot], size)))
        case "set":
            decl = draw(st.sampled_from(SCALARS))
            return typed.MapSet(N, decl.name, key_of(draw, decl, 1), draw(expr_of(decl.value, size)))
        case "add":
            decl = draw(st.sampled_from(SCALARS[:3]))
            return typed.MapAdd(N, decl.name, key_of(draw, decl, 1), draw(expr_of(decl.value, size)))
        case "aggregate":
            decl = draw(st.sampled_from(AGGREGATIONS))
            value = None if decl.kind == "count" else draw(expr_of(decl.value, size))
            return typed.Aggregate(N, decl.name, key_of(draw, decl, 1), decl.kind, value)  # type: ignore[arg-type]
        case "delete":
            decl = draw(st.sampled_from(MAPS))
            return typed.Delete(N, decl.name, key_of(draw, decl, 1))
        case "expr":
            return typed.ExprStmt(N, draw(int_expr(INT64, size)))
        case "printf":
            types: list[Type] = draw(st.lists(st.sampled_from([INT64, UINT64, STRING, BOOL, PAIR]), max_size=3))
            return typed.Printf(N, 0, tuple(draw(expr_of(type, size)) for type in types))
        case "value":
            shape = draw(st.integers(0, len(SHAPES) - 1))
            return typed.PrintValue(N, shape, draw(expr_of(SHAPES[shape], size)))
        case "if":
            then, otherwise = draw(block(depth - 1, in_loop)), draw(block(depth - 1, in_loop))
            return typed.If(N, draw(condition_expr(size)), then, otherwise)
        case "while":
            return typed.While(N, draw(condition_expr(size)), draw(block(depth - 1, True)))
        case "range":
            start, stop = draw(st.integers(-3, 3)), draw(st.integers(-3, 12))
            return typed.ForRange(N, 0, num(start), num(stop), draw(block(depth - 1, True)))
        case "break":
            return typed.Break(N)
        case "continue":
            return typed.Continue(N)
        case "return":
            return typed.Return(N)
        case "exit":
            return typed.Exit(N, 3)
        case _:
            return draw(
                st.sampled_from(
                    [typed.PrintMap(N, "@int", 2, 0), typed.Clear(N, "@int"), typed.Zero(N, "@sum"), typed.Time(N, 0)]
                )
            )


def block(depth: int, in_loop: bool) -> st.SearchStrategy[tuple[typed.Stmt, ...]]:
    return st.lists(statement(depth, in_loop), max_size=3).map(tuple)


@st.composite
def programs(draw: st.DrawFn) -> typed.Program:
    body = draw(st.lists(statement(2, False), min_size=1, max_size=5))
    predicate = draw(st.none() | bool_expr(2))
    config = typed.Config(max_map_keys=draw(st.sampled_from([2, 16384])))
    return program([clause(body, predicate, SLOTS)], MAPS, FORMATS, SHAPES, config)


def leaf_value(leaf: typed.Expr) -> st.SearchStrategy[Any]:
    if isinstance(leaf, typed.Builtin):
        return ints(UINT64) if leaf.name != "comm" else st.sampled_from([b"shop", b"", b"fifteen letters"])
    readable: st.SearchStrategy[Any]
    if isinstance(leaf, typed.Str):
        readable = st.sampled_from([b"", b"a", b"abc", b"abcd", b"abcdefgh", b"\xff\xfe"])
    else:
        assert isinstance(leaf.type, IntType)
        readable = ints(leaf.type)
    return st.none() | readable | readable | readable | readable


class OtherStore:
    """A store that is not `LocalMaps`, so that the compiled code has to call it."""

    def __init__(self, inner: LocalMaps) -> None:
        self._inner = inner
        self.set, self.add, self.aggregate = inner.set, inner.add, inner.aggregate
        self.delete, self.clear, self.zero = inner.delete, inner.clear, inner.zero
        self.begin_handler, self.end_handler = inner.begin_handler, inner.end_handler

    def get(self, name: str, key: Key) -> MapValue | None:
        return self._inner.get(name, key)

    def snapshot(self, name: str) -> MapSnapshot:
        return self._inner.snapshot(name)


def outcome(
    typed_program: typed.Program, store: MapStore, loss: Loss, runtime: Runtime, events: list[Event]
) -> dict[str, Any]:
    maps = {name: dict(store.snapshot(name).items) for name in typed_program.maps}
    # 1 == True in Python, and they print differently: the types count.
    return {"maps": repr(sorted(maps.items())), "events": repr(events), "loss": loss, "exiting": runtime.exiting}


@pytest.fixture(autouse=True)
def short_loops() -> Iterator[None]:
    before = typed.LOOP_LIMIT
    typed.LOOP_LIMIT = 5
    yield
    typed.LOOP_LIMIT = before


@pytest.mark.parametrize("local", [True, False], ids=["LocalMaps", "another store"])
@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_compiled_clause_does_what_the_tree_walk_does(local: bool, data: st.DataObject) -> None:
    typed_program = data.draw(programs())
    hits = data.draw(st.lists(st.tuples(*map(leaf_value, fetches(typed_program.clauses[0]))), min_size=1, max_size=4))
    outcomes = []
    for compiled in (True, False):
        loss = Loss()
        inner = LocalMaps(typed_program, loss)
        store: MapStore = inner if local or not compiled else OtherStore(inner)
        events: list[Event] = []
        runtime = Runtime(store, events.append, loss, start_ns=1000)
        one = typed_program.clauses[0]
        function = compile_clause(typed_program, one, None, runtime) if compiled else Naive(typed_program, one, runtime)
        for hit in hits:
            function(hit)
        outcomes.append(outcome(typed_program, store, loss, runtime, events))
    assert outcomes[0] == outcomes[1]


def test_stacks_and_symbols_arrive_unchanged() -> None:
    from tests.typed_ir import run
    from tracer.lang.types import Stack, Symbol
    from tracer.results.events import PrintfEvent

    body = [typed.Printf(N, 0, (typed.UStack(StackType(3), N), typed.USym(SymbolType(), N, num(16, UINT64))))]
    result = run(program([clause(body)], formats=["%s%s"]), [(Stack(7, (1, 2)), 7), (None, 7)])
    assert result.events == [PrintfEvent(0, (Stack(7, (1, 2)), Symbol(7, 16)))]
    assert result.loss == Loss(stacks=1)
