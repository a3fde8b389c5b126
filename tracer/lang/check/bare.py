"""A probe without a body shows its hits: the time, who it was, and as much of the arguments as is known there.

What is known, the checker says itself: of the bodies that come into question the first is taken that it finds no fault
in. So `uprobe:FILE:f /arg0 > 5/` is the program that a user would have written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import ProgramError
from tracer.kinds.registry import KINDS
from tracer.kinds.site import FileSite, Site, in_files
from tracer.lang.macros.said import placed
from tracer.lang.syntax import ast
from tracer.lang.types import BoolType, CharType, IntType, PointerType

if TYPE_CHECKING:
    from tracer.lang.types.outside import Outside

Sites = Mapping[int, tuple[Site, ...]]

_FEW = 16
"""Functions up to which debug information is asked what they return."""
_NUMBERS = (IntType, CharType)
_MOST = 6
"""Arguments of a function whose parameters nothing tells: those in registers."""

_UNREADABLE = '"?"'
_EVERY = 'time=strftime("%H:%M:%S.%f", nsecs), comm=comm, pid=pid, tid=tid, probe=probe'


def with_bodies(
    program: ast.Program, sites: Sites, stacks: bool, check: Callable[[ast.Program, Sites], object]
) -> ast.Program:
    """The program with a body for each clause that has none; each shows its user stack too, if `stacks` are wanted.
    `check` raises `ProgramError`.
    """
    clauses = []
    for index, clause in enumerate(program.clauses):
        clauses.append(clause)
        clause_sites = sites.get(index)
        for text in _bodies(clause, clause_sites or (), program.types.outside) if clause.bare else ():
            clauses[-1] = _with_body(clause, f"{text}, stack=ustack" if stacks else text)
            # With the others: what these assign, its predicate may read.
            later = [_with_body(other, _EVERY) if other.bare else other for other in program.clauses[index + 1 :]]
            try:
                check(replace(program, clauses=(*clauses, *later)), sites)
            except ProgramError:
                continue
            break
    return replace(program, clauses=tuple(clauses))


def _bodies(clause: ast.Clause, sites: tuple[Site, ...], outside: Callable[[], Outside] | None) -> Iterator[str]:
    """The bodies that come into question, the one that shows most first."""
    reads = [KINDS[point.kind].reads for point in clause.points]
    returns = all("return" in readable for readable in reads)
    of_calls = all("call" in readable for readable in reads)  # there `retval` has its type
    result = f"retval={'' if of_calls else _result_type(in_files(sites), outside)}retval" if returns else ""
    if of_calls and _is_elsewhere(in_files(sites), outside):
        result = f"retval={_UNREADABLE}"
    took = "duration=duration" if of_calls else ""
    noted = all("note" in readable for readable in reads)
    least = min((len(site.args) for site in sites), default=0)
    numbered = ", ".join(f"arg{number}=arg{number}" for number in range(least if noted else min(least, _MOST)))
    arguments = f"args=({numbered})" if least else ""
    if not noted and least and (named := _by_parameters(in_files(sites), outside)) is not None:
        arguments = named
    for shown in (arguments if noted else "args=args", arguments, ""):
        for told in dict.fromkeys((result, "")):
            yield ", ".join([_EVERY, *filter(None, (shown, told, took))])


def _by_parameters(sites: Sequence[FileSite], outside: Callable[[], Outside] | None) -> str | None:
    """The parameters of all functions, `?` for one that cannot be read; None where they are not known, and "" where
    they are not the same.
    """
    functions = {site.probe: site for site in sites}
    if outside is None or not functions or len(functions) > _FEW:
        return None
    lists = [
        parameters for site in functions.values()
        if not isinstance(parameters := outside().parameters(site), str)
    ]  # fmt: skip
    if not lists:
        return None
    texts = {
        ", ".join([f"{one.name}={_UNREADABLE if one.reason else f'args.{one.name}'}" for one in parameters])
        for parameters in lists if all(one.name.isidentifier() for one in parameters)
    }  # fmt: skip
    return f"args=({texts.pop()})" if len(texts) == 1 and len(lists) == len(functions) and "" not in texts else ""


def _result_type(sites: Sequence[FileSite], outside: Callable[[], Outside] | None) -> str:
    """The cast to the integer or address that all functions return, "" where they return none, or too many are asked
    about.
    """
    functions = {site.probe: site for site in sites}
    if outside is None or not functions or len(functions) > _FEW:
        return ""
    type, *others = {outside().result_type(site) for site in functions.values()}
    if isinstance(type, PointerType) and not others:
        return "(void *)"
    if isinstance(type, BoolType) and not others:
        return "(bool)(uint8)"
    number = not others and isinstance(type, IntType) and type.__class__ in _NUMBERS and type.bits <= 64
    return f"({type})" if number else ""


def _is_elsewhere(sites: Sequence[FileSite], outside: Callable[[], Outside] | None) -> bool:
    """Whether a part of the struct that a function returns cannot be read."""
    functions = {site.probe: site for site in sites}
    if outside is None or len(functions) > _FEW:
        return False
    return any(result is not None and result.reason for result in map(outside().struct_result, functions.values()))


def _with_body(clause: ast.Clause, text: str) -> ast.Clause:
    span = clause.points[0].span.to(clause.points[-1].span)
    return replace(clause, body=placed(f"print(({text}));", span), bare=False)
