"""Plan → program: clauses by place, their fetch arguments, and what of their work the kernel can do."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.ftrace.fetchargs import THREAD_NAME, Fetches, NotExpressible, Source, finish
from tracer.backends.ftrace.filters import Filter, SourceOf, push_down
from tracer.backends.ftrace.hist import trigger as hist
from tracer.backends.ftrace.histchoice import choose
from tracer.backends.ftrace.program import Event, FtraceProgram, Run, merged
from tracer.backends.ftrace.uses import Uses, counted
from tracer.dataclass import replace
from tracer.errors import Diagnostic, ProgramError
from tracer.errors import Source as Text
from tracer.interp.fetch import fetches, leaf_of
from tracer.kernel.uprobe_events.model import Fetch, Place
from tracer.lang.typed import Builtin, Clause, Expr
from tracer.plan.model import Plan, Variant
from tracer.plan.points import first_numbers
from tracer.resolve.model import Site


def compile_plan(plan: Plan, return_place: str) -> FtraceProgram:
    """The program. `return_place` is the register that holds a return value, as `%ax`.

    Raises `ProgramError` where something of the plan cannot be said in fetch arguments.
    """
    grouped: dict[object, tuple[list[Place], tuple[Run, ...]]] = {}
    for site, clauses in _by_place(plan):
        place, runs = _place(plan, site, clauses, return_place)
        shape = tuple(fetch.type for fetch in place.fetches)
        key = (
            site.kind == "uretprobe",
            shape,
            tuple((run.clause.id, run.variant.probe, run.variant.function, run.sources) for run in runs),
            _filter_key(place),
            place.points if plan.apart else None,
        )
        grouped.setdefault(key, ([], runs))[0].append(place)
    uses = Uses.of(plan)
    events = [Event("", tuple(places), (runs,)) for places, runs in grouped.values()]
    parts = tuple(part for event in events for part in _parts(event, plan, uses))
    program = FtraceProgram(plan, merged(parts, plan.apart), parts)
    rows = sum(trigger.size for event in program.events for trigger in event.hist)
    if rows > hist.MOST_ROWS_TOGETHER:
        return program.sampled(f"its tables would have {rows} rows, more than {hist.MOST_ROWS_TOGETHER}")
    return program


_Clauses = list[tuple[Clause, Variant, int]]
"""With the number of the attach point."""


def _by_place(plan: Plan) -> list[tuple[Site, _Clauses]]:
    """Each place once, with its clauses in the order of the program. Of sites that are one place the first with a
    semaphore speaks for all: the kernel keeps one counter for a place.
    """
    found: dict[object, tuple[Site, _Clauses]] = {}
    numbers = first_numbers(plan)
    for probe in plan.probes:
        for variant in probe.variants:
            for site in variant.sites:
                key = (site.identity.device, site.identity.inode, site.offset, site.kind == "uretprobe")
                first, clauses = found.setdefault(key, (site, []))
                if first.semaphore is None and site.semaphore is not None:
                    found[key] = (replace(first, semaphore=site.semaphore), clauses)
                clauses.append((probe.clause, variant, numbers[probe.clause.id] + site.point))
    return list(found.values())


def _place(plan: Plan, site: Site, clauses: _Clauses, return_place: str) -> tuple[Place, tuple[Run, ...]]:
    retval = "$retval" if site.kind == "uretprobe" else return_place
    collected = Fetches({}, retval)
    leaves = [(clause, variant, fetches(clause)) for clause, variant, _ in clauses]
    if any(isinstance(leaf, Builtin) and leaf.name == "comm" for _, _, some in leaves for leaf in some):
        collected.index(THREAD_NAME)
    runs = []
    try:
        for clause, variant, some in leaves:
            collected.args = variant.args
            runs.append(Run(clause, variant, tuple(collected.leaf(leaf) for leaf in some)))
        runs = [replace(run, sources=tuple(map(collected.settled, run.sources))) for run in runs]
    except NotExpressible as error:
        message = f"not available with ftrace at {site.probe}: {error.reason}"
        raise ProgramError(
            plan.program.source, [Diagnostic(message, error.span, "--backend bcc can read it")], exit_code=1
        ) from None
    return Place(site, finish(collected.found), points=tuple(point for *_, point in clauses)), tuple(runs)


def _filter_key(place: Place) -> object:
    """Places whose numbers are in registers at one and in memory at another do not share a filter, so no event."""
    return tuple("(" in fetch.place or "@" in fetch.place for fetch in place.fetches)


def _parts(event: Event, plan: Plan, uses: Uses) -> list[Event]:
    """The finished event; where several clauses only count, each with a filter of its own, an event for each. Where
    they must end one by one, the kernel counts for no two of them together.
    """
    finished = _finished(event, plan, uses)
    (runs,) = event.branches
    if len(runs) == 1 or (finished.counts and not plan.apart):
        return [finished]
    alone = [_finished(_alone(event, number), plan, uses) for number in range(len(runs))]
    if all(part.counts for part in alone):
        return alone
    return [finished.sampled("--max-rate may detach one of several clauses there") if plan.apart else finished]


def _alone(event: Event, number: int) -> Event:
    """The event for one of its clauses."""
    places = tuple(replace(place, points=(place.points[number],)) for place in event.places)
    return replace(event, places=places, branches=((event.branches[0][number],),))


def _finished(event: Event, plan: Plan, uses: Uses) -> Event:
    """The event with its filter, and with its maps where the kernel can do all there is to do."""
    (runs,) = event.branches
    fetched = event.places[0].fetches
    sources = [_sources_of(run) for run in runs]
    event, left = _filtered(event, sources, fetched)
    counts = [counted(run.clause, event.filter, uses) for run in runs]
    if all(counts):
        return replace(event, counts=tuple(name for names in counts for name in names))
    runs = tuple(
        replace(run, left=_words(parts, plan.program.source)) for run, parts in zip(runs, left, strict=True)
    )
    triggers, reasons = choose(plan, uses, runs, sources, fetched)
    return replace(event, branches=(runs,), hist=triggers, reasons=reasons)


def _filtered(
    event: Event, sources: Sequence[SourceOf], fetched: tuple[Fetch, ...]
) -> tuple[Event, list[tuple[Expr, ...]]]:
    """The event with its filter, and for each clause the parts of its predicate that are left to the interpreter."""
    predicates = [run.clause.predicate for run in event.branches[0]]
    whole: list[tuple[Expr, ...]] = [() if one is None else (one,) for one in predicates]
    pushed = [
        push_down(one, source, fetched) for one, source in zip(predicates, sources, strict=True) if one is not None
    ]
    filters = [filter for filter, _ in pushed if filter is not None]
    if not filters or len(filters) < len(predicates):
        return event, whole
    if len(filters) == 1:
        return replace(event, filter=filters[0]), [pushed[0][1]]
    # A hit that is nobody's is dropped; whose it is, each clause finds out by itself.
    either = Filter(" || ".join(f"({text})" for text in dict.fromkeys(one.text for one in filters)), whole=False)
    return replace(event, filter=either), whole


def _sources_of(run: Run) -> SourceOf:
    by_leaf = dict(zip((leaf_of(leaf) for leaf in fetches(run.clause)), run.sources, strict=True))

    def source_of(expr: Expr) -> Source | None:
        leaf = leaf_of(expr)
        return None if leaf is None else by_leaf.get(leaf)

    return source_of


def _words(parts: Sequence[Expr], text: Text) -> str:
    """The parts of a predicate as the user wrote them, on one line."""
    return " && ".join(" ".join(text.text[part.span.start : part.span.end].split()) for part in parts)
