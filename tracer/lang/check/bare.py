"""A probe without a body shows its hits: the time, who it was, and as much of the arguments as is known there.

What is known, the checker says itself: of the bodies that come into question the first is taken that it finds no fault
in. So `uprobe:FILE:f /arg0 > 5/` is the program that a user would have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tracer.dataclass import replace
from tracer.errors import ProgramError
from tracer.kinds.registry import KINDS
from tracer.kinds.site import Site
from tracer.lang.macros.said import placed
from tracer.lang.syntax import ast

Sites = Mapping[int, tuple[Site, ...]]

MOST = 6
"""Arguments of a function whose parameters nothing tells: those in registers."""

_EVERY = 'time=strftime("%H:%M:%S.%f", nsecs), comm=comm, pid=pid, tid=tid, probe=probe'


def with_bodies(program: ast.Program, sites: Sites, check: Callable[[ast.Program, Sites], object]) -> ast.Program:
    """The program with a body for each clause that has none. `check` raises `ProgramError`."""
    clauses = []
    for index, clause in enumerate(program.clauses):
        clauses.append(clause)
        clause_sites = sites.get(index)
        for text in _bodies(clause, clause_sites or ()) if clause.bare else ():
            clauses[-1] = _with_body(clause, text)
            # With those before it: what these assign, its predicate may read. None comes after it.
            try:
                check(replace(program, clauses=tuple(clauses)), sites)
            except ProgramError:
                continue
            break
    return replace(program, clauses=tuple(clauses))


def _bodies(clause: ast.Clause, sites: tuple[Site, ...]) -> Iterator[str]:
    """The bodies that come into question, the one that shows most first."""
    reads = [KINDS[point.kind].reads for point in clause.points]
    noted = all("note" in readable for readable in reads)
    least = min((len(site.args) for site in sites), default=0)
    arguments = [numbered(least if noted else min(least, MOST))] if least else []
    returns, calls = (all(what in readable for readable in reads) for what in ("return", "call"))
    yield from records(arguments if noted else ["args=args", *arguments], returns, calls)


def records(arguments: Sequence[str], returns: bool, calls: bool) -> Iterator[str]:
    """The fields of a record of a hit, as the language spells them: with what is known of its arguments, the best
    first, then without, each with the result if a hit `returns`, and without it; and with the duration where hits are
    `calls`.
    """
    took = "duration=duration" if calls else ""
    for shown in (*arguments, ""):
        for told in ("retval=retval", "") if returns else ("",):
            yield ", ".join([_EVERY, *filter(None, (shown, told, took))])


def numbered(count: int) -> str:
    """The field of so many arguments that have no names."""
    return f"args=({', '.join(f'arg{number}=arg{number}' for number in range(count))})"


def _with_body(clause: ast.Clause, text: str) -> ast.Clause:
    span = clause.points[0].span.to(clause.points[-1].span)
    return replace(clause, body=placed(f"print(({text}));", span), bare=False)
