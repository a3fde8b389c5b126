"""The syntax tree into the typed program: names are looked up, types inferred, conversions made explicit.

Passes in order: `desugar`, `infer` (the rules of `check`, until no type changes; the last time they report, and
`unroll` follows), `settle`. What is constant is folded as the rules make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tracer.dataclass import replace
from tracer.errors import NOWHERE, Diagnostic, ProgramError
from tracer.kinds.model import ClauseKind
from tracer.kinds.registry import KINDS, alone
from tracer.kinds.site import Site
from tracer.lang import typed
from tracer.lang.check.desugar import desugared
from tracer.lang.check.infer import Checked, infer
from tracer.lang.config import configure
from tracer.lang.scope.context import Unit
from tracer.lang.scope.facts import Facts, MapFacts
from tracer.lang.syntax import ast
from tracer.lang.types import INT64, IntType, Type
from tracer.lang.types.combine import settled, stored, wide
from tracer.lang.walk import Node, rewrite, walk, walk_program

MAP_KINDS = ("hash", "lruhash", "percpuhash", "percpulruhash")
"""The kinds of map that `let @x = …(100);` can declare."""


def analyse(
    program: ast.Program, sites: Mapping[int, tuple[Site, ...]], environment: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
) -> typed.Program:  # fmt: skip
    """The typed program. `sites` holds the sites of each clause by its index in `program.clauses`; of one that
    is not there, those that its attach points are by themselves.

    `environment` and what is `given` may set what `config` sets (see `lang.config`). Raises `ProgramError` with all
    faults.
    """
    config, said = configure(program.config, environment, given)
    if any(clause.bare for clause in program.clauses):
        from tracer.lang.check.bare import with_bodies

        program = with_bodies(
            program, sites, config.show_stacks, lambda program, sites: analyse(program, sites, environment, given)
        )
    if program.macros or program.functions:
        from tracer.lang.macros.expand import expanded

        program = expanded(program)
    tree = desugared(program)
    if program.options:
        said += unknown_options(tree)
    units = tuple(_units(tree, sites, said))
    ctx, checked = infer(tree, units, config)
    if any(map.kind is None for map in ctx.facts.maps.values()):
        from tracer.lang.check.unassigned import read_as_zero

        tree, unassigned = read_as_zero(tree)
        said += unassigned
        ctx, checked = infer(tree, tuple(_units(tree, sites, [])), config)
    facts = ctx.facts
    said += _declarations(tree, facts)
    diagnostics = sorted([*said, *ctx.diagnostics], key=lambda diagnostic: (diagnostic.span.start, diagnostic.span.end))
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    if errors:
        raise ProgramError(program.source, diagnostics)
    declared = {declaration.name: declaration for declaration in reversed(tree.maps)}
    return typed.Program(
        program.source,
        tuple([_clause(facts, clause) for clause in checked if not clause.unit.clause.uncalled]),
        {name: _declaration(map, declared.get(name)) for name, map in facts.maps.items()},
        tuple(text for text, *_ in ctx.formats),
        tuple(ctx.shapes),
        config,
        tuple(diagnostics),
        {index: output for index, (*_, output) in enumerate(ctx.formats) if output is not None},
    )


def unknown_options(program: ast.Program) -> Iterator[Diagnostic]:
    """The options on the command line that the program has no `getopt()` for."""
    usages: dict[str, str] = {}
    for node in walk_program(program):
        match node:
            case ast.Call(name="getopt", args=(ast.StrLit(value=word), *rest)):
                told = rest[1] if len(rest) > 1 else None
                about = f" ({told.value.decode('utf-8', 'replace')})" if isinstance(told, ast.StrLit) else ""
                option = word.decode("utf-8", "replace")
                usages[option] = usages.get(option) or about
    for name in (option[2:].partition("=")[0] for option in program.options):
        if name not in usages:
            listed = ", ".join([f"--{option}{about}" for option, about in sorted(usages.items())])
            hint = f"it has {listed}" if usages else "it calls no getopt()"
            yield Diagnostic(f"the program has no option --{name}", NOWHERE, hint)


def _declarations(program: ast.Program, facts: Facts) -> Iterator[Diagnostic]:
    """Reports errors in `let @x = hash(5);`."""
    seen: set[str] = set()
    for map in program.maps:
        name = map.name
        used = facts.maps[name].kind if name in facts.maps else None
        fitting = ("" if used in (None, "scalar") else "percpu") + ("lruhash" if "lru" in map.kind else "hash")
        if name in seen:
            yield Diagnostic(f"{name} is declared already, so this has no effect", map.span, severity="warning")
        if map.kind not in MAP_KINDS:
            kinds = f"known are {', '.join(MAP_KINDS[:-1])} and {MAP_KINDS[-1]}"
            yield Diagnostic(f"unknown kind of map '{map.kind}'", map.span, kinds)
        elif name in seen:
            continue
        elif used is None:
            yield Diagnostic(f"{name} is declared and never assigned", map.span, severity="warning")
        elif map.kind != fitting:
            held = "a plain value" if used == "scalar" else f"{used}()"
            what = f"{name} is declared as {map.kind}, but holds {held}"
            yield Diagnostic(what, map.span, f"write let {name} = {fitting}({map.most});")
        seen.add(name)


def _units(
    program: ast.Program, sites: Mapping[int, tuple[Site, ...]], said: list[Diagnostic]
) -> Iterator[Unit]:
    """The clauses, one for each sort of sites that their attach points have, and for each place of the variables that
    they read. `said` gets warnings.
    """
    number = 0
    for index, clause in enumerate(program.clauses):
        every = sites.get(index, alone(clause.points))
        for group in _groups(clause.points):
            points = tuple([clause.points[place] for place in group])
            unit_sites = every if len(group) == len(clause.points) else _of_points(every, group)
            unit = Unit(number, clause, KINDS[points[0].kind].clause, points, unit_sites)
            if (last := clause.until) is not None:
                ends = sites.get(end_of(index), alone((last,)))
                until = Unit(number, clause, KINDS[last.kind].clause, (last,), ends, closes=True)
                unit = replace(unit, until=until)
            for split_unit in _by_fields(unit) if unit.reads("fields") else _by_variables(program, unit, said):
                yield split_unit
                number += 1


def end_of(index: int) -> int:
    """The index in `sites` of those at the end of a span, the start of which is of the clause of an index."""
    return -1 - index


def _by_variables(program: ast.Program, unit: Unit, said: list[Diagnostic]) -> Iterator[Unit]:
    """A unit, or several where it reads variables that are not in the same place at all its sites."""
    reads = program.types.outside is not None and any(
        isinstance(node, ast.Name) and node.name in ("vars", "args")
        for root in (unit.clause.predicate, *unit.clause.body) if root is not None
        for node in walk(root)
    )  # fmt: skip
    if not reads or not unit.places or unit.until is not None:  # a span knows no variables
        return iter((unit,))
    from tracer.lang.check.variable_sites import split

    assert program.types.outside is not None
    return split(unit, program.types.outside(), said)


def _by_fields(unit: Unit) -> Iterator[Unit]:
    """A unit of events of the kernel, or several where it reads fields that are not the same in all."""
    if len(unit.sites) < 2 or unit.until is not None:
        return iter((unit,))
    from tracer.lang.check.field_sites import split

    return split(unit)


def _groups(points: tuple[ast.AttachPoint, ...]) -> list[list[int]]:
    """The places of attach points that can share a clause: those of one sort of probes; each BEGIN, END and interval is
    one of its own.
    """
    groups: list[list[int]] = []
    shared: dict[ClauseKind, list[int]] = {}
    for place, point in enumerate(points):
        kind = KINDS[point.kind].clause
        group: list[int] = shared.setdefault(kind, []) if kind.at_hits else []
        if not group:
            groups.append(group)
        group.append(place)
    return groups


def _of_points(sites: tuple[Site, ...], group: list[int]) -> tuple[Site, ...]:
    """The sites of some attach points of a clause, which are its first, second and so on now."""
    return tuple([site.of_point(group.index(site.point)) for site in sites if site.point in group])


def _clause(facts: Facts, checked: Checked) -> typed.Clause:
    unit = checked.unit
    slots: list[Type] = [INT64] * len(checked.slots)
    for key, slot in checked.slots.items():
        variable = facts.variables.get(key)
        slots[slot] = settled((variable.type() if variable else None) or INT64)
    return typed.Clause(
        unit.number,
        unit.kind,
        tuple(point.text for point in unit.points),
        None if checked.predicate is None else rewrite(checked.predicate, _settle),
        tuple([rewrite(statement, _settle) for statement in checked.body]),
        tuple(slots),
        unit.clause.span,
        unit.sites,
        tuple(point.span for point in unit.points),
        until=None if checked.until is None else replace(checked.until, keys=_settled_keys(checked.until.keys)),
    )


_Keys = tuple[tuple[typed.Expr, ...], tuple[typed.Expr, ...]]


def _settled_keys(keys: _Keys) -> _Keys:
    first, last = (tuple([rewrite(part, _settle) for part in key]) for key in keys)
    return first, last


def _settle(node: Node) -> Node:
    """The node with a type that the typed program knows."""
    if not isinstance(node, typed.Expr):
        return node
    type = settled(node.type)
    return node if type == node.type else replace(node, type=type)


def _declaration(facts: MapFacts, declared: ast.MapDeclaration | None) -> typed.MapDecl:
    kind, value = facts.kind, facts.value.type() or INT64
    assert kind is not None and facts.kind_span is not None
    value = settled(stored(value)) if kind == "scalar" or not isinstance(value, IntType) else wide(value)
    key = tuple(map(settled, facts.key or ()))
    most, forgets = (declared.most, "lru" in declared.kind) if declared is not None else (0, False)
    return typed.MapDecl(facts.name, key, kind, value, facts.kind_span, facts.parameters, most, forgets)
