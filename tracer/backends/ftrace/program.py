"""Plan → program: which events to define, what they fetch, and who runs at a hit. Pure data, no kernel.

All clauses of one place share one event, whose fetch arguments are the union of theirs, and run there in the order of
the program. Places share an event too, as several probes of it (Linux 5.4), where their fetch arguments have the same
types: each event costs grace periods of the kernel when it comes and when it goes. What is to be done at a hit is a
*branch* of the event; where there are several, a constant among the fetch arguments says which. On a kernel that has
one probe for an event, `split` gives each place its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tracer.backends.ftrace.fetchargs import (
    THREAD_NAME,
    Fetch,
    Fetches,
    NotExpressible,
    Source,
    UserStack,
    finish,
)
from tracer.backends.ftrace.filters import Filter, push_down
from tracer.errors import Diagnostic, ProgramError
from tracer.errors import Source as Text
from tracer.interp.fetch import fetches, leaf_of
from tracer.lang.typed import Aggregate, Builtin, Clause, Exit, Expr
from tracer.plan.model import Plan, Variant
from tracer.plan.walk import walk_clause
from tracer.resolve.model import Site

GROUP = "GROUP"
"""Stands for the session's group in the text of a program."""


@dataclass(frozen=True, slots=True)
class Place:
    """One probe of an event: where, its fetch arguments, as many and of the same types as the event's, and the number
    of its branch.
    """

    site: Site
    fetches: tuple[Fetch, ...]
    branch: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One clause at an event, with the sources of its hit tuple. `left` is what of its predicate the kernel does not
    test, in the user's words, for people.
    """

    clause: Clause
    variant: Variant
    sources: tuple[Source, ...]
    left: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One trace event. `filter` is set in the kernel; `counts` names the maps that count its hits where nothing else is
    to be done at them, so that no samples are needed, else it is empty.
    """

    name: str
    places: tuple[Place, ...]
    branches: tuple[tuple[Run, ...], ...]
    filter: Filter | None = None
    counts: tuple[str, ...] = ()

    def fetches(self, place: Place) -> tuple[Fetch, ...]:
        """The fetch arguments of a place; the last one is the number of the branch where there are several."""
        if len(self.branches) == 1:
            return place.fetches
        return (*place.fetches, Fetch(f"\\{place.branch}", "u16"))

    def definition(self, place: Place, group: str, path: str) -> str:
        """The line that defines one place. `path` is the file as it is to be written."""
        letter = "r" if place.site.kind == "uretprobe" else "p"
        counter = f"(0x{place.site.semaphore:x})" if place.site.semaphore is not None else ""
        args = "".join(f" f{number}={fetch.place}:{fetch.type}" for number, fetch in enumerate(self.fetches(place)))
        return f"{letter}:{group}/{self.name} {path}:0x{place.site.offset:x}{counter}{args}"

    def split(self) -> list[Event]:
        """An event for each place."""
        if len(self.places) == 1:
            return [self]
        return [
            replace(
                self,
                name=f"{self.name}_{number}",
                places=(replace(place, branch=0),),
                branches=(self.branches[place.branch],),
            )
            for number, place in enumerate(self.places)
        ]


@dataclass(frozen=True, slots=True)
class FtraceProgram:
    """A compiled plan."""

    plan: Plan
    events: tuple[Event, ...]

    def text(self) -> str:
        """The writes to uprobe_events with their undo, then how each event is read."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# uprobe_events, one line each; GROUP is the session's own (tracer_PID_RANDOM)"
        for event in self.events:
            for place in event.places:
                yield event.definition(place, GROUP, place.site.path)
        yield ""
        yield "# read by perf_event_open"
        for event in self.events:
            how = "counted, no samples: " + ", ".join(event.counts) if event.counts else "sampled"
            where = f", kernel filter: {event.filter.text}" if event.filter else ""
            yield f"{GROUP}/{event.name}: {how}{where}"
            if not event.counts:
                yield from dict.fromkeys(_clause_line(run) for runs in event.branches for run in runs)
        yield ""
        yield "# undo"
        for event in reversed(self.events):
            yield f"-:{GROUP}/{event.name}"

    @property
    def frames(self) -> int:
        """The deepest user stack that any sampled clause wants; 0 where none does."""
        return max((source.frames for source in self._sources() if isinstance(source, UserStack)), default=0)

    @property
    def wants_cpu(self) -> bool:
        """Whether samples must say their CPU."""
        return any(getattr(source, "name", "") == "cpu" for source in self._sources())

    def _sources(self) -> Iterator[Source]:
        for event in self.events:
            for runs in event.branches:
                for run in runs:
                    yield from run.sources


def _clause_line(run: Run) -> str:
    tested = f", in user space: {run.left}" if run.left else ""
    return f"    clause {run.clause.id} ({', '.join(run.clause.names)}){tested}"


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
        )
        grouped.setdefault(key, ([], runs))[0].append(place)
    countable = _countable(plan)
    source = plan.program.source
    events = [_finished(Event("", tuple(places), (runs,)), countable, source) for places, runs in grouped.values()]
    return FtraceProgram(plan, _merged(events))


_Clauses = list[tuple[Clause, Variant]]


def _by_place(plan: Plan) -> list[tuple[Site, _Clauses]]:
    """Each place once, with its clauses in the order of the program. Of sites that are one place the first with a
    semaphore speaks for all: the kernel keeps one counter for a place.
    """
    found: dict[object, tuple[Site, _Clauses]] = {}
    for probe in plan.probes:
        for variant in probe.variants:
            for site in variant.sites:
                key = (site.identity.device, site.identity.inode, site.offset, site.kind == "uretprobe")
                first, clauses = found.setdefault(key, (site, []))
                if first.semaphore is None and site.semaphore is not None:
                    found[key] = (replace(first, semaphore=site.semaphore), clauses)
                clauses.append((probe.clause, variant))
    return list(found.values())


def _place(plan: Plan, site: Site, clauses: _Clauses, return_place: str) -> tuple[Place, tuple[Run, ...]]:
    retval = "$retval" if site.kind == "uretprobe" else return_place
    collected = Fetches({}, retval)
    leaves = [(clause, variant, fetches(clause)) for clause, variant in clauses]
    if any(isinstance(leaf, Builtin) and leaf.name == "comm" for _, _, some in leaves for leaf in some):
        collected.index(THREAD_NAME)
    runs = []
    try:
        for clause, variant, some in leaves:
            collected.args = variant.args
            runs.append(Run(clause, variant, tuple(collected.leaf(leaf) for leaf in some)))
    except NotExpressible as error:
        message = f"not available with ftrace at {site.probe}: {error.reason}"
        raise ProgramError(
            plan.program.source, [Diagnostic(message, error.span, "--backend bcc can read it")], exit_code=1
        ) from None
    return Place(site, finish(collected.found)), tuple(runs)


def _filter_key(place: Place) -> object:
    """Places whose numbers are in registers at one and in memory at another do not share a filter, so no event."""
    return tuple("(" in fetch.place or "@" in fetch.place for fetch in place.fetches)


MOST_FETCHES = 128
"""Of one probe (MAX_TRACE_ARGS)."""


def _merged(events: list[Event]) -> tuple[Event, ...]:
    """Events whose places the kernel can keep as one, each with what was an event as a branch."""
    merged: dict[object, list[Event]] = {}
    for number, event in enumerate(events):
        first = event.places[0]
        shape = tuple(fetch.type for fetch in first.fetches)
        key = (first.site.kind == "uretprobe", shape, event.filter, event.counts)
        # One more fetch argument is needed for the number of the branch.
        merged.setdefault(key if len(shape) < MOST_FETCHES else number, []).append(event)
    return tuple(
        Event(
            f"e{number}",
            tuple(replace(place, branch=branch) for branch, event in enumerate(parts) for place in event.places),
            tuple(runs for event in parts for runs in event.branches),
            parts[0].filter,
            parts[0].counts,
        )
        for number, parts in enumerate(merged.values())
    )


def _finished(event: Event, countable: frozenset[int], text: Text) -> Event:
    """The event with its filter, and with its maps where counting is all there is to do."""
    (runs,) = event.branches
    left: list[tuple[Expr, ...]] = [tuple(filter(None, (run.clause.predicate,))) for run in runs]
    if len(runs) == 1 and (predicate := runs[0].clause.predicate) is not None:
        run = runs[0]
        by_leaf = dict(zip((leaf_of(leaf) for leaf in fetches(run.clause)), run.sources, strict=True))

        def source_of(expr: Expr) -> Source | None:
            leaf = leaf_of(expr)
            return None if leaf is None else by_leaf.get(leaf)

        pushed, left[0] = push_down(predicate, source_of, event.places[0].fetches)
        event = replace(event, filter=pushed)
    runs = tuple(replace(run, left=_words(parts, text)) for run, parts in zip(runs, left, strict=True))
    event = replace(event, branches=(runs,))
    if all(_only_counts(run.clause, event.filter, countable) for run in runs):
        maps = tuple(statement.map for run in runs for statement in run.clause.body if isinstance(statement, Aggregate))
        event = replace(event, counts=maps)
    return event


def _words(parts: Sequence[Expr], text: Text) -> str:
    """The parts of a predicate as the user wrote them, on one line."""
    return " && ".join(" ".join(text.text[part.span.start : part.span.end].split()) for part in parts)


def _only_counts(clause: Clause, filter: Filter | None, countable: frozenset[int]) -> bool:
    return clause.id in countable and (clause.predicate is None or (filter is not None and filter.whole))


def _countable(plan: Plan) -> frozenset[int]:
    """The clauses that do nothing but `@map = count()` on a map that no other probe clause touches otherwise.

    None where a probe clause says exit(): hits after it must not count, and a counter does not know when they came.
    """
    nodes = {probe.clause.id: list(walk_clause(probe.clause)) for probe in plan.probes}
    if any(isinstance(node, Exit) for some in nodes.values() for node in some):
        return frozenset()
    pure = {
        probe.clause.id: statement.map
        for probe in plan.probes
        if len(probe.clause.body) == 1
        and isinstance(statement := probe.clause.body[0], Aggregate)
        and statement.function == "count"
        and not statement.key
    }
    spoiled = {
        getattr(node, "map", None) for number, some in nodes.items() if number not in pure for node in some
    }
    return frozenset(number for number, name in pure.items() if name not in spoiled)
