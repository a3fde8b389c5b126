"""A trace by ftrace: definitions in tracefs, descriptors, rings, and the interpreter on what arrives."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from tracer.backends import perf, room
from tracer.backends.descriptors_left import MORE_DESCRIPTORS
from tracer.backends.ftrace.counters import CountedMaps
from tracer.backends.ftrace.decode import Decoder, Shape, build
from tracer.backends.ftrace.definitions import Definitions
from tracer.backends.ftrace.descriptors import (
    Abilities,
    CannotOpen,
    Descriptors,
    Ended,
    NeedsSamples,
    Opener,
    Opening,
    raise_limit,
)
from tracer.backends.ftrace.leader import Leader, leader_of, takes_descriptors
from tracer.backends.ftrace.overhead import PointHits
from tracer.backends.ftrace.program import Event, FtraceProgram, Place
from tracer.backends.ftrace.reader import Reader
from tracer.backends.ftrace.refusals import at_clause
from tracer.backends.ftrace.trial import Trials, may_lose_places
from tracer.backends.ftrace.uses import needed_by_intervals
from tracer.backends.ftrace.where import where_lines
from tracer.backends.unprobed import NOT_PROBED, Spot, Stopped, place_of, where
from tracer.errors import TracerError
from tracer.interp.compile import compile_clause, made_later
from tracer.interp.runtime import Compiled, Runtime
from tracer.resolve.model import Site, Target
from tracer.results.events import Event as Happening
from tracer.results.events import ExitEvent, Loss, PrintfBatch, PrintfEvent, ValueBatch, ValueEvent
from tracer.results.values import MapStore

if TYPE_CHECKING:
    from tracer.backends.ftrace.histmaps import HistTriggers
    from tracer.overhead import Cost

_BIRTHS = 1 << 18
"""Bytes of a ring for forks and exits: some thousand of each between two looks."""
_CLOCK = time.CLOCK_MONOTONIC
_LOOK_S = 0.05
"""How often the rings are looked at while they are not full enough to wake us."""
_COMPILED_AT_ONCE = 64
"""Branches of an event: of more many may never be hit, and each takes 0.1 ms."""
_STEP = 1024
"""Samples interpreted between two looks at the rings and the clock."""


class FtraceSession:
    """Follows `backends.base.Session`."""

    def __init__(self, program: FtraceProgram, target: Target) -> None:
        """Nothing in the kernel is touched yet."""
        self.wake: tuple[int, ...] = ()
        self.details: tuple[str, ...] = ()
        self._program = program
        self._target = target
        self._follow = program.plan.follow
        self._loss = Loss()
        self._typed = program.plan.program
        self._maps = CountedMaps(self._typed, self._loss)
        self.maps: MapStore = self._maps
        self._happened: deque[Happening] = deque()
        self._runtime = Runtime(maps=self.maps, emit=self._happened.append, loss=self._loss)
        self._definitions: Definitions | None = None
        self._triggers: HistTriggers | None = None
        self._points: PointHits | None = None
        self._descriptors: Descriptors | None = None
        self._reopen: Callable[[], Descriptors] | None = None
        self._leader: Leader | None = None
        self._tells_lost = True
        self._rings: dict[int, perf.Ring] = {}
        self._births: list[perf.Ring] = []
        self._decoders: dict[int, Decoder] = {}
        self._reader: Reader | None = None
        self._event_index = 0
        self._sample_type = 0
        self._gone: set[int] = set()
        self._exited = False
        self._dropped = 0
        self._final: tuple[int, int] | None = None
        self._left_out: dict[Spot, Site] = {}

    @property
    def left_out(self) -> Sequence[Site]:
        """See `Session`."""
        return sorted(self._left_out.values(), key=where)

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Defines, opens and enables everything; undoes all of it where one step fails."""
        try:
            return self._attach(stop)
        except Stopped:
            self.close()
            return 0
        except BaseException:
            self.close()
            raise

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterable[Happening]:
        """See `Session`. With `timeout_s` 0 everything that happened before the call, or up to `until_ns`, is
        interpreted.
        """
        reader = self._reader
        if self._descriptors is None or self._exited:
            return
        if reader is None:
            # Counters come by no ring: there is nothing to wait for but what wakes the run loop.
            self._follow_exec()
            self._wait(timeout_s)
            return
        deadline = time.monotonic() + timeout_s
        told = False
        reader.collect()
        if timeout_s <= 0:
            reader.collect()  # what the first round found is released by the second
        while True:
            self._follow_exec()
            for happening in self._interpret(reader, deadline if timeout_s > 0 else None, until=until_ns):
                told = True
                yield happening
            if told or self._exited or (remaining := deadline - time.monotonic()) <= 0:
                return
            if self._wait(min(remaining, 0.001 if reader.unfinished else _LOOK_S)):
                return
            reader.collect()

    def detach(self) -> None:
        """Stops all descriptors."""
        if self._descriptors is not None:
            self._descriptors.disable()
            if self._triggers is not None:
                self._triggers.stop()
            self._maps.stop()

    def drain(self, hurried: Callable[[], bool] = lambda: False) -> Iterable[Happening]:
        """See `Session`."""
        self._maps.finish()
        reader = self._reader
        if reader is None or self._exited:
            return
        reader.collect()
        while reader.unfinished and not self._exited:
            yield from self._interpret(reader, None, final=True, hurried=hurried)
            if hurried():
                return
            reader.collect()
        self._settle(reader)

    def _settle(self, reader: Reader) -> None:
        """All samples have been read: what is missing is lost."""
        if not self._tells_lost and not self._exited and self._descriptors is not None:
            # The rings tell of a loss only with the next sample that fits. Each hit was written or lost.
            sampled = [number for number, is_sampled in enumerate(self._descriptors.sampled) if is_sampled]
            hits = sum(self._descriptors.total(number)[0] for number in sampled)
            reader.lost = max(hits - reader.read, reader.lost)

    def collect(self) -> None:
        """What is in the rings waits in memory."""
        if self._reader is not None:
            self._reader.collect(held_up=True)

    def drop(self) -> None:
        """See `Session`: a sample counts once, whatever it would have printed."""
        reader = self._reader
        if reader is not None:
            self._dropped += len(self._happened) + reader.drop()
            self._happened.clear()
            self._settle(reader)

    def loss(self) -> Loss:
        """Losses so far."""
        return self._loss + Loss(events=self._totals()[1], dropped=self._dropped)

    def hits(self) -> int:
        """Hits so far; -1 where nothing came and a kernel filter may have dropped some."""
        if self._descriptors is not None and self._descriptors.check_pid and self._reader is not None:
            hits = self._reader.delivered
        else:
            hits = self._totals()[0]
        hits += self._triggers.hits if self._triggers is not None else 0
        return -1 if hits == 0 and any(event.filter for event in self._program.events) else hits

    def point_hits(self) -> Sequence[int] | None:
        """See `backends.base.Session`."""
        return self._points.hits() if self._points is not None else None

    def hit_cost(self, point: int) -> Cost | None:
        """See `backends.base.Session`."""
        return self._points.cost(point) if self._points is not None else None

    def detach_point(self, point: int) -> None:
        """See `backends.base.Session`."""
        assert self._points is not None and self._descriptors is not None
        self._gone.add(point)
        for number, event in self._points.ended_by(self._gone):
            if number is not None:
                self._descriptors.drop(number)
            elif self._triggers is not None:
                self._triggers.drop(event, self._maps)

    def close(self) -> None:
        """Undoes everything, newest first."""
        if self._points is not None:
            self._points.close()
        if self._descriptors is not None:
            self._final = self._totals()
            self._descriptors.close()
            self._descriptors = None
        self._drop_leader()
        self._close_rings()
        if self._definitions is not None:
            self._definitions.close()
            self._definitions = None

    def __enter__(self) -> FtraceSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _attach(self, stop: Callable[[], bool]) -> int:
        raise_limit()
        self._definitions = Definitions()
        events = self._define(self._definitions, stop)
        opened = self._opened([event for event in events if not event.hist], stop)
        assert self._descriptors is not None
        self._definitions.wait_for_watcher()
        self._descriptors.enable()
        if self._triggers is not None:
            self._triggers.start()
        self._definitions.in_use()
        triggered = [event for event in events if event.hist]
        self._points = PointHits(
            self._program.plan, self._definitions, self._descriptors, opened, triggered, self._sample_type
        )
        self.details = where_lines([*opened, *triggered])
        sites = [place.site for event in self._program.events for place in event.places]
        return len({place_of(site) for site in sites}) - len(self._left_out)

    def _opened(self, events: list[Event], stop: Callable[[], bool]) -> list[Event]:
        """Opens the descriptors; returns the events as they are read, without the places that cannot be probed."""
        assert self._definitions is not None
        trials: Trials | None = None
        while True:
            try:
                self._open(events)
                return events
            except NeedsSamples:
                events = [event.uncounted() for event in events]
            except _NotProbed as error:
                try:
                    exact = trials is not None
                    if trials is None:
                        trials = Trials(self._definitions, self._typed.source, stop)
                        refused = [trials.refused_by_kind(event) for event in events if may_lose_places(event)]
                    else:
                        refused = [trials.refused(events[error.number])]
                except OSError as trouble:
                    raise CannotOpen(trouble) from None
                unprobed = {place for places in refused for place in places}
                left = self._without(events, unprobed)
                if not left or (exact and not unprobed):
                    raise at_clause(error.error, self._typed.source, events[error.number]) from None
                events = left
            self._close_rings()
            self._drop_leader()

    def _without(self, events: list[Event], refused: set[Place]) -> list[Event]:
        """Defines the events anew that have such places."""
        assert self._definitions is not None
        self._left_out |= {place_of(place.site): place.site for place in refused}
        kept: list[Event] = []
        for event in events:
            if refused.isdisjoint(event.places):
                kept.append(event)
            elif (fresh := self._definitions.without(event, refused, self._typed.source)) is not None:
                kept.append(fresh)
        return kept

    def _define(self, definitions: Definitions, stop: Callable[[], bool]) -> list[Event]:
        """Defines the events, and sets the triggers of those that have some."""
        if any(event.hist for event in self._program.events):
            # Loaded where it is needed: most programs have no triggers, and each start would pay for it.
            from tracer.backends.ftrace.histmaps import HistTriggers, why_not

            reason = why_not(definitions, self._target)
            if reason is None:
                events = definitions.define(self._program.events, self._typed.source, stop)
                self._triggers = HistTriggers(definitions, self._typed)
                events = self._triggers.prepare(events)
                maps = self._triggers.maps
                self._maps.follow_triggers(self._triggers, needed_by_intervals(self._program.plan, maps))
                return events
            self._program = self._program.sampled(reason)
        return definitions.define(self._program.events, self._typed.source, stop)

    def _open(self, events: list[Event]) -> None:
        assert self._definitions is not None
        cpus = perf.online_cpus()
        abilities = Abilities.detect()
        sampled = [event for event in events if not event.counts]
        program = self._program
        shape = Shape(program.wants_cpu, program.frames > 0)
        if sampled:
            size = room.ring_of_each(len(cpus))
            try:
                for cpu in cpus:
                    self._rings[cpu] = perf.Ring(cpu, size, _CLOCK)
            except OSError as error:
                raise CannotOpen(error) from None
        depth = perf.max_stack(program.frames)
        opener = Opener(cpus, self._rings, shape.sample_type, abilities, _CLOCK, depth, self._follow)
        formats = [self._definitions.format(event) for event in events]
        openings = [
            Opening(format.id, event.filter.text if event.filter else None, bool(event.counts))
            for event, format in zip(events, formats, strict=True)
        ]
        pid = self._target.pid
        try:
            self._leader = leader_of(pid)
            command = self._target.program is not None
            scoped = not takes_descriptors(self._target.program) and (command or not self._follow)
            self._descriptors = descriptors = opener.open(openings, pid, scoped)
        except CannotOpen as error:
            if error.number is None:
                raise
            if error.code in NOT_PROBED and may_lose_places(events[error.number]):
                raise _NotProbed(error, error.number) from None
            raise at_clause(error, self._typed.source, events[error.number]) from None
        self._reopen = partial(opener.open, openings, pid)
        self._tells_lost = abilities.format_lost
        if not descriptors.scoped:
            self._drop_leader()
        offset = perf.boot_offset_ns()
        for number, (event, format) in enumerate(zip(events, formats, strict=True)):
            if event.counts:
                for name in event.counts:
                    self._maps.follow(name, partial(_hits, descriptors, number))
                continue
            branches = [
                [(self._unless_gone(event, branch, place), run.sources) for place, run in enumerate(runs)]
                for branch, runs in enumerate(event.branches)
            ]
            fetches = event.places[0].fetches
            self._decoders[format.id] = build(
                format, fetches, branches, shape, self._runtime, time_offset=offset, child_pid=pid or 0
            )
        self._event_index = shape.event
        self._sample_type = shape.sample_type
        if sampled:
            self._reader = self._new_reader(shape, pid if descriptors.check_pid else None)

    def _unless_gone(self, event: Event, branch: int, number: int) -> Compiled:
        """A clause of an event; where others share the event it may end before them (`detach_point`)."""
        run = event.branches[branch][number]
        make = partial(compile_clause, self._typed, run.clause, run.variant, self._runtime)
        clause = make() if len(event.branches) <= _COMPILED_AT_ONCE else made_later(make)
        if not self._program.plan.apart or len(event.points) == 1:
            return clause
        point = next((place.points[number] for place in event.places if place.branch == branch), -1)
        gone = self._gone
        return lambda hit: None if point in gone else clause(hit)

    def _new_reader(self, shape: Shape, pid: int | None) -> Reader:
        rings = list(self._rings.values())
        if pid is not None and self._follow:
            # Rings of their own, so that no number of samples leaves a fork without room.
            try:
                for cpu in perf.online_cpus():
                    self._births.append(perf.Ring(cpu, _BIRTHS, _CLOCK, perf.TASK))
            except OSError as error:
                raise CannotOpen(error) from None
        return Reader([*rings, *self._births], self._decoders, shape, pid, follow=self._follow)

    def _follow_exec(self) -> None:
        """Opens the descriptors anew where an exec has taken them away."""
        if self._leader is None or not self._leader.has_execed():
            return
        assert self._descriptors is not None and self._reopen is not None
        self._drop_leader()
        try:
            self._leader = leader_of(self._target.pid)
            fresh = self._reopen()
            for number in self._points.dropped if self._points is not None else ():
                fresh.drop(number)
            if self._follow:
                self._descriptors.add(fresh)
            else:
                self._descriptors.replace(fresh)
        except Ended:
            return  # the run loop will notice
        except NeedsSamples:
            pid = self._target.pid
            message = f"process {pid} runs another program now, whose hits cannot be counted"
            raise TracerError(message, MORE_DESCRIPTORS) from None
        if self._reader is not None:
            self._reader.pid = self._target.pid if self._descriptors.check_pid else None

    def _drop_leader(self) -> None:
        if self._leader is not None:
            self._leader.close()
            self._leader = None

    def _close_rings(self) -> None:
        for ring in (*self._rings.values(), *self._births):
            ring.close()
        self._rings = {}
        self._births = []

    def _interpret(
        self, reader: Reader, deadline: float | None, final: bool = False, until: int | None = None,
        hurried: Callable[[], bool] = lambda: False,
    ) -> Iterator[Happening]:
        """Interprets what has been collected so far, until the deadline."""
        index = self._event_index
        runs = {event: decoder.run for event, decoder in self._decoders.items()}
        yield from self._told()
        for _ in range(max(reader.waiting, 1)):
            samples = reader.next_samples(final, until)
            done = 0
            try:
                while done < len(samples):
                    step = samples[done : done + _STEP]
                    done += len(step)
                    for sample in step:
                        runs[sample[index]](sample)
                    yield from self._told()
                    if self._exited:
                        return
                    reader.collect()
                    if hurried() or (deadline is not None and time.monotonic() > deadline):
                        return
            finally:
                # Here too where the run loop has had enough: then the drain goes on with the next sample.
                if done < len(samples):
                    reader.put_back(samples[done:])

    def _told(self) -> Iterator[Happening]:
        """What the clauses have said. After exit() they do nothing more, however many samples the step has left."""
        happened = self._happened
        kinds = set(map(type, happened)) if len(happened) > 1 else set()
        if kinds == {PrintfEvent} or kinds == {ValueEvent}:
            numbers, rows = zip(*happened, strict=True)
            one = len(set(numbers)) == 1
            if kinds == {PrintfEvent} or one:
                happened.clear()
                yield PrintfBatch(numbers[0] if one else numbers, rows) if kinds == {PrintfEvent} else ValueBatch(
                    numbers[0], rows
                )
        while happened:
            happening = happened.popleft()
            if isinstance(happening, ExitEvent):
                self._exited = True
                happened.clear()
            yield happening

    def _wait(self, timeout_s: float) -> bool:
        """Waits for a ring or for `timeout_s`; true where one of `wake` became readable."""
        poll = select.poll()
        for fd in self.wake:
            poll.register(fd, select.POLLIN)
        for ring in self._rings.values():
            poll.register(ring.fd, select.POLLIN)
        leader = self._leader
        if leader is not None and leader.hung_up:
            timeout_s = min(timeout_s, _LOOK_S)
        elif leader is not None:
            poll.register(leader.fd, 0)
        ready = poll.poll(timeout_s * 1000)
        if leader is not None and any(fd == leader.fd for fd, _ in ready):
            leader.hung_up = True
        return any(fd in self.wake for fd, _ in ready)

    def _totals(self) -> tuple[int, int]:
        """Hits and lost samples of all events."""
        if self._final is not None:
            return self._final
        if self._descriptors is None:
            return 0, 0
        hits = lost = 0
        for number in range(len(self._descriptors.by_event)):
            one, of_those = self._descriptors.total(number)
            hits += one
            lost += of_those
        return hits, lost or (self._reader.lost if self._reader is not None else 0)


class _NotProbed(Exception):
    """The kernel refuses a place of the event with this number."""

    def __init__(self, error: CannotOpen, number: int) -> None:
        super().__init__()
        self.error = error
        self.number = number


def _hits(descriptors: Descriptors, number: int) -> int:
    return descriptors.total(number)[0]
