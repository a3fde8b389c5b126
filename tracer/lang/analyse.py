"""The syntax tree into the typed program: names are looked up, types inferred, conversions made explicit.

Types depend on each other across clauses (a map may be read before the clause that assigns it), so the rules of
`lang.check` run again and again, over the parts of the program that use what has changed, until nothing does; a pass
over the whole confirms it, and one more reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tracer.dataclass import dataclass, field
from tracer.dataclass import names as names_of
from tracer.errors import Diagnostic, ProgramError
from tracer.lang import typed
from tracer.lang.check.context import Unit
from tracer.lang.check.facts import Facts, MapFacts, joined
from tracer.lang.check.statements import StatementChecker
from tracer.lang.config import configure
from tracer.lang.syntax import ast
from tracer.lang.types import INT64, UINT64, IntType, Type
from tracer.resolve.model import Site

MOST_ROUNDS = 20
"""For each map and variable: how often its type can grow, and more."""


def analyse(
    program: ast.Program, sites: Mapping[int, tuple[Site, ...]], environment: Mapping[str, str] | None = None
) -> typed.Program:
    """The typed program. `sites` holds the sites of each clause by its index in `program.clauses`.

    `environment` may set what `config` sets (`BPFTRACE_MAX_STRLEN`). Raises `ProgramError` with all faults.
    """
    config, said = configure(program.config, environment)
    units = tuple(_units(program, sites))
    facts = _infer(program, units, config)
    checker = StatementChecker(program.source, config, facts, final=True)
    clauses = tuple(_clause(checker, unit) for unit in units)
    found = sorted([*said, *checker.diagnostics], key=lambda diagnostic: (diagnostic.span.start, diagnostic.span.end))
    errors = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    if errors:
        raise ProgramError(program.source, found)
    return typed.Program(
        program.source,
        clauses,
        {name: _declaration(map) for name, map in facts.maps.items()},
        tuple(text for text, _ in checker.formats),
        tuple(checker.shapes),
        config,
        tuple(found),
    )


def _units(program: ast.Program, sites: Mapping[int, tuple[Site, ...]]) -> Iterator[Unit]:
    """The clauses, one for each kind of place that their attach points name."""
    number = 0
    for index, clause in enumerate(program.clauses):
        for points in _groups(clause.points):
            first = points[0]
            kind = first.kind if first.kind in ("begin", "end", "interval") else "probe"
            yield Unit(number, clause, kind, points, sites.get(index, ()) if kind == "probe" else ())
            number += 1


def _groups(points: tuple[ast.AttachPoint, ...]) -> list[tuple[ast.AttachPoint, ...]]:
    """Attach points that can share a clause: all probes; each BEGIN, END and interval is one of its own."""
    groups: list[list[ast.AttachPoint]] = []
    probes: list[ast.AttachPoint] | None = None
    for point in points:
        if point.kind in ("begin", "end", "interval"):
            groups.append([point])
        elif probes is None:
            probes = [point]
            groups.append(probes)
        else:
            probes.append(point)
    return [tuple(group) for group in groups]


@dataclass(slots=True)
class _Part:
    """Statements of a clause that share variables with each other and with no others, or a condition."""

    unit: Unit
    statements: list[ast.Stmt]
    condition: ast.Expr | None = None
    maps: set[str] = field(default_factory=set)
    found: Facts = field(default_factory=Facts)


def _infer(program: ast.Program, units: tuple[Unit, ...], config: typed.Config) -> Facts:
    """Facts that another pass would not change. Raises `ProgramError` where there are none."""
    parts = [part for unit in units for part in _parts(unit)]
    known, rounds = Facts(), 0
    while True:
        rounds = _spread(program, parts, config, known, rounds)
        while True:
            checker = StatementChecker(program.source, config, known, final=False, found=Facts(settled=known.settled))
            for unit in units:
                _clause(checker, unit)
            found, rounds = checker.found, rounds + 1
            if found.identity() == known.identity():
                break
            _come_to_an_end(program, found, list(found.maps), rounds)
            known = found
        unsettled = found.unsettled()
        if not unsettled or _faulty(program, units, config, found):
            return found
        known.settled = known.settled | unsettled


def _spread(program: ast.Program, parts: list[_Part], config: typed.Config, known: Facts, rounds: int) -> int:
    """Adds to what is known until no part of the program says more; counts the rounds."""
    users: dict[str, list[_Part]] = {}
    for part in parts:
        for name in part.maps:
            users.setdefault(name, []).append(part)
    changed = parts
    while changed:
        again = {id(part): part for part in changed if _look(program, part, config, known)}
        grown = []
        for name in dict.fromkeys(name for part in changed for name in part.maps):
            facts = joined(name, [part.found for part in users[name]])
            if facts is not None and (name not in known.maps or facts.identity() != known.maps[name].identity()):
                known.maps[name] = facts
                grown.append(name)
        changed = list((again | {id(part): part for name in grown for part in users[name]}).values())
        rounds += 1
        _come_to_an_end(program, known, grown, rounds)
    return rounds


def _look(program: ast.Program, part: _Part, config: typed.Config, known: Facts) -> bool:
    """Finds the facts of a part; whether they change what itself may read."""
    checker = StatementChecker(program.source, config, known, final=False, found=Facts(settled=known.settled))
    _begin(checker, part.unit)
    if part.condition is not None:
        checker.condition(part.condition, "the predicate")
    checker.statements(tuple(part.statements))
    part.found = checker.found
    fresh = part.found.variables
    grown = any(key not in known.variables or known.variables[key].identity() != fresh[key].identity() for key in fresh)
    known.variables.update(fresh)
    return grown


def _come_to_an_end(program: ast.Program, known: Facts, grown: list[str], rounds: int) -> None:
    """Raises `ProgramError`, under a map that is still growing, where types never settle."""
    if rounds <= MOST_ROUNDS * (len(known.maps) + len(known.variables) + 1):
        return
    spans = (known.maps[name].kind_span for name in grown)
    span = next((span for span in spans if span is not None), program.clauses[0].span)
    message = "types depend on each other in a circle here, and never settle"
    raise ProgramError(program.source, [Diagnostic(message, span, "cast what is assigned, as in (int64)arg0")])


def _parts(unit: Unit) -> Iterator[_Part]:
    """The parts of a clause, statements in the order of the text."""
    clause = unit.clause
    pieces = list(_pieces(clause.body))
    owners: dict[str, _Part] = {}
    parts: dict[int, _Part] = {}
    for piece in pieces if clause.predicate is None else (clause.predicate, *pieces):
        names = set(_names(piece))
        part = _Part(unit, [], maps={name for name in names if name[0] == "@"})
        if isinstance(piece, ast.Expr):
            part.condition = piece
        for other in {id(owners[name]): owners[name] for name in names if name in owners}.values():
            del parts[id(other)]
            part.statements += other.statements
            part.maps |= other.maps
            owners.update((name, part) for name, owner in owners.items() if owner is other)
        if isinstance(piece, ast.Stmt):
            part.statements.append(piece)
            owners.update((name, part) for name in names if name[0] == "$")
        parts[id(part)] = part
    order = {id(piece): number for number, piece in enumerate(pieces)}
    for part in parts.values():
        part.statements.sort(key=lambda statement: order[id(statement)])
        yield part


def _pieces(body: tuple[ast.Stmt, ...]) -> Iterator[ast.Stmt | ast.Expr]:
    """Statements, and of those that only hold others and no variable, their condition and what they hold."""
    for statement in body:
        if not isinstance(statement, (ast.Block, ast.If)) or any(name[0] == "$" for name in _names(statement)):
            yield statement
        elif isinstance(statement, ast.Block):
            yield from _pieces(statement.body)
        else:
            yield statement.condition
            yield from _pieces((*statement.then, *statement.otherwise))


def _names(node: object) -> Iterator[str]:
    """The maps and variables that a part of the tree names."""
    if isinstance(node, (ast.MapRef, ast.Var)):
        yield node.name
    if isinstance(node, tuple):
        for each in node:
            yield from _names(each)
    elif isinstance(node, (ast.Expr, ast.Stmt)):
        for name in names_of(node):
            yield from _names(getattr(node, name))


def _faulty(program: ast.Program, units: tuple[Unit, ...], config: typed.Config, facts: Facts) -> bool:
    """Whether something has no type because it is wrong, and not because it depends on itself alone."""
    checker = StatementChecker(program.source, config, facts, final=True)
    for unit in units:
        _clause(checker, unit)
    return any(diagnostic.severity == "error" for diagnostic in checker.diagnostics)


def _begin(checker: StatementChecker, unit: Unit) -> None:
    checker.unit = unit
    checker.scopes, checker.slots, checker.loops, checker.unrolled = [{}], {}, [], 0


def _clause(checker: StatementChecker, unit: Unit) -> typed.Clause:
    clause = unit.clause
    _begin(checker, unit)
    predicate = None if clause.predicate is None else checker.condition(clause.predicate, "the predicate")
    body = checker.statements(clause.body)
    variables = checker.known.variables
    slots: list[Type] = [INT64] * len(checker.slots)
    for key, slot in checker.slots.items():
        facts = variables.get(key)
        slots[slot] = (facts.type() if facts else None) or INT64
    return typed.Clause(
        unit.number,
        unit.kind,
        tuple(point.text for point in unit.points),
        predicate,
        body,
        tuple(slots),
        clause.span,
        unit.sites,
        unit.points[0].period_ns,
        tuple(point.span for point in unit.points),
    )


def _declaration(facts: MapFacts) -> typed.MapDecl:
    kind = facts.kind
    assert kind is not None and facts.kind_span is not None
    value: Type = facts.value.type() or INT64
    if isinstance(value, IntType):
        value = INT64 if value.signed else UINT64
    bits = low = high = step = 0
    if kind == "hist":
        (bits,) = facts.parameters
    elif kind == "lhist":
        low, high, step = facts.parameters
    return typed.MapDecl(facts.name, facts.key or (), kind, value, facts.kind_span, bits, low, high, step)
