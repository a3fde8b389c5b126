"""Smaller programs: what can be left out of one, and what can stand in place of a part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tests.proof.programs import with_body
from tests.typed_ir import N, num, text
from tracer.dataclass import names, replace
from tracer.lang import typed
from tracer.lang.types import BoolType, IntType, StringType

_Node = TypeVar("_Node", typed.Expr, typed.Stmt)


def shrunk(program: typed.Program, fails: Callable[[Sequence[typed.Program]], int | None]) -> typed.Program:
    """A program that fails too, and none of whose smaller ones does. `fails` gives the first failing one of several."""
    for _ in range(200):
        candidates = list(_smaller(program))
        for start in range(0, len(candidates), 32):
            found = fails(candidates[start : start + 32])
            if found is not None:
                program = candidates[start + found]
                break
        else:
            break
    return program


def _smaller(program: typed.Program) -> Iterator[typed.Program]:
    clause = program.clauses[0]
    for body in _lists(clause.body):
        yield with_body(program, clause.predicate, body)
    if clause.predicate is not None:
        yield with_body(program, None, clause.body)
        for predicate in _exprs(clause.predicate):
            yield with_body(program, predicate, clause.body)
    if len(clause.sites) > 1:
        yield replace(program, clauses=(replace(clause, sites=(clause.sites[0],) * len(clause.sites)),))


def _lists(body: tuple[typed.Stmt, ...]) -> Iterator[tuple[typed.Stmt, ...]]:
    half = len(body) // 2
    if half > 1:
        yield body[:half]
        yield body[half:]
    for at, stmt in enumerate(body):
        yield body[:at] + body[at + 1 :]
        for block in _blocks(stmt):
            yield body[:at] + block + body[at + 1 :]
    for at, stmt in enumerate(body):
        for smaller in _changed(stmt):
            yield (*body[:at], smaller, *body[at + 1 :])


def _blocks(stmt: typed.Stmt) -> Iterator[tuple[typed.Stmt, ...]]:
    match stmt:
        case typed.If(then=then, otherwise=otherwise):
            yield then
            yield otherwise
        case typed.While(body=body) | typed.ForRange(body=body) | typed.ForMap(body=body):
            if not any(isinstance(each, (typed.Break, typed.Continue)) for each in body):
                yield body


def _changed(node: _Node) -> Iterator[_Node]:
    """The node with one of its parts smaller."""
    for name in names(node):
        for smaller in _parts(getattr(node, name)):
            changes: Any = {name: smaller}
            yield replace(node, **changes)


def _parts(held: Any) -> Iterator[object]:
    if isinstance(held, typed.Expr):
        yield from _exprs(held)
    elif isinstance(held, tuple) and held and isinstance(held[0], typed.Stmt):
        yield from _lists(held)
    elif isinstance(held, tuple):
        for at, part in enumerate(held):
            for smaller in _exprs(part) if isinstance(part, typed.Expr) else ():
                yield (*held[:at], smaller, *held[at + 1 :])


def _exprs(expr: typed.Expr) -> Iterator[typed.Expr]:
    """Of the same type."""
    simple: typed.Expr | None = None
    match expr.type:
        case IntType() as type:
            simple = num(0, type)
        case BoolType():
            simple = typed.BoolLit(expr.type, N, False)
        case StringType() as type:
            simple = typed.Cast(type, N, text(b"")) if type.size > 1 else text(b"")
    if simple is not None and not isinstance(expr, (typed.IntLit, typed.BoolLit, typed.StrLit)) and expr != simple:
        yield simple
    for name in names(expr):
        held = getattr(expr, name)
        for part in held if isinstance(held, tuple) else (held,):
            if isinstance(part, typed.Expr) and part.type == expr.type:
                yield part
    if isinstance(expr, typed.IntLit) and expr.value not in (0, 1):
        yield num(1, expr.type)  # type: ignore[arg-type]
    yield from _changed(expr)
