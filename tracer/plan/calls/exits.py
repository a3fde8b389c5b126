"""Threads that end inside spans and calls: the clauses that run as a thread ends, which no program names.

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
from tracer.kinds.site import Site, in_files
from tracer.lang.typed import (
    Binary,
    Builtin,
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
from tracer.lang.walk import walk_clause
from tracer.plan.calls.reads import word

_KIND = KINDS["tracepoint"]
_EXIT, _EXEC = ("sched_process_exit",), ("sched_process_exec",)
_MOST_FUNCTIONS = 64


def with_exits(program: Program, machine: Machine) -> Program:
    """The program whose spans of threads have the event of a thread's end, and its calls of which the depth is asked
    that and the event of an exec, where this user can see the kernel's events.
    """
    spans, deep = _EXIT, (*_EXIT, *_EXEC)
    wanted = {clause.id: spans if clause.until is not None else deep for clause in program.clauses if _notes(clause)}
    if not wanted:
        return program
    with suppress(TracerError, OSError):
        sites = {event: _site(program, machine, event) for event in deep}
        return replace(
            program,
            clauses=tuple([
                replace(clause, exits=tuple([
                    sites[event].of_point(number) for number, event in enumerate(wanted.get(clause.id, ()))
                ]))
                for clause in program.clauses
            ]),
        )  # fmt: skip
    return program


def _notes(clause: Clause) -> bool:
    """Whether a clause has notes that are found by the thread alone."""
    if clause.until is not None:
        return not clause.until.keys[0]
    sites = in_files(clause.sites)
    asks = any(isinstance(node, Builtin) and node.name == "depth" for node in walk_clause(clause))
    functions = {site.function for site in sites if site.ends and not site.goroutine}
    return asks and 0 < len(functions) <= _MOST_FUNCTIONS


def _site(program: Program, machine: Machine, event: str) -> Site:
    assert _KIND.machine is not None
    point = AttachPoint("tracepoint", f"tracepoint:sched:{event}", program.clauses[0].span, None, "sched", event)
    (site,) = _KIND.machine(point, machine)
    return site


def at_exit(clause: Clause, number: int, calls: Calls, levels: str, thread: tuple[Expr, ...]) -> Clause:
    """The clause, of that number, for what a clause of spans has noted of a thread."""
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
    return _unasked(clause, number, body)


def beyond_calls(clause: Clause, number: int, innermost: str, functions: int) -> Clause:
    """The clause, of that number, for a clause of calls: the innermost calls of a thread are gone with it, or with the
    program that it ran.
    """
    span = clause.span
    function, thread = Var(UINT64, span, 0, "$function"), Builtin(UINT64, span, "tid")
    more = Binary(BOOL, span, "<", function, IntLit(UINT64, span, functions))
    body: tuple[Stmt, ...] = (
        VarSet(span, 0, IntLit(UINT64, span, 0)),
        While(
            span, more,
            (
                Delete(span, innermost, (thread, function)),
                VarSet(span, 0, word("+", function, IntLit(UINT64, span, 1))),
            ),
        ),
    )  # fmt: skip
    return _unasked(clause, number, body)


def _unasked(clause: Clause, number: int, body: tuple[Stmt, ...]) -> Clause:
    names = tuple([site.probe for site in clause.exits])
    return replace(
        clause, id=number, kind=_KIND.clause, names=names, spans=(clause.span,) * len(names), sites=clause.exits,
        predicate=None, body=body, slots=(UINT64,), until=None, unasked=True, written=None, exits=(),
    )  # fmt: skip
