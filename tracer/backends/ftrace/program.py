"""A program: which events to define, what they fetch, and who runs at a hit. Pure data, no kernel.

All clauses of one place share one event, whose fetch arguments are the union of theirs, and run there in the order of
the program. Places share an event too, as several probes of it (Linux 5.4), where their fetch arguments have the same
types: each event costs grace periods of the kernel when it comes and when it goes. What is to be done at a hit is a
*branch* of the event; where there are several, a constant among the fetch arguments says which. On a kernel that has
one probe for an event, `split` gives each place its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.ftrace import trigger as hist
from tracer.backends.ftrace.attach.model import Attacher
from tracer.backends.ftrace.attach.registry import attacher_of
from tracer.backends.ftrace.fetchargs import KernelStack, Source, Text, ToldName, UserStack
from tracer.backends.ftrace.filters import Filter
from tracer.backends.ftrace.trigger import Trigger
from tracer.dataclass import dataclass, replace
from tracer.errors import TracerError, printable
from tracer.kernel.uprobe_events import events as uprobe_events
from tracer.kernel.uprobe_events.events import MOST_FETCHES, MOST_PLACES, EventFormat, Fetch, ProbePlace
from tracer.kinds.site import Spot, in_files
from tracer.lang.typed import Clause
from tracer.plan.model import Plan, Variant
from tracer.steps import model as step_model, values
from tracer.steps.model import Steps
from tracer.steps.walk import walk

CALLS, RETURNS = ("calls",), ("returns",)
"""The names of counts that belong to no map (see `backends.nested_returns`); names of maps begin with an @."""

if TYPE_CHECKING:
    from tracer.kinds.sampled import Sampled
    from tracer.kinds.watched import Watched

GROUP = "GROUP"
"""Stands for the session's group in the text of a program."""


@dataclass(frozen=True, slots=True)
class Run:
    """A clause at an event, with the sources of its hit tuple. `untested` is the part of its predicate that the kernel
    does not test, in the user's words.
    """

    clause: Clause
    steps: Steps
    variant: Variant
    sources: tuple[Source, ...]
    untested: str = ""


@dataclass(frozen=True, slots=True)
class ProbeEvent(uprobe_events.UprobeEvent):
    """A trace event of the program. `filter` is set in the kernel; `counts` names the maps that count its hits where
    nothing else is to be done at them, so that no samples are needed, else it is empty. `hist` are the triggers that do
    all of it where the kernel has them and all processes are traced; `reasons` say, of its maps, why they are not in
    the kernel.
    """

    branches: tuple[tuple[Run, ...], ...]
    filter: Filter | None = None
    counts: tuple[str, ...] = ()
    hist: tuple[Trigger, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()

    def fetches(self, place: ProbePlace) -> tuple[Fetch, ...]:
        """The fetch arguments of a place; the last one is the number of the branch where there are several."""
        if len(self.branches) == 1:
            return place.fetches
        return (*place.fetches, Fetch(f"\\{place.branch}", "u16"))

    def sampled(self, reason: str) -> ProbeEvent:
        """The program without hist triggers."""
        reasons = tuple((name, reason) for name in sorted(self.hist_maps))
        return replace(self, hist=(), reasons=self.reasons + reasons)

    def uncounted(self) -> ProbeEvent:
        """The program with samples, where counters cannot see one process alone."""
        reason = "this kernel's counters cannot follow the threads of one process"
        return replace(self, counts=(), reasons=self.reasons + tuple((name, reason) for name in self.counts))

    def texts(self, branch: int) -> dict[int, Text]:
        """The strings of a branch whose size the program does not give, by their fetch arguments."""
        sources = (source for run in self.branches[branch] for source in run.sources)
        return {source.fetch: source for source in sources if isinstance(source, Text) and not source.arrays}

    @property
    def attacher(self) -> Attacher:
        """That of its sites, which are of one sort."""
        return attacher_of(self.places[0].site)

    @property
    def is_defined(self) -> bool:
        """See the base."""
        return self.attacher.kernel_event(self.places[0].site) is None and self.of_perf is None

    @property
    def of_perf(self) -> tuple[Sampled | Watched, int] | None:
        """See `Attacher`."""
        return self.attacher.sampled(self.places[0].site)

    @property
    def layout(self) -> EventFormat | None:
        """See the base."""
        return None if self.of_perf is None else EventFormat(self.of_perf[1], {})

    def where(self, group: str) -> tuple[str, str]:
        """See the base."""
        if self.of_perf is not None:
            kind, _, what = self.places[0].site.probe.partition(":")
            return kind, what
        return self.attacher.kernel_event(self.places[0].site) or (group, self.name)

    @property
    def group(self) -> Hashable:
        """The group of an event: events of one group can be one."""
        return self.attacher.group(self.places[0].site)

    @property
    def returns(self) -> bool:
        """Whether its probes are return probes."""
        return any(site.is_return_probe for site in in_files([self.places[0].site]))

    @property
    def ends(self) -> bool:
        """Whether calls end there that a clause has seen begin."""
        return any(run.clause.is_end for runs in self.branches for run in runs)

    @property
    def wants_stack(self) -> bool:
        """Whether any of its clauses wants a user stack."""
        return any(isinstance(source, UserStack) for runs in self.branches for run in runs for source in run.sources)

    @property
    def is_tally(self) -> bool:
        """Whether it counts calls or returns rather than feeding a map."""
        return self.counts in (CALLS, RETURNS)

    @property
    def hist_maps(self) -> frozenset[str]:
        """The maps that its triggers feed."""
        return frozenset(feed.map for trigger in self.hist for feeds in trigger.feeds for feed in feeds)

    @property
    def points(self) -> frozenset[int]:
        """The attach points that it is for."""
        return frozenset(point for place in self.places for point in place.points)

    def split(self) -> list[ProbeEvent]:
        """An event for each place."""
        if len(self.places) == 1:
            return [self]
        return [
            replace(
                self,
                name=f"{self.name}_{number}",
                places=(replace(place, branch=0),),
                branches=(self.branches[place.branch],),
                hist=tuple(trigger.part(place.branch) for trigger in self.hist),
            )
            for number, place in enumerate(self.places)
        ]


@dataclass(frozen=True, slots=True)
class FtraceProgram:
    """A compiled plan."""

    plan: Plan
    events: tuple[ProbeEvent, ...]
    parts: tuple[ProbeEvent, ...] = ()

    def sampled(self, reason: str) -> FtraceProgram:
        """The program without hist triggers; `reason` is said of the maps that they would have fed."""
        if not any(event.hist for event in self.events):
            return self
        parts = tuple(part.sampled(reason) for part in self.parts)
        return replace(self, events=merged(parts, self.plan.separate_points), parts=parts)

    def without(self, left_out: Collection[Spot]) -> FtraceProgram:
        """The program without some places; not all of them."""
        if not left_out:
            return self

        def kept(events: Sequence[ProbeEvent]) -> tuple[ProbeEvent, ...]:
            remaining = [(event, tuple(p for p in event.places if p.site.spot not in left_out)) for event in events]
            return tuple(replace(event, places=places) for event, places in remaining if places)

        return replace(self, events=kept(self.events), parts=kept(self.parts))

    def text(self) -> str:
        """The writes to uprobe_events with their undo, then how each event is read. Events for long strings are not
        told one by one (see `read.long_strings`): they depend on the files' code.
        """
        return "\n".join(self._lines()) + "\n"

    def bytecode(self) -> str:
        """Raises `TracerError`: the kernel runs none."""
        raise TracerError("ftrace runs no bytecode", "-d program shows what it gets; --backend bcc has bytecode")

    def _lines(self) -> Iterator[str]:
        yield "# uprobe_events, one line each; GROUP is the session's own (tracer_PID_RANDOM)"
        defined = [event for event in self.events if event.is_defined]
        for event in defined:
            for place in event.places:
                yield event.definition(place, GROUP, printable(place.file.path))
        yield ""
        yield "# read by perf_event_open"
        for event in self.events:
            how = "counted, no samples: " + ", ".join(event.counts) if event.counts else "sampled"
            where = f", kernel filter: {event.filter.text}" if event.filter else ""
            yield f"{'/'.join(event.where(GROUP))}: {how}{where}"
            if not event.counts:
                yield from dict.fromkeys(_clause_line(run) for runs in event.branches for run in runs)
            if not event.counts and any(map(event.texts, range(len(event.branches)))):
                yield "    beside it an event for each string, which has samples where they are too long for this one"
        triggers = [(f"events/{GROUP}/{event.name}/trigger", one) for event in self.events for one in event.hist]
        if triggers:
            yield ""
            yield "# instead of samples, where the kernel has hist triggers and all processes are traced"
            yield from (f"{file}: {trigger.line}" for file, trigger in triggers)
        yield ""
        yield "# undo"
        yield from (f"{file}: !{trigger.line}" for file, trigger in reversed(triggers))
        for event in reversed(defined):
            yield f"-:{GROUP}/{event.name}"

    @property
    def awaits_samples(self) -> bool:
        """Whether a clause has no sites yet, which may want samples once it has some."""
        return any(not probe.variants for probe in self.plan.probes)

    @property
    def frames(self) -> int:
        """The deepest user stack that any sampled clause wants; 0 where none does."""
        return self._deepest(UserStack, values.UserStack)

    @property
    def kernel_frames(self) -> int:
        """The deepest stack of the kernel that any sampled clause wants; 0 where none does."""
        return self._deepest(KernelStack, values.KernelStack)

    def _deepest(self, sampled: type[UserStack | KernelStack], later: type[values.Source]) -> int:
        depths = [source.frames for source in self._sources() if isinstance(source, sampled)]
        for probe in self.plan.probes:
            if not probe.variants:  # it may have sites later
                body = walk(self.plan.steps[probe.clause.id].body)
                sources = (step.source for step in body if isinstance(step, step_model.Fetch))
                depths += [cast(values.UserStack, source).frames for source in sources if isinstance(source, later)]
        return max(depths, default=0)

    @property
    def unwound_registers(self) -> int:
        """Perf's mask of the registers by which stacks are unwound; 0 where no clause wants stacks, or they are walked
        by frame pointers, as the kernel does it.
        """
        from tracer.kinds.arch import native
        from tracer.resolve.unwind.registers import REGISTERS

        arch = native()
        if not self.frames or arch is None or self.plan.program.config.stack_unwind == "fp":
            return 0
        return REGISTERS[arch.machine].mask

    @property
    def wants_cpu(self) -> bool:
        """Whether samples must say their CPU."""
        wanted = any(getattr(source, "name", "") == "cpu" for source in self._sources())
        return self.awaits_samples or wanted or self.wants_names

    @property
    def wants_names(self) -> bool:
        """Whether threads must be followed for their names."""
        return any(isinstance(source, ToldName) for source in self._sources())

    def _sources(self) -> Iterator[Source]:
        for event in self.events:
            for runs in event.branches:
                for run in runs:
                    yield from run.sources


def _clause_line(run: Run) -> str:
    tested = f", in user space: {run.untested}" if run.untested else ""
    return f"    clause {run.clause.id} ({', '.join(run.clause.names)}){tested}"


def merged(events: Sequence[ProbeEvent], separate: bool = False) -> tuple[ProbeEvent, ...]:
    """Events whose places the kernel can keep as one, each with what was an event as a branch; `separate`: not those of
    different attach points. Of many places there are some events, for the kernel compares each new place with all that
    an event has.
    """
    groups: list[list[ProbeEvent]] = []
    latest: dict[object, tuple[list[ProbeEvent], int]] = {}
    for number, event in enumerate(_pieces(events)):
        first = event.places[0]
        types = tuple(fetch.type for fetch in first.fetches)
        points = event.points if separate else None
        key: object = (event.group, types, event.filter, event.counts, hist.shape(event.hist), points, event.ends)
        # One more fetch argument is needed for the number of the branch.
        if len(types) >= MOST_FETCHES:
            key = number
        group, places = latest.get(key, (None, 0))
        places += len(event.places)
        full = places > MOST_PLACES and not event.hist
        if group is None or full or len(group) >= hist.most_branches(event.hist):
            group, places = [], len(event.places)
            groups.append(group)
        group.append(event)
        latest[key] = group, places
    return tuple(
        ProbeEvent(
            f"e{number}",
            tuple(_in_branch(place, branch) for branch, event in enumerate(parts) for place in event.places),
            tuple(runs for event in parts for runs in event.branches),
            parts[0].filter,
            parts[0].counts,
            hist.joined([part.hist for part in parts], f"f{len(parts[0].places[0].fetches)}"),
            tuple(dict.fromkeys(reason for part in parts for reason in part.reasons)),
        )
        for number, parts in enumerate(groups)
    )


def count_returns(events: Sequence[ProbeEvent]) -> bool:
    """Whether the descriptors of these events see each return, once."""
    returning = [event for event in events if event.returns]
    spots = [place.site.spot for event in returning for place in event.places]
    return len(set(spots)) == len(spots) and not any(event.filter or event.hist for event in returning)


def tallies(program: FtraceProgram, left_out: Collection[Spot]) -> Iterator[ProbeEvent]:
    """The events that count returns, where the program's own do not, and then those that count calls: a call in between
    is not missed.
    """
    from tracer.backends.nested_returns import counted

    counts_returns = count_returns(program.events)
    for number, (probe, calls, returns) in enumerate(counted(program.plan, left_out)):
        runs = (Run(probe.clause, Steps(()), probe.variants[0], ()),)
        for counts, sites in ((RETURNS, () if counts_returns else returns), (CALLS, calls)):
            for first in range(0, len(sites), MOST_PLACES):
                places = tuple(ProbePlace(site, ()) for site in sites[first : first + MOST_PLACES])
                yield ProbeEvent(f"{counts[0]}{number}_{first}", places, (runs,), counts=counts)


def _in_branch(place: ProbePlace, branch: int) -> ProbePlace:
    return place if place.branch == branch else replace(place, branch=branch)


def _pieces(events: Sequence[ProbeEvent]) -> Iterator[ProbeEvent]:
    """The events, those with many places in pieces; a hist trigger has one table for all places."""
    for event in events:
        if event.hist or len(event.places) <= MOST_PLACES:
            yield event
            continue
        for first in range(0, len(event.places), MOST_PLACES):
            yield replace(event, places=event.places[first : first + MOST_PLACES])
