"""Types of maps and variables, found by running the rules until they say nothing new.

Types depend on each other across clauses (a map may be read before the clause that assigns it), so the rules run again
and again, over the parts of the program that use what has changed, until nothing does. A pass over the whole confirms
it, and is the one that makes the typed program and speaks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TypeGuard

from tracer.dataclass import dataclass, field
from tracer.errors import Diagnostic, ProgramError
from tracer.lang import typed
from tracer.lang.check.expressions.expression import expr
from tracer.lang.check.expressions.operands import condition
from tracer.lang.check.statements import statements
from tracer.lang.check.unroll import unrolled
from tracer.lang.scope.context import Context, Unit
from tracer.lang.scope.facts import Facts, joined
from tracer.lang.syntax import ast
from tracer.lang.walk import walk

MOST_ROUNDS = 20
"""For each map and variable: how often its type can grow, and more."""


@dataclass(slots=True)
class _Part:
    """Statements of a clause that share variables with each other and with no others, or a condition. `reads` are those
    of its maps that it does more with than to assign to them.
    """

    unit: Unit
    statements: list[ast.Stmt]
    condition: ast.Expr | None = None
    maps: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    facts: Facts = field(default_factory=Facts)


@dataclass(frozen=True, slots=True)
class Checked:
    """A clause as the last pass has it: its predicate and statements, and the slot of each of its variables."""

    unit: Unit
    predicate: typed.Expr | None
    body: tuple[typed.Stmt, ...]
    slots: Mapping[Hashable, int]
    until: typed.Until | None = None


def infer(program: ast.Program, units: tuple[Unit, ...], config: typed.Config) -> tuple[Context, list[Checked]]:
    """The last pass, whose facts another pass would not change. Raises `ProgramError` where there is none."""
    parts = [part for unit in units for part in _parts(unit)]
    facts, rounds = Facts(), 0
    while True:
        rounds = _spread(program, parts, config, facts, rounds)
        while True:
            ctx = _context(program, config, facts, final=True)
            checked = [_checked(ctx, unit) for unit in units]
            facts_now, rounds = ctx.facts, rounds + 1
            if facts_now.identity() == facts.identity():
                break
            _come_to_an_end(program, facts_now, list(facts_now.maps), rounds)
            facts = facts_now
        unsettled = facts_now.unsettled()
        # If it has no type because of an error, that has been reported; else it depends only on itself.
        if not unsettled or any(diagnostic.severity == "error" for diagnostic in ctx.diagnostics):
            return ctx, checked
        facts.settled = facts.settled | unsettled


def _spread(program: ast.Program, parts: list[_Part], config: typed.Config, known_facts: Facts, rounds: int) -> int:
    """Adds to what is known until no part of the program says more; counts the rounds."""
    users: dict[str, list[_Part]] = {}
    readers: dict[str, list[_Part]] = {}
    for part in parts:
        for name in part.maps:
            users.setdefault(name, []).append(part)
            if name in part.reads:
                readers.setdefault(name, []).append(part)
    changed = parts
    while changed:
        again = {id(part): part for part in changed if _look(program, part, config, known_facts)}
        grown = []
        for name in dict.fromkeys(name for part in changed for name in part.maps):
            facts = joined(name, [part.facts for part in users[name]])
            before = known_facts.maps.get(name)
            if facts is not None and (before is None or facts.identity() != before.identity()):
                known_facts.maps[name] = facts
                grown.append(name)
        changed = list((again | {id(part): part for name in grown for part in readers.get(name, ())}).values())
        rounds += 1
        _come_to_an_end(program, known_facts, grown, rounds)
    return rounds


def _context(program: ast.Program, config: typed.Config, known_facts: Facts, final: bool = False) -> Context:
    """A pass over the program; the final one knows all types and speaks."""
    facts = Facts(settled=known_facts.settled)
    return Context(
        program.source, config, known_facts, final, expr, statements, program.types, program.options, facts
    )


def _checked(ctx: Context, unit: Unit) -> Checked:
    ctx.begin(unit)
    clause = unit.clause
    predicate = None if clause.predicate is None else condition(ctx, clause.predicate, "the predicate")
    body = unrolled(ctx, predicate, statements(ctx, clause.body))
    if unit.until is None:
        return Checked(unit, *body, ctx.slots)
    from tracer.lang.check.spans import until

    return Checked(unit, *body, ctx.slots, until(ctx))


def _look(program: ast.Program, part: _Part, config: typed.Config, facts: Facts) -> bool:
    """Finds the facts of a part; returns whether its variables have got other types than it has read."""
    ctx = _context(program, config, facts)
    ctx.begin(part.unit)
    if part.condition is not None:
        condition(ctx, part.condition, "the predicate")
    statements(ctx, tuple(part.statements))
    part.facts = ctx.facts
    fresh = part.facts.variables
    facts.variables.update(fresh)
    return any(key in fresh and fresh[key].type() != type for key, type in ctx.first_reads.items())


def _come_to_an_end(program: ast.Program, facts: Facts, grown: list[str], rounds: int) -> None:
    """Raises `ProgramError`, under a map that is still growing, where types never settle."""
    if rounds <= MOST_ROUNDS * (len(facts.maps) + len(facts.variables) + 1):
        return
    spans = (facts.maps[name].kind_span for name in grown)
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
        names, reads = _names(piece)
        part = _Part(unit, [], maps={name for name in names if name[0] == "@"}, reads=reads)
        if isinstance(piece, ast.Expr):
            part.condition = piece
        for other in {id(owners[name]): owners[name] for name in names if name in owners}.values():
            del parts[id(other)]
            part.statements += other.statements
            part.maps |= other.maps
            part.reads |= other.reads
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
        if not _holds(statement) or any(isinstance(node, ast.Var) for node in walk(statement)):
            yield statement
        elif isinstance(statement, ast.Block):
            yield from _pieces(statement.body)
        else:
            yield statement.condition
            yield from _pieces((*statement.then, *statement.otherwise))


def _holds(node: ast.Stmt) -> TypeGuard[ast.Block | ast.If]:
    return isinstance(node, ast.Block) or (isinstance(node, ast.If) and not isinstance(node.condition, ast.Comptime))


def _names(node: ast.Expr | ast.Stmt) -> tuple[set[str], set[str]]:
    """The maps and variables that a part of the tree names, and those maps that stand elsewhere than before a `=`."""
    names, reads, target = set(), set(), None
    for part in walk(node):
        if isinstance(part, (ast.MapRef, ast.Var)):
            names.add(part.name)
            if isinstance(part, ast.MapRef) and part is not target:
                reads.add(part.name)
        elif isinstance(part, ast.Assign) and part.op == "=":
            target = part.target
    return names, reads
