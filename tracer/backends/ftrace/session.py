"""A trace by ftrace: definitions in tracefs, descriptors, rings, and the interpreter on what arrives."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from tracer.backends import perf
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
from tracer.backends.ftrace.program import Event, FtraceProgram
from tracer.backends.ftrace.reader import Reader
from tracer.backends.ftrace.refusals import at_clause
from tracer.backends.ftrace.uses import needed_by_intervals
from tracer.backends.ftrace.where import where_lines
from tracer.errors import TracerError
from tracer.interp.compile import compile_clause
from tracer.interp.runtime import Runtime
from tracer.resolve.model import Target
from tracer.results.events import Event as Happening
from tracer.results.events import ExitEvent, Loss
from tracer.results.values import MapStore

if TYPE_CHECKING:
    from tracer.backends.ftrace.histmaps import HistTriggers

_RING = 1 << 23
_ALL_RINGS = 1 << 28
_BIRTHS = 1 << 18
"""Bytes of a ring for forks and exits: some thousand of each between two looks."""
_CLOCK = time.CLOCK_MONOTONIC
_LOOK_S = 0.05
"""How often the rings are looked at while they are not full enough to wake us."""
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
        self._descriptors: Descriptors | None = None
        self._reopen: Callable[[], Descriptors] | None = None
        self._leader: Leader | None = None
        self._tells_lost = True
        self._rings: dict[int, perf.Ring] = {}
        self._births: list[perf.Ring] = []
        self._decoders: dict[int, Decoder] = {}
        self._reader: Reader | None = None
        self._event_index = 0
        self._exited = False
        self._final: tuple[int, int] | None = None

    def attach(self) -> int:
        """Defines, opens and enables everything; undoes all of it where one step fails."""
        try:
            return self._attach()
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

    def drain(self) -> Iterable[Happening]:
        """See `Session`."""
        self._maps.finish()
        reader = self._reader
        if reader is None or self._exited:
            return
        reader.collect()
        while reader.unfinished and not self._exited:
            yield from self._interpret(reader, None, final=True)
            reader.collect()
        if not self._tells_lost and not self._exited and self._descriptors is not None:
            # The rings tell of a loss only with the next sample that fits. Each hit was written or lost.
            sampled = [number for number, is_sampled in enumerate(self._descriptors.sampled) if is_sampled]
            hits = sum(self._descriptors.total(number)[0] for number in sampled)
            reader.lost = max(hits - reader.read, reader.lost)

    def loss(self) -> Loss:
        """Losses so far."""
        return self._loss + Loss(events=self._totals()[1])

    def hits(self) -> int:
        """Hits so far; -1 where nothing came and a kernel filter may have dropped some."""
        if self._descriptors is not None and self._descriptors.check_pid and self._reader is not None:
            hits = self._reader.delivered
        else:
            hits = self._totals()[0]
        hits += self._triggers.hits if self._triggers is not None else 0
        return -1 if hits == 0 and any(event.filter for event in self._program.events) else hits

    def close(self) -> None:
        """Undoes everything, newest first."""
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

    def _attach(self) -> int:
        raise_limit()
        self._definitions = Definitions()
        events = self._define(self._definitions)
        opened = [event for event in events if not event.hist]
        try:
            self._open(opened)
        except NeedsSamples:
            self._close_rings()
            self._drop_leader()
            opened = [event.uncounted() for event in opened]
            self._open(opened)
        assert self._descriptors is not None
        self._definitions.wait_for_watcher()
        self._descriptors.enable()
        if self._triggers is not None:
            self._triggers.start()
        self._definitions.in_use()
        self.details = where_lines([*opened, *(event for event in events if event.hist)])
        sites = [place.site for event in self._program.events for place in event.places]
        return len({(site.identity, site.offset, site.kind == "uretprobe") for site in sites})

    def _define(self, definitions: Definitions) -> list[Event]:
        """Defines the events, and sets the triggers of those that have some."""
        if any(event.hist for event in self._program.events):
            # Loaded where it is needed: most programs have no triggers, and each start would pay for it.
            from tracer.backends.ftrace.histmaps import HistTriggers, why_not

            reason = why_not(definitions, self._target)
            if reason is None:
                events = definitions.define(self._program.events, self._typed.source)
                self._triggers = HistTriggers(definitions, self._typed)
                events = self._triggers.prepare(events)
                maps = self._triggers.maps
                self._maps.follow_triggers(self._triggers, needed_by_intervals(self._program.plan, maps))
                return events
            self._program = self._program.sampled(reason)
        return definitions.define(self._program.events, self._typed.source)

    def _open(self, events: list[Event]) -> None:
        assert self._definitions is not None
        cpus = perf.online_cpus()
        abilities = Abilities.detect()
        sampled = [event for event in events if not event.counts]
        program = self._program
        shape = Shape(program.wants_cpu, program.frames > 0)
        if sampled:
            size = _RING
            while size * len(cpus) > _ALL_RINGS and size > 1 << 17:
                size //= 2
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
                [(compile_clause(self._typed, run.clause, run.variant, self._runtime), run.sources) for run in runs]
                for runs in event.branches
            ]
            fetches = event.places[0].fetches
            self._decoders[format.id] = build(
                format, fetches, branches, shape, self._runtime, time_offset=offset, child_pid=pid or 0
            )
        self._event_index = shape.event
        if sampled:
            self._reader = self._new_reader(shape, pid if descriptors.check_pid else None)

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
            if self._follow:
                self._descriptors.add(self._reopen())
            else:
                self._descriptors.replace(self._reopen())
        except Ended:
            return  # the run loop will notice
        except NeedsSamples:
            pid = self._target.pid
            message = f"process {pid} runs another program now, whose hits cannot be counted"
            raise TracerError(message, "raise the limit on descriptors: ulimit -n 65536") from None
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
        self, reader: Reader, deadline: float | None, final: bool = False, until: int | None = None
    ) -> Iterator[Happening]:
        """Interprets what has been collected so far, until the deadline."""
        happened, decoders, index = self._happened, self._decoders, self._event_index
        while happened:
            yield self._told(happened.popleft())
        for _ in range(max(reader.waiting, 1)):
            samples = reader.next_samples(final, until)
            for start in range(0, len(samples), _STEP):
                for sample in samples[start : start + _STEP]:
                    decoders[sample[index]].run(sample)
                    while happened:
                        yield self._told(happened.popleft())
                    if self._exited:
                        return
                reader.collect()
                if deadline is not None and time.monotonic() > deadline:
                    reader.put_back(samples[start + _STEP :])
                    return

    def _told(self, happening: Happening) -> Happening:
        if isinstance(happening, ExitEvent):
            self._exited = True
            self._happened.clear()
        return happening

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


def _hits(descriptors: Descriptors, number: int) -> int:
    return descriptors.total(number)[0]
