"""Short ways to write typed programs by hand, and to run one clause of them over hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracer.errors import NOWHERE, Source
from tracer.kinds.registry import KINDS
from tracer.lang import typed
from tracer.lang.types import INT64, UINT64, IntType, StringType, Type
from tracer.results.events import Event, Loss
from tracer.results.store import LocalMaps
from tracer.results.values import MapStore
from tracer.steps.lower import lower
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Hit, Runtime

N = NOWHERE


def arg(index: int) -> typed.Arg:
    return typed.Arg(UINT64, N, index)


def num(value: int, type: IntType = INT64) -> typed.IntLit:
    return typed.IntLit(type, N, value)


def text(value: bytes) -> typed.StrLit:
    return typed.StrLit(StringType(len(value) + 1), N, value)


def str_of(address: typed.Expr, size: int = 1024, sized: bool = False) -> typed.Str:
    return typed.Str(StringType(size), N, address, sized)


def builtin(name: str, type: Type = UINT64) -> typed.Builtin:
    return typed.Builtin(type, N, name)


def op(operator: str, left: typed.Expr, right: typed.Expr, type: Type | None = None) -> typed.Binary:
    return typed.Binary(left.type if type is None else type, N, operator, left, right)


KINDS_OF_CLAUSES = {kind.clause.name: kind.clause for kind in KINDS.values()}


def map_of(
    name: str, kind: str, *key: Type, value: Type = INT64, parameters: tuple[int, ...] = ()
) -> typed.MapDecl:
    return typed.MapDecl(name, key, kind, value, N, parameters or ((0,) if kind == "hist" else ()))


def clause(
    body: Sequence[typed.Stmt],
    predicate: typed.Expr | None = None,
    slots: Sequence[Type] = (),
    kind: str = "probe",
    names: Sequence[str] = ("probe",),
) -> typed.Clause:
    return typed.Clause(0, KINDS_OF_CLAUSES[kind], tuple(names), predicate, tuple(body), tuple(slots), N)


def program(
    clauses: Sequence[typed.Clause],
    maps: Sequence[typed.MapDecl] = (),
    formats: Sequence[str] = (),
    shapes: Sequence[Type] = (),
    config: typed.Config | None = None,
) -> typed.Program:
    return typed.Program(
        Source(""),
        tuple(clauses),
        {decl.name: decl for decl in maps},
        tuple(formats),
        tuple(shapes),
        config or typed.Config(),
    )


@dataclass
class Run:
    """What a clause did."""

    maps: MapStore
    events: list[Event]
    loss: Loss
    runtime: Runtime


def run(
    typed_program: typed.Program,
    hits: Iterable[Hit],
    maps: MapStore | None = None,
) -> Run:
    """Runs the first clause of a program over hits."""
    loss = Loss()
    store = LocalMaps(typed_program, loss) if maps is None else maps
    events: list[Event] = []
    runtime = Runtime(store, events.append, loss, start_ns=0)
    clause = typed_program.clauses[0]
    function = compile_clause(typed_program, clause, lower(typed_program, clause), None, runtime)
    for hit in hits:
        function(hit)
    return Run(store, events, loss, runtime)
