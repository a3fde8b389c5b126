"""The syntax tree into the typed program: names are looked up, types inferred, conversions made explicit.

Types depend on each other across clauses (a map may be read before the clause that assigns it), so the rules of
`lang.check` run over the program again and again until two passes find the same types; one more pass then reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tracer.errors import ProgramError
from tracer.lang import ast, typed
from tracer.lang.check.context import Unit
from tracer.lang.check.facts import Facts, MapFacts
from tracer.lang.check.statements import StatementChecker
from tracer.lang.config import configure
from tracer.lang.types import INT64, UINT64, IntType, Type
from tracer.resolve.model import Site

MOST_PASSES = 100
"""More than any chain of dependent types needs: each pass types at least one more map or variable."""


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


def _infer(program: ast.Program, units: tuple[Unit, ...], config: typed.Config) -> Facts:
    """Facts that another pass would not change."""
    known = Facts()
    for _ in range(MOST_PASSES):
        checker = StatementChecker(program.source, config, known, final=False, found=Facts(settled=known.settled))
        for unit in units:
            _clause(checker, unit)
        found = checker.found
        if found.identity() == known.identity():
            unsettled = found.unsettled()
            if not unsettled or _faulty(program, units, config, found):
                return found
            found.settled = found.settled | unsettled
        known = found
    return known


def _faulty(program: ast.Program, units: tuple[Unit, ...], config: typed.Config, facts: Facts) -> bool:
    """Whether something has no type because it is wrong, and not because it depends on itself alone."""
    checker = StatementChecker(program.source, config, facts, final=True)
    for unit in units:
        _clause(checker, unit)
    return any(diagnostic.severity == "error" for diagnostic in checker.diagnostics)


def _clause(checker: StatementChecker, unit: Unit) -> typed.Clause:
    clause = unit.clause
    checker.unit = unit
    checker.scopes, checker.slots, checker.loops, checker.unrolled = [{}], {}, [], 0
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
