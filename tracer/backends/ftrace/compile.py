"""Plan → program: clauses by place, their fetch arguments, and what of their work the kernel can do."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.ftrace import trigger as hist
from tracer.backends.ftrace.attach.model import NotExpressible
from tracer.backends.ftrace.attach.registry import attacher_of
from tracer.backends.ftrace.counting.hist_choice import choose
from tracer.backends.ftrace.counting.map_uses import Uses, counted
from tracer.backends.ftrace.fetchargs import Fetches, Source, finish
from tracer.backends.ftrace.filters import Filter, SourceOf, push_down
from tracer.backends.ftrace.program import FtraceProgram, ProbeEvent, Run, merged
from tracer.dataclass import replace
from tracer.errors import Diagnostic, ProgramError, Source as Text
from tracer.kernel.uprobe_events.events import Fetch, ProbePlace
from tracer.kinds.site import Site
from tracer.lang.aggregations.registry import kept_of
from tracer.lang.typed import Clause
from tracer.plan.model import Plan, Variant
from tracer.plan.points import first_numbers
from tracer.steps import model as steps
from tracer.steps.values import BuiltIn, Name, Value
from tracer.steps.walk import leaves, walk


def compile_plan(plan: Plan, return_place: str) -> FtraceProgram:
    """The program. `return_place` is the register that holds a return value, as `%ax`.

    Raises `ProgramError` where something of the plan cannot be said in fetch arguments.
    """
    grouped: dict[object, tuple[list[ProbePlace], tuple[Run, ...]]] = {}
    for site, clauses in _by_place(plan):
        place, runs = _place(plan, site, clauses, return_place)
        shape = tuple(fetch.type for fetch in place.fetches)
        key = (
            attacher_of(site).group(site),
            shape,
            tuple((run.clause.id, *run.variant.told.values(), run.sources) for run in runs),
            _filter_key(place),
            place.points if plan.separate_points else None,
        )
        grouped.setdefault(key, ([], runs))[0].append(place)
    uses = Uses.of(plan)
    events = [ProbeEvent("", tuple(places), (runs,)) for places, runs in grouped.values()]
    parts = tuple(part for event in events for part in _parts(event, plan, uses))
    program = FtraceProgram(plan, merged(parts, plan.separate_points), parts)
    rows = sum(trigger.size for event in program.events for trigger in event.hist)
    if rows > hist.MOST_ROWS_TOGETHER:
        return program.sampled(f"its tables would have {rows} rows, more than {hist.MOST_ROWS_TOGETHER}")
    return program


_Clauses = list[tuple[Clause, Variant, int]]
"""Each clause with its variant and the number of the attach point."""


def _by_place(plan: Plan) -> list[tuple[Site, _Clauses]]:
    """The places, each once, with its clauses in the order of the program."""
    places: dict[object, tuple[Site, _Clauses]] = {}
    numbers = first_numbers(plan)
    for probe in plan.probes:
        for variant in probe.variants:
            for site in variant.sites:
                _, clauses = places.setdefault(site.spot, (site, []))
                clauses.append((probe.clause, variant, numbers[probe.clause.id] + site.point))
    return list(places.values())


def _place(plan: Plan, site: Site, clauses: _Clauses, return_place: str) -> tuple[ProbePlace, tuple[Run, ...]]:
    attacher = attacher_of(site)
    collected = Fetches({}, attacher.returned(site, return_place), attacher, [*attacher.fields(site)])
    wanted = [leaves(plan.steps[clause.id]) for clause, *_ in clauses]
    named = any(fetch.source == BuiltIn("comm") for some in wanted for fetch in some)
    if named and attacher.thread_name is not None:
        collected.index(attacher.thread_name)
    for (_, variant, _), some in zip(clauses, wanted, strict=True):
        collected.args = variant.args
        for fetch in some:
            collected.prepare(fetch.source)
    runs = []
    for (clause, variant, _), some in zip(clauses, wanted, strict=True):
        collected.args = variant.args
        sources = tuple(_source(plan, site, collected, fetch) for fetch in some)
        runs.append(Run(clause, plan.steps[clause.id], variant, sources))
    runs = [replace(run, sources=tuple(map(collected.settled, run.sources))) for run in runs]
    return ProbePlace(site, finish(collected.fetches), points=tuple(point for *_, point in clauses)), tuple(runs)


def _source(plan: Plan, site: Site, collected: Fetches, fetch: steps.Fetch) -> Source:
    try:
        return collected.leaf(fetch.source)
    except NotExpressible as error:
        message = f"not available with ftrace at {site.shown}: {error}"
        diagnostics = [Diagnostic(message, fetch.span, "--backend bcc can read it")]
        raise ProgramError(plan.program.source, diagnostics, exit_code=1) from None


def _filter_key(place: ProbePlace) -> object:
    """Places whose numbers are in registers at one and in memory at another do not share a filter, so no event."""
    return tuple("(" in fetch.place or "@" in fetch.place for fetch in place.fetches)


def _parts(event: ProbeEvent, plan: Plan, uses: Uses) -> list[ProbeEvent]:
    """The finished event; where several clauses only count, each with a filter of its own, an event for each. Where
    they must end one by one, the kernel counts for no two of them together.
    """
    finished = _finished(event, plan, uses)
    (runs,) = event.branches
    if len(runs) == 1 or (finished.counts and not plan.separate_points):
        return [finished]
    alone = [_finished(_alone(event, number), plan, uses) for number in range(len(runs))]
    if all(part.counts for part in alone):
        return alone
    if plan.separate_points:
        return [finished.sampled("--max-rate may detach one of several clauses there")]
    return [finished]


def _alone(event: ProbeEvent, number: int) -> ProbeEvent:
    """The event for one of its clauses."""
    places = tuple(replace(place, points=(place.points[number],)) for place in event.places)
    return replace(event, places=places, branches=((event.branches[0][number],),))


def _finished(event: ProbeEvent, plan: Plan, uses: Uses) -> ProbeEvent:
    """The event with its filter, and with its maps where the kernel can do all there is to do."""
    (runs,) = event.branches
    fetched = event.places[0].fetches
    sources = [_sources_of(run) for run in runs]
    event, remaining = _filtered(event, sources, fetched)
    bare = {name for name, decl in plan.program.maps.items() if kept_of(decl).bare}
    counts = [counted(run.steps, bare, event.filter, uses) for run in runs]
    if all(counts) and event.attacher.counts:
        return replace(event, counts=tuple(name for names in counts for name in names))
    runs = tuple(
        replace(run, untested=_words(parts, plan.program.source)) for run, parts in zip(runs, remaining, strict=True)
    )
    event = replace(event, branches=(runs,))
    if not event.attacher.triggers:
        return event
    triggers, reasons = choose(plan, uses, runs, sources, fetched)
    return replace(event, hist=triggers, reasons=reasons)


def _filtered(
    event: ProbeEvent, sources: Sequence[SourceOf], fetched: tuple[Fetch, ...]
) -> tuple[ProbeEvent, list[tuple[steps.Require, ...]]]:
    """The event with its filter, and for each clause the parts of its predicate that are left to user space."""
    runs = event.branches[0]
    whole = [tuple(step for step in run.steps.body if isinstance(step, steps.Require)) for run in runs]
    pushed = [push_down(run.steps, source, fetched) for run, source in zip(runs, sources, strict=True)]
    filters = [filter for filter, _ in pushed if filter is not None]
    if not filters or len(filters) < len(runs):
        return event, whole
    if len(filters) == 1:
        return replace(event, filter=filters[0]), [pushed[0][1]]
    # A hit that no clause wants is dropped; each clause tests again which hits are its own.
    either = Filter(" || ".join(f"({text})" for text in dict.fromkeys(one.text for one in filters)), whole=False)
    return replace(event, filter=either), whole


def _sources_of(run: Run) -> SourceOf:
    by_source = dict(zip((fetch.source for fetch in leaves(run.steps)), run.sources, strict=True))
    names = {step.name: by_source.get(step.source) for step in walk(run.steps.body) if isinstance(step, steps.Fetch)}

    def source_of(value: Value) -> Source | None:
        return names.get(value) if isinstance(value, Name) else None

    return source_of


def _words(parts: Sequence[steps.Require], text: Text) -> str:
    """The parts of a predicate as the user wrote them, on one line."""
    return " && ".join(" ".join(text.text[part.span.start : part.span.end].split()) for part in parts)
