"""Clauses that read variables by name, `vars.total`, over sites at which these are in different places.

A clause is checked and compiled once for all its sites. So where a variable is in a register at one site and in memory
at another, or is another variable, the clause becomes several, one for each place. A site at which a variable cannot be
read is left out where there are others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from tracer.dataclass import replace
from tracer.errors import Diagnostic, Span
from tracer.kinds.registry import kind_of
from tracer.kinds.site import FileSite, Site
from tracer.lang.scope.context import Unit
from tracer.lang.syntax import ast
from tracer.lang.types.outside import INSIDE, Local, Outside
from tracer.lang.walk import walk

_WORDS = ("vars", "args")
Asked = dict[tuple[str, str], Span]
"""What a clause names, and where first: (`vars` or `args`, the name or "" for all)."""


def asked_of(clause: ast.Clause) -> Asked:
    """The variables that a clause names."""
    asked: Asked = {}
    of_fields: set[int] = set()
    for root in (clause.predicate, *clause.body):
        for node in walk(root) if root is not None else ():
            if isinstance(node, ast.Field) and isinstance(node.operand, ast.Name) and node.operand.name in _WORDS:
                of_fields.add(id(node.operand))
                asked.setdefault((node.operand.name, node.name), node.span)
            elif isinstance(node, ast.Name) and node.name in _WORDS and id(node) not in of_fields:
                asked.setdefault((node.name, ""), node.span)
    return asked


def split(unit: Unit, outside: Outside, said: list[Diagnostic]) -> Iterator[Unit]:
    """The unit, or those that it becomes. Its number is that of the first; `said` gets what is left out."""
    asked = asked_of(unit.clause)
    if not asked or not unit.places:
        yield unit
        return
    groups: dict[Hashable, list[FileSite]] = {}
    lost: dict[tuple[str, str], list[FileSite]] = {}
    unreadable: list[FileSite] = []
    for site in unit.places:
        places = {name: _place(outside, site, *name) for name in asked}
        missing = [name for name, place in places.items() if place is None]
        if missing:
            lost.setdefault(missing[0], []).append(site)
            unreadable.append(site)
        else:
            groups.setdefault(tuple(places.values()), []).append(site)
    if not groups:
        yield restricted(unit, unreadable[:1], unit.number)  # the checker says why
        return
    for name, sites in lost.items():
        said.append(_left_out(name, asked[name], sites, unit, outside))
    for number, sites in enumerate(groups.values()):
        yield restricted(unit, sites, unit.number + number)


def _place(outside: Outside, site: FileSite, word: str, name: str) -> Hashable:
    """A key that is equal at sites that can share a clause; None where a variable cannot be read."""
    if site.is_return_probe or site.is_at_return:
        return "return"
    if word == "args" and kind_of(site).enters and outside.parameters(site) != INSIDE:
        return "entry"
    in_scope = outside.variables(site)
    if isinstance(in_scope, str):
        return None
    visible = [variable for variable in in_scope if not variable.hidden and (word == "vars" or variable.parameter)]
    if not name:
        return tuple((variable.name, _where(variable)) for variable in visible if not variable.reason) or None
    local = next((variable for variable in visible if variable.name == name), None)
    if local is not None:
        return _where(local) if not local.reason or local.pieces else None
    of_file = outside.variable(site, name) if word == "vars" else ""
    return None if isinstance(of_file, str) else of_file


def _where(local: Local) -> Hashable:
    return local.type, local.pieces, local.reference, local.reason


def restricted(unit: Unit, sites: Sequence[Site], number: int) -> Unit:
    """The unit with some of its sites, and with the attach points that have these."""
    kept = sorted({site.point for site in sites})
    places = {point: place for place, point in enumerate(kept)}
    points = tuple(unit.points[point] for point in kept)
    unit_sites = tuple([site.of_point(places[site.point]) for site in sites])
    return replace(unit, number=number, points=points, sites=unit_sites)


def _left_out(asked: tuple[str, str], span: Span, sites: list[FileSite], unit: Unit, outside: Outside) -> Diagnostic:
    word, name = asked
    in_scope = outside.variables(sites[0])
    variables = in_scope if isinstance(in_scope, tuple) else ()
    local = next((variable for variable in variables if variable.name == name and not variable.hidden), None)
    reason = f": {local.reason}" if local is not None else ": it is not in scope" if name else ""
    what = f"{word}.{name}" if name else word
    where = f"{len(sites)} of {len(unit.places)} places"
    which = "which is left out" if len(sites) == 1 else "which are left out"
    return Diagnostic(f"{what} cannot be read at {where}, {which}{reason}", span, severity="warning", lacking=True)
