"""What a trace prints, whole, as text and as JSON: the files in `render/`.

The hits are those of a small shop that sells 100 times: the numbers in the files follow from its arithmetic. The
programs are written as typed programs, run as Python, and rendered.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.typed_ir import N, arg, builtin, clause, map_of, num, op, program, str_of, text
from tracer.lang import typed
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    IntType,
    Stack,
    StackType,
    StringType,
    SymbolType,
    TimestampType,
    TupleType,
    UsernameType,
)
from tracer.render.json import JsonRenderer
from tracer.render.renderer import Renderer
from tracer.render.text import TextRenderer
from tracer.results.events import Event
from tracer.results.store import LocalMaps
from tracer.steps.lower import lower
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Runtime
from tracer.steps.values import Argument, BuiltIn, ReturnValue, Source, Text, UserStack
from tracer.steps.walk import leaves

FILES = Path(__file__).parent / "render"
STRING = StringType(1024)
ITEMS = [b"tea", b"coffee beans", b"cocoa", b"\xc3\xa9clair", b'a "quoted" cup']


def orders() -> Iterator[dict[Source, Any]]:
    """The arguments of each order: id, item, quantity, cents, and the quantity negated."""
    for number in range(1, 101):
        quantity = number % 13
        item, cents = ITEMS[number % 5], (number % 7 + 1) * quantity * 5
        stack = Stack(42, (0x1004, 0x2010) if number % 2 else (0x1008,))
        yield {
            Argument(0, UINT64): number,
            Argument(1, UINT64): 4096,
            Text(Argument(1, UINT64), 0, 1024, False, False): item,
            Text(Argument(1, UINT64), 0, 4, True, False): item,
            Argument(2, UINT64): quantity,
            Argument(3, UINT64): cents,
            Argument(4, UINT64): -quantity % 2**64,
            UserStack(127): stack,
            ReturnValue(): 2**32 - 1 if number % 10 == 0 else number,
            BuiltIn("pid"): 42,
            BuiltIn("uid"): 0,
            BuiltIn("moment"): 0,
        }


class Names:
    """Knows three symbols."""

    def symbol(self, pid: int, address: int) -> str:
        return {0x1: "main", 0x2: "pay für"}.get(address >> 12, f"{address:#x}")

    def frame(self, pid: int, address: int, returned: bool = False) -> str:
        return f"{self.symbol(pid, address)}+{address & 0xFFF}"

    def interrupts(self, pid: int, address: int) -> bool:
        return False

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        return []

    def path(self, pid: int, address: int) -> str | None:
        return {0x1: "/bin/till", 0x2: "/lib/für.so"}.get(address >> 12)

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        return ("c0ffee", address & 0xFFF) if address >> 12 == 1 else None

    def mapping(self, pid: int, address: int) -> None:
        return None


def u(value: int) -> typed.IntLit:
    return num(value, UINT64)


def signed(expr: typed.Expr) -> typed.Expr:
    return typed.Cast(INT64, N, expr)


def when(condition: typed.Expr, *body: typed.Stmt) -> typed.Stmt:
    return typed.If(N, condition, body, ())


def last(*body: typed.Stmt) -> typed.Stmt:
    """What runs after the last order, as END would."""
    return when(op("==", arg(0), u(100), BOOL), *body)


def count(name: str, *key: typed.Expr) -> typed.Stmt:
    return typed.Aggregate(N, name, key, "count", None)


def total(name: str, function: str, value: typed.Expr, *key: typed.Expr) -> typed.Stmt:
    return typed.Aggregate(N, name, key, function, value)


def keep(name: str, value: typed.Expr, *key: typed.Expr) -> typed.Stmt:
    return typed.MapSet(N, name, key, value)


def printf(index: int, *args: typed.Expr) -> typed.Stmt:
    return typed.Printf(N, index, args)


def pair(*items: typed.Expr) -> typed.TupleExpr:
    return typed.TupleExpr(TupleType(tuple(item.type for item in items)), N, items)


def single(
    *body: typed.Stmt,
    maps: tuple[typed.MapDecl, ...] = (),
    formats: tuple[str, ...] = (),
    shapes: tuple[Any, ...] = (),
    predicate: typed.Expr | None = None,
) -> typed.Program:
    return program([clause(body, predicate)], maps, formats, shapes)


ITEM, CENTS, QUANTITY = str_of(arg(1)), arg(3), arg(2)
ONCE = op("==", arg(0), u(1), BOOL)
NESTED = pair(num(1), pair(text(b"two"), num(3)), num(-4))
BY_QUANTITY = map_of("@", "count", UINT64)
SUM_BY_QUANTITY = map_of("@", "sum", UINT64, value=UINT64)

CASES: dict[str, typed.Program] = {
    "count": single(count("@"), maps=(map_of("@", "count"),)),
    "named": single(
        count("@refunds"), count("@orders"), maps=(map_of("@refunds", "count"), map_of("@orders", "count"))
    ),
    "by_item": single(count("@", ITEM), maps=(map_of("@", "count", STRING),)),
    "by_two": single(
        total("@", "sum", CENTS, ITEM, op("%", QUANTITY, u(2))),
        maps=(map_of("@", "sum", STRING, UINT64, value=UINT64),),
    ),
    "by_int_sum": single(total("@", "sum", CENTS, QUANTITY), maps=(SUM_BY_QUANTITY,)),
    "neg_key": single(count("@", signed(arg(4))), maps=(map_of("@", "count", INT64),)),
    "hist": single(total("@cents", "hist", CENTS), maps=(map_of("@cents", "hist", value=UINT64),)),
    "hist_key": single(total("@cents", "hist", CENTS, ITEM), maps=(map_of("@cents", "hist", STRING, value=UINT64),)),
    "hist_neg": single(total("@", "hist", signed(arg(4))), maps=(map_of("@", "hist"),)),
    "hist_zero": single(
        total("@", "hist", CENTS), maps=(map_of("@", "hist"),), predicate=op("==", QUANTITY, u(0), BOOL)
    ),
    "hist_k3": single(total("@", "hist", CENTS), maps=(map_of("@", "hist", parameters=(3,)),)),
    "hist_units": single(
        total("@", "hist", op("<<", u(1), op("*", arg(0), u(3)))),
        total("@k5", "hist", op("+", op("*", arg(0), u(4096)), u(1 << 16))),
        maps=(map_of("@", "hist"), map_of("@k5", "hist", parameters=(5,))),
        predicate=op("<=", arg(0), u(20), BOOL),
    ),
    "lhist": single(total("@", "lhist", QUANTITY), maps=(map_of("@", "lhist", parameters=(0, 12, 3)),)),
    "lhist_over": single(total("@", "lhist", CENTS), maps=(map_of("@", "lhist", parameters=(50, 200, 25)),)),
    "lhist_units": single(
        total("@", "lhist", signed(op("*", op("-", arg(0), u(3)), u(1 << 19)))),
        total("@ones", "lhist", QUANTITY),
        maps=(
            map_of("@", "lhist", parameters=(-(1 << 20), 2 << 20, 512 << 10)),
            map_of("@ones", "lhist", parameters=(0, 5, 1)),
        ),
        predicate=op("<=", arg(0), u(8), BOOL),
    ),
    "avg": single(
        total("@", "avg", CENTS),
        total("@k", "avg", CENTS, op("&", QUANTITY, u(1))),
        maps=(map_of("@", "avg", value=UINT64), map_of("@k", "avg", UINT64, value=UINT64)),
    ),
    "minmax": single(
        total("@min", "min", CENTS),
        total("@max", "max", CENTS),
        total("@lo", "min", signed(arg(4)), ITEM),
        maps=(map_of("@min", "min"), map_of("@max", "max"), map_of("@lo", "min", STRING)),
    ),
    "stats": single(
        total("@", "stats", CENTS),
        total("@k", "stats", CENTS, ITEM),
        maps=(map_of("@", "stats"), map_of("@k", "stats", STRING)),
    ),
    "assign": single(
        keep("@last", arg(0)),
        keep("@item", ITEM),
        keep("@pair", pair(arg(0), ITEM)),
        maps=(
            map_of("@last", "scalar", value=UINT64),
            map_of("@item", "scalar", value=STRING),
            typed.MapDecl("@pair", (), "scalar", TupleType((UINT64, STRING)), N),
        ),
    ),
    "tuple_key": single(
        total("@", "sum", CENTS, QUANTITY, ITEM),
        maps=(map_of("@", "sum", UINT64, STRING),),
        predicate=op("<=", arg(0), u(5), BOOL),
    ),
    "nested_tuple": single(
        typed.PrintValue(N, 0, NESTED),
        keep("@t", pair(num(1), pair(num(2), text(b"x x")))),
        keep("@k", num(7), num(1), pair(num(2), text(b"x x"))),
        maps=(
            map_of("@t", "scalar", value=TupleType((INT64, TupleType((INT64, StringType(4)))))),
            map_of("@k", "scalar", INT64, TupleType((INT64, StringType(4)))),
        ),
        shapes=(NESTED.type,),
        predicate=ONCE,
    ),
    "printf": single(
        printf(0, arg(0), ITEM, QUANTITY, op("/", CENTS, u(100)), op("%", CENTS, u(100))),
        formats=("order %d: %s x%d = %d.%02d\n",),
        predicate=op("<=", arg(0), u(3), BOOL),
    ),
    "printf_all": single(
        printf(
            0,
            *map(num, (-1, 1, 255, 255, 8, 65)),
            *map(text, (b"s", b"ab", b"cd")),
            *map(num, (42, 7, -5, 9)),
        ),
        printf(1, *map(num, (255, 8, 48879, 4096))),
        formats=("[%d|%u|%x|%X|%o|%c|%s|%5s|%-5s|%05d|%+d|%ld|%llu|%%]\n", "%#x %#o %016x %p\n"),
        predicate=ONCE,
    ),
    "bool": single(
        printf(0, typed.BoolLit(BOOL, N, True), typed.BoolLit(BOOL, N, False)),
        typed.PrintValue(N, 0, typed.BoolLit(BOOL, N, True)),
        keep("@", typed.BoolLit(BOOL, N, False), typed.BoolLit(BOOL, N, True)),
        maps=(typed.MapDecl("@", (BOOL,), "scalar", BOOL, N),),
        formats=("%d %s\n",),
        shapes=(BOOL,),
        predicate=ONCE,
    ),
    "escape": single(
        printf(0),
        keep("@", num(1), text(b"new\nline"), text(b"tab\t\b\f\x1f\\b")),
        maps=(map_of("@", "scalar", StringType(16), StringType(16)),),
        formats=('tab\tquote"back\\slashAA\n',),
        predicate=ONCE,
    ),
    "not_utf8": single(
        printf(0, text(b"\xff\xc3")),
        keep("@", text(b"a\xe9b"), text(b"\xc3\xa9")),
        maps=(typed.MapDecl("@", (StringType(9),), "scalar", StringType(9), N),),
        formats=("é %s \udcff\n",),
        predicate=ONCE,
    ),
    "str_len": single(printf(0, ITEM, str_of(arg(1), 4, True)), formats=("[%s] [%s]\n",), predicate=ONCE),
    "print_map": single(
        count("@", QUANTITY), last(typed.PrintMap(N, "@", 0, 0), typed.Clear(N, "@")), maps=(BY_QUANTITY,)
    ),
    "print_top": single(
        total("@", "sum", CENTS, QUANTITY),
        last(typed.PrintMap(N, "@", 2, 0), typed.PrintMap(N, "@", 3, 100), typed.Clear(N, "@")),
        maps=(SUM_BY_QUANTITY,),
    ),
    "print_div": single(
        total("@h", "hist", CENTS),
        total("@l", "lhist", CENTS),
        total("@s", "stats", CENTS),
        total("@a", "avg", signed(arg(4)), ITEM),
        last(
            *(typed.PrintMap(N, name, 0, 4) for name in ("@h", "@l", "@s", "@a")),
            *(typed.Clear(N, f"@{c}") for c in "hlsa"),
        ),
        maps=(
            map_of("@h", "hist"),
            map_of("@l", "lhist", parameters=(0, 400, 200)),
            map_of("@s", "stats"),
            map_of("@a", "avg", STRING),
        ),
    ),
    "print_value": single(
        total("@", "sum", CENTS, QUANTITY),
        last(typed.PrintValue(N, 0, typed.MapGet(UINT64, N, "@", (u(5),))), typed.Clear(N, "@")),
        maps=(SUM_BY_QUANTITY,),
        shapes=(UINT64,),
    ),
    "zero_clear": single(
        count("@a", op("&", QUANTITY, u(1))),
        count("@b"),
        total("@h", "hist", QUANTITY),
        total("@v", "avg", QUANTITY),
        last(*(typed.Zero(N, name) for name in ("@a", "@h", "@v")), typed.Clear(N, "@b")),
        maps=(map_of("@a", "count", UINT64), map_of("@b", "count"), map_of("@h", "hist"), map_of("@v", "avg")),
    ),
    "empty_map": single(
        count("@never"), maps=(map_of("@never", "count"),), predicate=op(">", arg(0), u(1000000), BOOL)
    ),
    "returned": single(
        printf(0, typed.Retval(UINT64, N), typed.Retval(UINT64, N)),
        count("@", typed.Retval(UINT64, N)),
        maps=(BY_QUANTITY,),
        formats=("%d %lu\n",),
        predicate=op("<=", op("-", arg(0), u(9)), u(1), BOOL),
    ),
    "casts": single(
        printf(
            0,
            num(-1, IntType(8, True)),
            num(0, IntType(8, False)),
            num(-1, IntType(16, True)),
            num(4294967295, IntType(32, False)),
        ),
        formats=("%d %d %d %d\n",),
        predicate=ONCE,
    ),
    "bigint": single(
        keep("@a", num(9223372036854775807)),
        keep("@b", u(18446744073709551615)),
        keep("@c", num(-9223372036854775807)),
        keep("@d", num(9007199254740992)),
        keep("@e", num(9007199254740993)),
        keep("@f", num(-(2**63))),
        maps=tuple(map_of(f"@{c}", "scalar", value=UINT64 if c == "b" else INT64) for c in "abcdef"),
        predicate=ONCE,
    ),
    "stacks": single(
        count("@", typed.UStack(StackType(127), N)),
        keep("@where", typed.UStack(StackType(127), N), typed.USym(SymbolType(), N, u(0x2010))),
        printf(0, typed.USym(SymbolType(), N, u(0x1010)), typed.UStack(StackType(127), N)),
        typed.PrintValue(N, 0, typed.UStack(StackType(127), N)),
        maps=(
            map_of("@", "count", StackType(127)),
            typed.MapDecl("@where", (SymbolType(),), "scalar", StackType(127), N),
        ),
        formats=("%s:%s",),
        shapes=(StackType(127),),
        predicate=op("<=", arg(0), u(3), BOOL),
    ),
    "user_and_time": single(
        printf(0, builtin("username", UsernameType()), typed.Strftime(TimestampType("%%Y"), N, u(0))),
        count("@", builtin("username", UsernameType())),
        maps=(typed.MapDecl("@", (UsernameType(),), "count", INT64, N),),
        formats=("%6s %s\n",),
        predicate=ONCE,
    ),
}


def rendered(typed_program: typed.Program, renderer_type: type[Renderer]) -> bytes:
    """What the program prints when it runs over all orders."""
    out = io.BytesIO()
    renderer = renderer_type(typed_program, Names(), out)
    store = LocalMaps(typed_program)

    def handle(event: Event) -> None:
        renderer.event(event, store)

    one = typed_program.clauses[0]
    steps = lower(typed_program, one)
    function = compile_clause(typed_program, one, steps, None, Runtime(store, handle))
    renderer.attached(1)
    for order in orders():
        function(tuple(order[leaf.source] for leaf in leaves(steps)))
    renderer.maps([store.snapshot(name) for name in typed_program.maps])
    renderer.flush()
    return out.getvalue()


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    assert rendered(CASES[name], TextRenderer).decode("utf-8", "surrogateescape") == (
        (FILES / f"{name}.txt").read_bytes().decode("utf-8", "surrogateescape")
    )


@pytest.mark.parametrize("name", CASES)
def test_json(name: str) -> None:
    shown = rendered(CASES[name], JsonRenderer).decode()
    assert shown == (FILES / f"{name}.jsonl").read_bytes().decode()
    for line in shown.splitlines():
        assert set(json.loads(line)) <= {"type", "data", "count"}


def test_every_file_has_its_case() -> None:
    assert {path.stem for path in FILES.iterdir()} == set(CASES)
