"""Threads that end inside spans: the clause that runs as a thread ends, which no program names.

What such a thread has started is forgotten there and counted, or else it would be taken for the start of what ends in
a later thread with the same number, and there would be no room for it one day. The clause asks whether something of
the thread is noted, which it is of threads that are traced alone: so it may run at the exits of all.
"""

from __future__ import annotations

from contextlib import suppress

from tracer.dataclass import replace
from tracer.errors import TracerError
from tracer.kinds.model import AttachPoint, Machine
from tracer.kinds.registry import KINDS
from tracer.kinds.site import Site
from tracer.lang.typed import (
    Binary,
    Calls,
    Clause,
    Delete,
    Expr,
    If,
    IntLit,
    MapAdd,
    MapGet,
    Program,
    Stmt,
    Var,
    VarSet,
    While,
)
from tracer.lang.types import BOOL, UINT64
from tracer.plan.calls.reads import word

_KIND = KINDS["tracepoint"]
_EVENT = "tracepoint:sched:sched_process_exit"


def with_exits(program: Program, machine: Machine) -> Program:
    """The program whose spans of threads have the event of a thread's end, where this user can see the kernel's."""
    sites: tuple[Site, ...] = ()
    with suppress(TracerError, OSError):
        assert _KIND.machine is not None
        point = AttachPoint("tracepoint", _EVENT, program.clauses[0].span, None, "sched", "sched_process_exit")
        sites = tuple(_KIND.machine(point, machine))
    if not sites:
        return program
    clauses = [
        clause if clause.until is None or clause.until.keys[0]
        else replace(clause, until=replace(clause.until, exits=sites))
        for clause in program.clauses
    ]  # fmt: skip
    return replace(program, clauses=tuple(clauses))


def at_exit(clause: Clause, number: int, calls: Calls, levels: str, thread: tuple[Expr, ...]) -> Clause:
    """The clause, of that number, for what a clause of spans has noted of a thread."""
    assert clause.until is not None
    span = clause.span
    level = Var(UINT64, span, 0, "$level")
    some = Binary(BOOL, span, "!=", level, IntLit(UINT64, span, 0))
    key, one = (*thread, level), IntLit(UINT64, span, 1)
    forget: list[Stmt] = [
        VarSet(span, 0, word("-", level, one)),
        MapAdd(span, calls.abandoned, (), one),
        Delete(span, calls.open, key),
    ]
    if calls.memory:
        forget.append(Delete(span, calls.memory, key))
    body: tuple[Stmt, ...] = (
        VarSet(span, 0, MapGet(UINT64, span, levels, thread)),
        If(span, some, (Delete(span, levels, thread), While(span, some, tuple(forget))), ()),
    )
    return replace(
        clause, id=number, kind=_KIND.clause, names=(_EVENT,), spans=(span,), sites=clause.until.exits,
        predicate=None, body=body, slots=(UINT64,), until=None, unasked=True,
    )  # fmt: skip
