"""A trace from start to end: BEGIN, attach, events and intervals, detach, drain, END, the maps.

Nothing here knows which backend it drives, and nothing prints: what there is to show goes to the consumer.
"""

from __future__ import annotations

import os
import time
from _thread import LockType, allocate_lock
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass, field
from tracer.results.events import Event, ExitEvent, Loss, MapEvent, Outcome
from tracer.results.store import LocalMaps
from tracer.steps.python.runtime import Runtime

if TYPE_CHECKING:
    from tracer.backends.base import Session
    from tracer.kinds.site import Site
    from tracer.lang.typed import Clause
    from tracer.overhead.guard import Guard
    from tracer.plan.model import Plan
    from tracer.render.notices import Consumer
    from tracer.results.values import MapSnapshot, MapStore
    from tracer.tracing.open_calls import OpenCalls

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.1, 1.0
_CATCH_UP = 10  # periods; an interval that fell further behind than this leaves out the earlier ones


@dataclass(slots=True)
class Controls:
    """`stop` asks for the end, `hurry` for an end that leaves out what has not been shown yet, `print_maps` for the
    maps; who sets one rings then (`ring`), and the loop looks. It tells when the probes are `detached`; `leave` says
    that a wait for their removal can be left to a process in the background.

    `wake` are descriptors that become readable when a watched process has ended, or the output's reader has gone; with
    them `bell`, from `with` to its end, -1 else. `acknowledge` reads that empty, so that the next wait waits again.
    `meanwhile` is called while nobody takes what is to be written, `regularly` in every round of the loop, once a
    second at least, `before_detach` after the last; `before_attach` before there are probes. So many seconds after that
    (`duration_s`) the trace ends by itself.
    """

    stop: bool = False
    hurry: bool = False
    print_maps: bool = False
    detached: bool = False
    leave: bool = False
    wake: tuple[int, ...] = ()
    bell: int = -1
    rope: int = -1
    ringing: LockType = field(default_factory=allocate_lock)
    meanwhile: Callable[[], None] = lambda: None
    regularly: Callable[[], None] = lambda: None
    before_attach: Callable[[], None] = lambda: None
    before_detach: Callable[[], None] = lambda: None
    duration_s: float | None = None

    def asked(self) -> tuple[bool, bool]:
        """Whether the end is asked for, and a hurried one."""
        return self.stop, self.hurry

    def end(self) -> None:
        """Asks for the end; from any thread."""
        self.stop = True
        self.ring()

    def ring(self) -> None:
        """Ends a wait of the loop, or its next one; from any thread."""
        with self.ringing, suppress(BlockingIOError):  # it rings already
            if self.rope >= 0:
                os.write(self.rope, b"\0")

    def acknowledge(self) -> None:
        """The next wait waits again."""
        if self.bell >= 0:
            with suppress(BlockingIOError):
                while os.read(self.bell, 4096):
                    pass

    def __enter__(self) -> Controls:
        self.bell, self.rope = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.wake = (*self.wake, self.bell)
        return self

    def __exit__(self, *error: object) -> None:
        bell, self.bell = self.bell, -1
        self.wake = tuple(descriptor for descriptor in self.wake if descriptor != bell)
        with self.ringing:  # its number may be another file's at once
            os.close(self.rope)
            self.rope = -1
        os.close(bell)


@dataclass(frozen=True, slots=True)
class Watched:
    """A process whose end ends the trace: the child of `-c` or the target of `-p`."""

    ended: Callable[[], bool]
    start: Callable[[], None] = field(default=lambda: None)
    child_pid: int = 0  # `cpid`; 0 for a process that we did not start


def run(
    session: Session, plan: Plan, consumer: Consumer, controls: Controls, watched: Watched | None = None,
    on_attached: Callable[[int], None] = lambda sites: None, guard: Guard | None = None,
) -> Outcome:
    """Runs the whole trace. The session is open and is closed by the caller. Where the `guard` has detached all there
    was, a trace ends that has no interval and no command to wait for.
    """
    trace = _Trace(session, plan, consumer, controls, watched, guard)
    return trace.run(on_attached)


class _Trace:
    def __init__(
        self, session: Session, plan: Plan, consumer: Consumer, controls: Controls, watched: Watched | None,
        guard: Guard | None,
    ) -> None:  # fmt: skip
        self.session = session
        self.plan = plan
        self.consumer = consumer
        self.controls = controls
        self.watched = watched
        self.guard = guard
        self.code: int | None = None
        self.in_handler = False
        self.told = False
        self.ending = False
        self.attached = False
        self.closed = False  # whether the maps of the end are shown, or were about to be
        self.loss = Loss()
        self.begun: list[Event] = []
        self.maps: MapStore = LocalMaps(plan.program, self.loss)
        self.runtime = Runtime(maps=self.maps, emit=self.hold, loss=self.loss)
        self.end: list[_Entry] = []
        self.timers: list[_Timer] = []
        self.at_signal: list[_Entry] = []
        self.started = 0
        self.calls: OpenCalls | None = None
        self.duration_ns = None if controls.duration_s is None else round(controls.duration_s * 1e9)

    def run(self, on_attached: Callable[[int], None]) -> Outcome:
        try:
            return self.run_through(on_attached)
        except BrokenPipeError:
            raise
        except Exception:
            # A want, or a fault of ours. What was counted until then is there, and is shown before that is said.
            if self.attached and not self.closed:
                with suppress(Exception):
                    self.session.detach()
                    self.controls.detached = True
                    self.run_handler([], self._last_maps())
            raise

    def run_through(self, on_attached: Callable[[int], None]) -> Outcome:
        self.begin()
        attached = 0
        if self.code is None:
            self.controls.before_attach()
            attached = self.session.attach(lambda: self.controls.stop)
            self.attached = True
        self.maps = self.session.maps
        self.runtime = Runtime(self.maps, self.handle, self.loss, start_ns=self.runtime.start_ns)
        self.end = self._user(lambda clause: clause.kind.last)
        self.timers = [_Timer(entry) for entry in self._user(lambda clause: clause.period_ns > 0)]
        self.at_signal = self._user(lambda clause: clause.kind.signal)
        if self.plan.program.calls and self.attached:
            from tracer.tracing.open_calls import OpenCalls  # most programs have none

            self.calls = OpenCalls(self.plan.program, self.maps)
        self.consumer.attached(probe_count(self.plan, self.session.left_out))
        if self.code is None and not self.controls.stop:
            on_attached(attached)
        for event in self.begun:
            self.consumer.event(event, self.maps)
        self.begun.clear()
        self.consumer.flush()
        if self.code is None and not self.controls.stop:
            if self.watched is not None:
                self.watched.start()
            self.loop()
            self.controls.before_detach()
        if self.calls is not None:
            self.calls.detach()
        self.session.detach()
        self.controls.detached = True
        if self.code is None:
            self.consume(self.session.drain(lambda: self.controls.hurry))
            if self.controls.hurry:
                self.session.drop()
        self.ending = True
        self.run_handler(self.end, self._last_maps())
        loss = self.session.loss() + self.loss
        under_way = self.calls.under_way(loss) if self.calls is not None else ()
        return Outcome(self.code or 0, loss, self.session.hits(), attached, self.told, under_way)

    def begin(self) -> None:
        """Runs BEGIN before anything is attached: what it puts into maps is there at the first hit. What it shows waits
        for the attach, and so does what it does besides (system(), cat()).
        """
        clauses = self._user(lambda clause: clause.kind.first)
        assert isinstance(self.maps, LocalMaps)
        if self.plan.program.call_probes:
            from tracer.tracing.open_calls import weigh

            weigh(self.plan.program, self.maps)
        if clauses:
            self.run_handler(clauses)
        if clauses or self.plan.program.call_probes:
            self.session.begin(self.maps)

    def hold(self, event: Event) -> None:
        """Keeps an event of BEGIN; a map is shown as it was."""
        if isinstance(event, ExitEvent):
            self.handle(event)
        elif isinstance(event, MapEvent):
            self.begun.append(event._replace(snapshot=self.maps.snapshot(event.map)))
        else:
            self.begun.append(event)

    def loop(self) -> None:
        now = self.started = time.monotonic_ns()
        for timer in self.timers:
            timer.start(now)
        if self.guard is not None:
            self.guard.start(now)
        if not (self.plan.probes or self.timers or self.at_signal or self.watched):
            return  # BEGIN and END alone: nothing can happen any more
        while not self.controls.stop:
            nearest = min((timer.due for timer in self.timers), default=None)
            self.consume(self.session.events(self.wait_s(), nearest))
            if self.code is not None:
                return
            self.controls.acknowledge()
            self.controls.regularly()
            self.run_timers()
            if self.duration_ns is not None and time.monotonic_ns() - self.started >= self.duration_ns:
                self.controls.stop = True
            if self.controls.print_maps:
                self.signalled()
            if self.calls is not None and self.code is None:
                self.calls.look(lambda moment: self.consume(self.session.events(0, moment)))
            if self.code is not None or (self.watched is not None and self.watched.ended()):
                return
            self.consumer.flush()
            if self.guard is not None:
                self.guard.look(self.session, time.monotonic_ns)
                self.guard.tell()
                others = self.timers or self.at_signal or (self.watched is not None and self.watched.child_pid)
                if self.guard.idle and not others:
                    return

    def wait_s(self) -> float:
        now = time.monotonic_ns()
        # What is looked at regularly is looked at sooner in the first second: a command may not run for longer.
        longest = min(max((now - self.started) / 1e9, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)
        nearest = min((timer.due - now for timer in self.timers), default=_LONGEST_WAIT_S * 1e9)
        guarded = self.guard.wait_s(now) if self.guard is not None else _LONGEST_WAIT_S
        if self.duration_ns is not None:
            nearest = min(nearest, self.started + self.duration_ns - now)
        return float(min(max(nearest / 1e9, 0.0), guarded, longest))

    def run_timers(self) -> None:
        now = time.monotonic_ns()
        beats = [(moment, timer) for timer in self.timers for moment in timer.take(now)]
        for moment, timer in sorted(beats, key=itemgetter(0)):
            # What happened before the interval was over belongs to it, and nothing later, however late we are.
            if self.code is None:
                self.consume(self.session.events(0, moment))
            if self.controls.stop:
                return  # there may be more that belongs to it: all of that is END's now
            if self.code is None:
                self.run_handler([timer.entry])

    def signalled(self) -> None:
        """Shows the maps, or runs what the program does at the signal."""
        self.controls.print_maps = False
        if self.at_signal:
            self.consume(self.session.events(0, time.monotonic_ns()))
        if self.code is None:
            self.run_handler(self.at_signal, None if self.at_signal else self._maps())

    def consume(self, events: Iterable[Event]) -> None:
        """Handles events. Where a signal asks for the end, the session keeps those that follow for its drain."""
        try:
            for event in events:
                self.told = True
                # print(@x) and print(@y) that follow each other see one moment.
                if isinstance(event, MapEvent):
                    self.enter()
                elif self.in_handler:
                    self.leave()
                self.handle(event)
                if self.code is not None or (self.controls.stop and not self.controls.detached):
                    return
        finally:
            self.leave()

    def handle(self, event: Event) -> None:
        if isinstance(event, ExitEvent):
            # The first one counts, and what END says after it.
            if self.code is None or self.ending:
                self.code = event.code
        else:
            self.consumer.event(event, self.maps)

    def run_handler(self, entries: Sequence[_Entry], closing: Sequence[str] | None = None) -> None:
        """Runs clauses in user space, then prints these maps and ends the text; every map is read at one moment."""
        self.enter()
        try:
            for clause, body in entries:
                from tracer.steps.python.without_hit import host_values  # many programs have no such clause

                self.runtime.exiting = False
                body(host_values(self.plan.steps[clause.id], self.watched.child_pid if self.watched is not None else 0))
                if self.runtime.exiting:
                    break
            if closing is not None:
                self.closed = self.controls.detached
                self.print_maps(closing)
        finally:
            self.leave()
        self.consumer.flush()

    def print_maps(self, names: Sequence[str]) -> None:
        """Prints maps. One that cannot be read does not keep the others back, as in `Renderer.maps`."""
        snapshots: list[MapSnapshot] = []
        fault: Exception | None = None
        for name in names:
            try:
                snapshots.append(self.maps.snapshot(name))
            except Exception as error:
                fault = fault or error
        self.consumer.maps(snapshots)
        if fault is not None:
            raise fault

    def _last_maps(self) -> list[str]:
        return self._maps() if self.plan.program.config.print_maps_on_exit else []

    def _maps(self) -> list[str]:
        return sorted(name for name, decl in self.plan.program.maps.items() if not decl.inner)

    def enter(self) -> None:
        if not self.in_handler:
            self.in_handler = True
            self.maps.begin_handler()

    def leave(self) -> None:
        if self.in_handler:
            self.in_handler = False
            self.maps.end_handler()

    def _user(self, of: Callable[[Clause], bool]) -> list[_Entry]:
        clauses = [clause for clause in self.plan.user if of(clause)]
        if not clauses:
            return []
        from tracer.steps.python.compile import compile_clause

        program, steps = self.plan.program, self.plan.steps
        return [(clause, compile_clause(program, clause, steps[clause.id], None, self.runtime)) for clause in clauses]


_Entry = tuple["Clause", Callable[[tuple[object, ...]], None]]


class _Timer:
    """The time at which an interval is due next; it keeps its beat however long its body takes."""

    def __init__(self, entry: _Entry) -> None:
        self.entry = entry
        self.period_ns = entry[0].period_ns
        self.due = 0

    def start(self, now: int) -> None:
        self.due = now + self.period_ns

    def take(self, now: int) -> range:
        """The moments that are due, the last `_CATCH_UP` of them; the next one is in the future afterwards."""
        moments = range(self.due, now + 1, self.period_ns)
        self.due += len(moments) * self.period_ns
        return moments[-_CATCH_UP:]


def probe_count(plan: Plan, left_out: Sequence[Site] = ()) -> int:
    """The number of probes that a user sees attached: each name once in each clause, however many sites it has."""
    missing = {(site.spot, site.kind) for site in left_out}
    names = (
        {site.probe for variant in probe.variants for site in variant.sites if (site.spot, site.kind) not in missing}
        for probe in plan.probes if probe.clause.ends is None and not probe.clause.unasked
    )  # fmt: skip
    return len(plan.user) + sum(map(len, names))
