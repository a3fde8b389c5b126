"""Typed program → plan: the sites of each clause, grouped by where they keep what the clause reads."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from operator import attrgetter

from tracer.kinds.site import (
    LAST_ARGUMENT,
    REGISTER_ARGUMENT,
    REGISTERS_32,
    SITE_VALUES,
    STACK_POINTER,
    ArgSpec,
    Reg,
    Site,
    Unreadable,
    in_files,
)
from tracer.lang.typed import Clause, Program
from tracer.plan.model import Plan, ProbePlan, Variant
from tracer.steps.lower import lower as steps_of
from tracer.steps.model import Fetch, Steps
from tracer.steps.values import Argument, ReturnValue, SiteText
from tracer.steps.walk import parts, used, walk

_TAIL, _ENDS = attrgetter("tail"), attrgetter("ends")


def lower(
    program: Program, follow: bool = False, shared: bool = False,
    sites_so_far: Mapping[int, tuple[Site, ...]] | None = None,
) -> Plan:  # fmt: skip
    """The plan of a program; see `Plan` for the others. Pure: no root and no kernel is needed."""
    if any(clause.until is not None for clause in program.clauses):
        from tracer.plan.calls.spans import with_spans

        program = with_spans(program)
    if any(any(map(_TAIL, in_files(clause.sites))) for clause in program.clauses):
        from tracer.plan.tail_calls import with_tail_calls

        program = with_tail_calls(program)
    if any(any(map(_ENDS, in_files(clause.sites))) for clause in program.clauses):
        from tracer.plan.calls.split import with_calls

        program = with_calls(program)
    numbers = count()
    steps = {clause.id: steps_of(program, clause) for clause in program.clauses}
    probes = tuple(
        ProbePlan(clause, _variants(clause, steps[clause.id], numbers))
        for clause in program.clauses
        if clause.kind.at_hits and (clause.sites or sites_so_far is not None)
    )
    user = tuple(clause for clause in program.clauses if not clause.kind.at_hits)
    if not probes:
        return Plan(program, probes, user, (), steps, follow, follow or shared)
    from tracer.plan.requires import needs

    wanted = needs(program, probes, steps, follow, shared)
    return Plan(program, probes, user, wanted, steps, follow, follow or shared, sites_so_far=sites_so_far)


def _variants(clause: Clause, steps: Steps, numbers: count[int]) -> tuple[Variant, ...]:
    sources = [step.source for step in walk(steps.body) if isinstance(step, Fetch)]
    indices = sorted({source.index for source in sources if isinstance(source, Argument)})
    returns = ReturnValue() in sources
    values = (part for step in walk(steps.body) for value in used(step) for part in parts(value))
    used_here = {part.name for part in values if isinstance(part, SiteText)}
    told = {name: value for name, value in SITE_VALUES.items() if name in used_here}

    layouts: dict[object, _Layout] = {}
    by_args: dict[object, _Layout] = {}  # by the tuple of arguments, which all functions of a file have in common
    groups: dict[object, tuple[_Args, list[Site]]] = {}
    reads_tails = any(LAST_ARGUMENT < index < STACK_POINTER for index in indices)
    tails = {id(site): (site.tail, site.kind) for site in in_files(clause.sites)} if reads_tails else {}
    for site in clause.sites:
        same = (id(site.args), tails.get(id(site))) if tails else id(site.args)
        layout = by_args.get(same)
        if layout is None:
            args = {index: _argument(site, index) for index in indices}
            # The text of an argument is for people; equal places may be spelled differently.
            places = tuple((spec.size, spec.signed, spec.operand) for spec in args.values())
            layout = by_args[same] = layouts.setdefault(places, (len(layouts), args))
        key = layout[0], tuple([value(site) for value in told.values()]), returns and site.kind
        group = groups.get(key)
        if group is None:
            groups[key] = layout[1], [site]
        else:
            group[1].append(site)
    return tuple(
        Variant(
            next(numbers),
            args,
            {name: _as_value(value(sites[0])) for name, value in told.items()},
            tuple(sites),
        )
        for args, sites in groups.values()
    )


_Args = dict[int, ArgSpec]
_Layout = tuple[int, _Args]


def _as_value(said: str | int) -> bytes | int:
    return said.encode(errors="surrogateescape") if isinstance(said, str) else said


def _argument(site: Site, index: int) -> ArgSpec:
    if index == STACK_POINTER:
        return ArgSpec("sp", 8, False, Reg("sp"))
    if index >= REGISTER_ARGUMENT:
        return ArgSpec("", 4, False, Reg(REGISTERS_32[index - REGISTER_ARGUMENT]), word=4)
    if index > LAST_ARGUMENT:
        from tracer.plan.tail_calls import operand

        (place,) = in_files((site,))
        return ArgSpec("", 8, False, operand(place, index))
    if index < len(site.args):
        return site.args[index]
    have = len(site.args)
    return ArgSpec("", 8, False, Unreadable(f"the site has {have or 'no'} argument{'' if have == 1 else 's'}"))
