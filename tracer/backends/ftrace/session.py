"""A trace by ftrace: definitions in tracefs, descriptors, rings, and the clauses' Python on what arrives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tracer.backends.ftrace.attach.registry import attacher_of
from tracer.backends.ftrace.clause_runs import ClauseRuns
from tracer.backends.ftrace.counting.counters import CountedMaps
from tracer.backends.ftrace.counting.explain import where_lines
from tracer.backends.ftrace.counting.map_uses import needed_by_intervals
from tracer.backends.ftrace.opening.open_events import open_events
from tracer.backends.ftrace.program import RETURNS, FtraceProgram, ProbeEvent, tallies
from tracer.backends.ftrace.read.attachment import LOOK_S, Attachment
from tracer.backends.ftrace.read.descriptors import Descriptors
from tracer.backends.ftrace.read.event_hits import EventHits
from tracer.backends.ftrace.read.waits import Waits
from tracer.backends.ftrace.refusals import at_place, check_panic
from tracer.backends.ftrace.samples.clause_decoders import ClauseDecoders
from tracer.backends.ftrace.samples.decoder import Decoder
from tracer.backends.precheck import check_alone, unprobable
from tracer.kernel.limits import raise_limits
from tracer.kernel.trials.instructions import Stopped, where
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kernel.uprobe_events.events import Undefinable
from tracer.kernel.workers.watcher import AT_ONCE_S
from tracer.kinds.site import FileSite, Spot, Target
from tracer.plan.points import alone_of, points
from tracer.results.events import Event, Loss
from tracer.results.values import MapStore
from tracer.steps.python.runtime import Runtime

if TYPE_CHECKING:
    from tracer.backends import Surroundings
    from tracer.backends.ftrace.read.hist_maps import HistTriggers
    from tracer.backends.nested_returns import Nested
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.plan.model import Plan
    from tracer.results.store import LocalMaps

class FtraceSession:
    """Follows `backends.base.Session`."""

    def __init__(self, program: FtraceProgram, target: Target, around: Surroundings) -> None:
        """Nothing in the kernel is touched yet."""
        around.check(program.plan)
        self._around = around
        self.details: tuple[str, ...] = ()
        self._missed: tuple[str, ...] = ()
        self._program = program
        self._target = target
        self._loss = Loss()
        self._typed = program.plan.program
        self._maps = CountedMaps(self._typed, self._loss)
        self.maps: MapStore = self._maps
        self._clauses = ClauseRuns()
        self._runtime = Runtime(maps=self.maps, emit=self._clauses.emit, loss=self._loss)
        self._definitions: Definitions | None = None
        self._triggers: HistTriggers | None = None
        self._hits: EventHits | None = None
        self._costs: HitCosts | None = None
        self._attachment: Attachment | None = None
        self.gone: set[int] = set()
        self._dropped = 0
        self._detached = False
        self._not_undone: str | None = None
        self._left_out: dict[Spot, FileSite] = {}
        self._nested: Nested | None = None
        self._waits: Waits | None = None
        self._tallied: tuple[ProbeEvent, ...] = ()
        self._tallies: list[tuple[bool, int]] = []
        self._own_returns: list[int] = []

    @property
    def missed(self) -> tuple[str, ...]:
        return self._missed if self._attachment is None else (*self._missed, *self._attachment.missed)

    @property
    def not_undone(self) -> str | None:
        return self._not_undone

    @property
    def left_out(self) -> Sequence[FileSite]:
        return sorted(self._left_out.values(), key=where)

    def begin(self, maps: LocalMaps) -> None:
        self._maps.receive(maps)

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Defines, opens and enables everything; undoes all of it where one step fails."""
        try:
            return self._attach(stop)
        except Stopped:
            self.close()
            return 0
        except Undefinable as error:
            self.close()
            raise at_place(error, self._typed.source) from None
        except BaseException:
            self.close()
            raise

    def compile_more(self, plan: Plan) -> FtraceProgram:
        """See `Session`."""
        from tracer.backends.ftrace.opening.more_events import compiled

        return compiled(plan)

    def attach_more(self, program: FtraceProgram) -> int:
        """See `Session`."""
        from tracer.backends.ftrace.opening.more_events import MoreEvents

        assert self._definitions and self._attachment and self._hits and self._waits
        self._waits.add(program)
        more = MoreEvents(program, self._definitions, self._target.pids)
        first = more.open(self._attachment, self._program)
        decoders = self._decoders(self._definitions, self._attachment, more.events, first)
        self._clauses.add(decoders)
        self._attachment.begin(first, decoders)
        self._hits.add(first, more.events)
        self._left_out |= more.left_out
        return len({place.site.spot for event in more.program.events for place in event.places})

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterable[Event]:
        """See `Session`. With `timeout_s` 0 it processes all that happened before the call, or up to `until_ns`."""
        attachment = self._attachment
        if attachment is None or self._clauses.exited:
            return
        reader = attachment.reader
        if reader is None:
            # Counters do not use a ring: only the run loop's own descriptors can end the wait.
            self._look_after()
            attachment.follow_exec()
            waited_s = timeout_s if self._waits is None else self._waits.wait_s(timeout_s)
            attachment.wait(self._around.wake(), waited_s)
            return
        deadline = time.monotonic() + timeout_s
        told = False
        reader.collect()
        if timeout_s <= 0:
            reader.collect()  # what the first round found is released by the second
        while True:
            self._look_after()
            attachment.follow_exec()
            attachment.fit_copies()
            attachment.fit_beside(self._loss.crowded)
            for happening in self._clauses.run(reader, deadline if timeout_s > 0 else None, until=until_ns):
                told = True
                yield happening
            if told or self._clauses.exited or (remaining := deadline - time.monotonic()) <= 0:
                return
            if attachment.wait(self._around.wake(), min(remaining, 0.001 if reader.unfinished else LOOK_S)):
                return
            reader.collect()

    def _look_after(self) -> None:
        """Whether a process has got memory that no fetch may wait for, or a thread waits."""
        if self._waits is not None and (said := self._waits.look(self._detach_soon, self._around.waits)) is not None:
            self._missed += (said,)

    def _detach_soon(self, point: int) -> None:
        """Detaches without a wait: others may hold the lock that this needs, and wait for the thread that hangs."""
        assert self._definitions is not None
        watcher = self._definitions.watcher
        before, watcher.patience_s = watcher.patience_s, AT_ONCE_S
        try:
            self.detach_point(point, at_once=True)
        finally:
            watcher.patience_s = before

    def detach(self) -> None:
        """Stops all descriptors."""
        if self._attachment is not None and not self._detached:
            self.details += self._attachment.closing()
        self._detached = True
        if self._attachment is not None:
            if self._definitions is not None:
                self._definitions.watcher.patience_s = AT_ONCE_S
            self._attachment.detach()
            if self._triggers is not None:
                self._triggers.stop()
            self._maps.stop()

    def drain(self, hurried: Callable[[], bool] = lambda: False) -> Iterable[Event]:
        self._maps.finish()
        attachment = self._attachment
        if attachment is None or (reader := attachment.reader) is None or self._clauses.exited:
            return
        reader.collect()
        while reader.unfinished and not self._clauses.exited:
            yield from self._clauses.run(reader, None, final=True, hurried=hurried)
            if hurried():
                return
            reader.collect()
        if not self._clauses.exited:
            attachment.settle()

    def collect(self) -> None:
        """Moves the contents of the rings into memory."""
        if self._attachment is not None and self._attachment.reader is not None:
            self._attachment.reader.collect(held_up=True)

    def drop(self) -> None:
        """See `Session`: a sample counts once, whatever it would have printed."""
        if self._attachment is not None and self._attachment.reader is not None:
            self._dropped += self._clauses.drop() + self._attachment.reader.drop()
            if not self._clauses.exited:
                self._attachment.settle()

    def loss(self) -> Loss:
        lost = self._attachment.lost() if self._attachment is not None else 0
        returns = 0
        if self._nested is not None and self._detached:
            returns = self._lost_returns(self._nested)
        return self._loss + Loss(events=lost, dropped=self._dropped, returns=returns)

    def _lost_returns(self, nested: Nested) -> int:
        returned = self._summed([*self._own_returns, *(number for returns, number in self._tallies if returns)])
        calls = [number for returns, number in self._tallies if not returns]
        return nested.lost(self._summed(calls) if calls or not self._tallied else None, returned)

    def _summed(self, numbers: Sequence[int]) -> int:
        """The hits of some events so far."""
        if self._attachment is None:
            return 0
        return sum(self._attachment.descriptors.total(number)[0] for number in numbers)

    def hits(self) -> int:
        """Hits so far; -1 where nothing came and a kernel filter may have dropped some."""
        hits = self._attachment.hits() if self._attachment is not None else 0
        hits -= self._summed([number for _, number in self._tallies])
        hits += self._triggers.hits if self._triggers is not None else 0
        return -1 if hits == 0 and any(event.filter for event in self._program.events) else hits

    def point_hits(self) -> Sequence[int] | None:
        if self._hits is None:
            return None
        self._settle()
        return self._hits.hits(rarely=not self._detached)

    def unhit_sites(self) -> dict[int, list[FileSite]]:
        if self._hits is None:
            return {}
        self._settle()
        return self._hits.unhit_sites()

    def _settle(self) -> None:
        """While the kernel removes probes nobody can read its list of them, nor be interrupted."""
        if self._detached and self._definitions is not None:
            self._definitions.watcher.settle()

    def hit_cost(self, point: int) -> Cost | None:
        if self._hits is None or self._attachment is None:
            return None
        sample_type = self._attachment.shape.sample_type if self._hits.is_sampled(point) else 0
        from tracer.kernel.trials.hit_cost import OF_LATER_FILE, HitCosts

        self._costs = self._costs or HitCosts()
        sites = points(self._program.plan)[point].sites
        return attacher_of(sites[0]).cost(sites, self._costs, sample_type) if sites else OF_LATER_FILE

    def detach_point(self, point: int, at_once: bool = False) -> None:
        assert self._hits is not None and self._attachment is not None
        if self._nested is not None:
            self._lost_returns(self._nested)  # as far as calls are counted
        self.gone.add(point)
        ended = [*self._hits.ended_by(self.gone)]
        for number, event in ended:
            if number is not None:
                self._attachment.drop(number, at_once)
            elif self._triggers is not None:
                self._triggers.drop(event, self._maps)
        if self._definitions is not None and not at_once:  # else the removal is not over: the end compares
            of = {number for _, event in ended for number in event.points}
            self._definitions.watcher.check(alone_of(self._program.plan, self.gone, of))

    def close(self) -> None:
        """Undoes everything, newest first."""
        if self._costs is not None:
            self._costs.close()
        if self._attachment is not None:
            self._attachment.close()
        if self._definitions is not None:
            self._definitions.close()
            self._not_undone = self._definitions.watcher.not_undone
            self._definitions = None

    def __enter__(self) -> FtraceSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _attach(self, stop: Callable[[], bool]) -> int:
        raise_limits()
        self._waits = Waits(self._program, self._target)
        self._waits.refuse(self._typed.source)
        self._definitions = definitions = Definitions()
        definitions.watcher.waits = self._around.waits
        definitions.watcher.hold(*self._around.kept())
        if not definitions.takes_several():
            check_alone(self._program.plan, sum(len(event.places) for event in self._program.events))
        left_out = unprobable(self._program.plan, definitions.watcher, stop)
        definitions.watcher.mind(self._program.plan.places, self._target.pids)
        self._program = self._program.without(left_out)
        if self._program.plan.has_return_probes:
            from tracer.backends.nested_returns import Nested

            self._tallied = tuple(tallies(self._program, left_out))
            self._nested = Nested(self._target.fixed)
        defined = self._define(definitions, stop)
        triggered = [event for event in defined if event.hist]
        untriggered = [event for event in defined if not event.hist]
        attachment, opened, refused = open_events(definitions, untriggered, self._program, self._target, stop)
        self._left_out = left_out | refused
        self._attachment = attachment
        self._take(definitions, attachment, opened)
        attachment.descriptors.enable()
        if self._triggers is not None:
            self._triggers.start()
        definitions.in_use()
        self._waits.begin(not self._target.pids or attachment.traps_others or bool(triggered))
        self._hits = EventHits(self._program.plan, definitions, attachment, opened, triggered)
        self.details = (*where_lines([*opened, *triggered]), *attachment.details)
        sites = [place.site for event in self._program.events for place in event.places]
        return len({site.spot for site in sites}) - len(refused)

    def _define(self, definitions: Definitions, stop: Callable[[], bool]) -> list[ProbeEvent]:
        """Defines the events, and sets the triggers of those that have some."""
        if any(event.hist for event in self._program.events):
            # Loaded where it is needed: most programs have no triggers, and each start would pay for it.
            from tracer.backends.ftrace.read.hist_maps import HistTriggers, why_not

            reason = why_not(definitions, self._target)
            if reason is None:
                events = self._defined(definitions, stop)
                self._triggers = HistTriggers(definitions, self._typed)
                events = self._triggers.prepare(events, self._target)
                maps = self._triggers.maps
                self._maps.follow_triggers(self._triggers, needed_by_intervals(self._program.plan, maps))
                return events
            self._program = self._program.sampled(reason)
        return self._defined(definitions, stop)

    def _defined(self, definitions: Definitions, stop: Callable[[], bool]) -> list[ProbeEvent]:
        """The events as they are in the kernel, which before Linux 5.4 are one for each place."""
        check_panic(self._program.events, self._typed.source)
        events = [*self._program.events, *self._tallied]
        if not definitions.takes_several():
            events = [part for event in events for part in event.split()]
        definitions.define(events, stop)
        return events

    def _take(self, definitions: Definitions, attachment: Attachment, events: Sequence[ProbeEvent]) -> None:
        """Lets what the events count go into the maps, and what they sample to the clauses."""
        if self._around.places is not None:
            self._runtime.place = self._around.places.place
        decoders = self._decoders(definitions, attachment, events)
        self._clauses.take(decoders, attachment.shape.event)
        if not decoders and not self._program.awaits_samples:
            return
        upkeep = None
        if attachment.beside:
            from tracer.backends.ftrace.read.long_strings import upkeep_of

            upkeep = upkeep_of(attachment.beside, attachment.shape, definitions, decoders)
        attachment.read(decoders, self._around.unwinder, upkeep)

    def _decoders(
        self, definitions: Definitions, attachment: Attachment, events: Sequence[ProbeEvent], first: int = 0
    ) -> dict[int, Decoder]:
        """The decoders of the events that are sampled, by their ids; what others count goes into the maps. `first`: the
        number of the first among the descriptors.
        """
        separate = self._program.plan.separate_points
        clauses = ClauseDecoders(self._typed, self._runtime, self.gone if separate else None)
        clauses.child_pid, clauses.unwinder = self._target.child_pid, self._around.unwinder
        decoders: dict[int, Decoder] = {}
        attachment.name(clauses, decoders)
        own_returns = bool(self._tallied) and not any(event.counts == RETURNS for event in self._tallied)
        for number, event in enumerate(events, first):
            if event.is_tally:
                self._tallies.append((event.counts == RETURNS, number))
                continue
            if own_returns and event.returns:
                self._own_returns.append(number)
            if event.counts:
                for name in event.counts:
                    self._maps.follow(name, partial(_hits, attachment.descriptors, number))
                continue
            format = definitions.format(event)
            decoders[format.id] = clauses.decoder(event, format, attachment.shape)
        return decoders


def _hits(descriptors: Descriptors, number: int) -> int:
    return descriptors.total(number)[0]
