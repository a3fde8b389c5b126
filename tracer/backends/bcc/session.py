"""A trace under way through BPF."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.backends.bcc.attach.attachments import Attachments
from tracer.backends.bcc.attach.loader import FOLLOWER, HITS, LOSS_CAUSES, Loaded, first_counter
from tracer.backends.bcc.attach.registry import attacher_of
from tracer.backends.bcc.codegen.generate import (
    CONTROL,
    FOLLOWED,
    FULL_MAPS,
    LOSSES,
    PYTHON_IMAGES,
    RING,
    STACK_RULES,
)
from tracer.backends.bcc.codegen.maps.steps import FIRST_TABLE
from tracer.backends.bcc.events.incoming import Incoming
from tracer.backends.bcc.events.records import control_event
from tracer.backends.bcc.events.ring import Ring
from tracer.backends.bcc.host import trials
from tracer.backends.bcc.loading import loaded
from tracer.backends.bcc.maps.control import Control
from tracer.backends.bcc.maps.store import KernelMaps
from tracer.backends.bcc.program import BccProgram
from tracer.dataclass import replace
from tracer.host.clock import clock_ns
from tracer.host.polling import readable
from tracer.kernel import bpf, buffers
from tracer.kernel.limits import raise_limits
from tracer.kernel.trials.instructions import where
from tracer.kinds.site import FileSite, Target, places_among
from tracer.lang.walk import added_to
from tracer.plan.points import alone_of, points
from tracer.results.events import Event, ExitEvent, Loss, PrintfBatch, ValueBatch
from tracer.results.values import MapStore

if TYPE_CHECKING:
    from tracer.backends import Surroundings
    from tracer.backends.bcc.maps.stacks import Stacks
    from tracer.backends.bcc.more_sites import MoreSites
    from tracer.backends.nested_returns import Nested
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.plan.model import Plan
    from tracer.results.store import LocalMaps

_SHORTEST_TICK_S, _LONGEST_TICK_S, _SLEEP_S = 0.002, 0.016, 0.1
"""The intervals between looks at the ring while nothing happens: the first one after an event, doubling up to the
second; then a record wakes tracer, or the third interval ends.
"""

_CATCH_UP = 128
"""Events decoded before the ring is emptied again."""


class BccSession:
    """Follows `backends.base.Session`."""

    def __init__(self, program: BccProgram, target: Target, around: Surroundings) -> None:
        self.plan = program.plan
        around.check(program.plan)
        self._around = around
        raise_limits()
        self._pids = () if self.plan.shared else target.fixed
        multi = self._multi = trials.has_multi(bool(self._pids))
        self._is_child = target.program is not None
        self._attachments = Attachments(self._pids, multi, self._is_child, target.pids)
        self._more: list[MoreSites] = []
        self.gone: set[int] = set()
        self._nested: Nested | None = None
        self._costs: HitCosts | None = None
        self._own_returns: list[int] = []
        self._detached = False
        self._exited = False
        with ExitStack() as undo:
            undo.callback(self._attachments.close)
            self._loaded, program, slower = loaded(program, multi)
            undo.callback(self._loaded.close)
            generated = program.generated
            self.details: tuple[str, ...] = (*_small_ring(self._loaded), *slower)
            self._control = Control(self._loaded.maps[CONTROL], *generated.control)
            undo.callback(self._control.close)
            self._control.start(clock_ns(), target.child_pid)
            self._ring = Ring(self._loaded.maps[RING], self._loaded.ring_size)
            undo.callback(self._ring.close)
            self._cpus = bpf.possible_cpus()
            maps = self._loaded.maps
            descriptors = {number - FIRST_TABLE: maps[number] for number in maps if number >= FIRST_TABLE}
            self._stacks: Stacks | None = None
            if generated.unwinds or generated.interprets or generated.places:
                from tracer.backends.bcc.maps.stacks import Stacks

                self._stacks = Stacks(maps.get(STACK_RULES))
            self._maps = KernelMaps(
                self.plan.program, generated.tables, descriptors, self._control, self._cpus, generated.marks,
                self._stacks,
            )  # fmt: skip
            undo.callback(self._attachments.detach)
            self._points = points(self.plan)
            if self.plan.shared:
                from tracer.backends.bcc.host.follow import follow

                followed = maps[FOLLOWED], target.pids, self._loaded.programs[FOLLOWER]
                event = follow(*followed, threads=generated.threads)
                undo.callback(os.close, event)
            self._undo = undo.pop_all()
        self.maps: MapStore = self._maps
        self._generated = generated
        self._incoming = Incoming(
            self._ring, generated.records, generated.marks, self._maps, buffers.waiting(), self._stacks
        )
        self._dropped = 0
        self._seen = [0] * len(generated.records)

    @property
    def _attached(self) -> list[Attachments]:
        return [self._attachments, *(more.attachments for more in self._more)]

    @property
    def not_undone(self) -> str | None:
        return next((part.not_undone for part in self._attached if part.not_undone is not None), None)

    @property
    def missed(self) -> Sequence[str]:
        return list(dict.fromkeys(said for part in self._attached for said in part.missed))

    @property
    def left_out(self) -> Sequence[FileSite]:
        return sorted((site for part in self._attached for site in part.left_out.values()), key=where)

    def begin(self, maps: LocalMaps) -> None:
        self._maps.receive(maps)

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        if self.plan.has_return_probes:
            from tracer.backends.bcc.attach.call_counters import load_counters, own_returns
            from tracer.backends.nested_returns import Nested

            load_counters(self._loaded, self.plan, self._multi)
            self._own_returns = own_returns(self.plan)
            self._nested = Nested(self._pids)
        if self._stacks is not None:
            self._stacks.unwinder, self._stacks.places = self._around.unwinder, self._around.places
            if self._around.interpreters is not None and self._generated.interprets:
                from tracer.backends.bcc.maps.python import PythonFrames

                self._stacks.python = PythonFrames(self._loaded.maps[PYTHON_IMAGES], self._around.interpreters)
                self._stacks.python.look()
        self._attachments.tell_waits(self._around.waits)
        self._attachments.hold(*self._around.kept())
        sites = self._attachments.attach(
            self.plan, self._loaded.programs, self._generated.site_texts, self._generated.noted, stop
        )
        added = {name for probe in self.plan.probes for name in added_to(probe.clause)} & self._generated.tables.keys()
        self.details += tuple(f"{name}: aggregated in the kernel" for name in sorted(added))
        return sites

    def compile_more(self, plan: Plan) -> BccProgram:
        """See `Session`."""
        from tracer.backends.bcc.loading import warm
        from tracer.backends.bcc.more_sites import continued

        program = continued(plan, self._generated)
        warm(program, self._multi)
        return program

    def attach_more(self, program: BccProgram) -> int:
        """See `Session`."""
        from tracer.backends.bcc.more_sites import MoreSites

        more = MoreSites(program, self._loaded, self._multi, self._pids, self._is_child, self._around)
        self._undo.callback(more.close)
        self._more.append(more)
        self._maps.go_on(more.program.generated.tables)
        self._generated = replace(self._generated, tables=more.program.generated.tables)
        return more.attach()

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterator[Event]:
        """Events, oldest first; see `backends.base.Session`."""
        deadline = time.monotonic() + timeout_s
        self._keep_up()
        self._maps.tidy()
        if self._stacks is not None:
            self._stacks.keep_up()
        incoming = self._incoming
        incoming.take()
        if not incoming.unfinished and not self._wait(deadline):
            yield from self._leftovers()
            return
        present = len(incoming)
        while incoming.unfinished:
            for number, event in enumerate(incoming.events()):
                yield event
                if isinstance(event, ExitEvent):
                    self._exited = True
                    return
                if isinstance(event, PrintfBatch | ValueBatch) or not number % _CATCH_UP:
                    incoming.take()
            self._maps.tidy()
            present -= 1
            if present <= 0 and (time.monotonic() >= deadline or self._woken(0)):
                return
        yield from self._leftovers()

    def detach(self) -> None:
        if not self._detached:
            self._detached = True
            self._control.stop()
            for part in self._attached:
                part.detach()
            if self._stacks is not None:
                self._stacks.count_endings(lambda number: self._summed(LOSSES, len(LOSS_CAUSES) + number))

    def drain(self, hurried: Callable[[], bool] = lambda: False) -> Iterator[Event]:
        """Returns, after `detach`, what was still in the ring."""
        incoming = self._incoming
        incoming.take()
        while incoming.unfinished:
            for event in incoming.events():
                yield event
                if hurried():
                    return
            incoming.take()
        yield from self._pending()

    def collect(self) -> None:
        """Moves the contents of the ring into memory."""
        self._keep_up()
        self._incoming.take()

    def drop(self) -> None:
        self._dropped += self._incoming.drop()

    def loss(self) -> Loss:
        """Losses so far: the programs' counters, and what user space could not put into a full map."""
        causes = {cause: self._summed(LOSSES, number) for number, cause in enumerate(LOSS_CAUSES)}
        full = Loss()
        for name, table in self._generated.tables.items():
            counters = [] if table.key is None else [FULL_MAPS + FIRST_TABLE + number for number in table.numbers]
            if keys := sum(self._summed(LOSSES, counter) for counter in counters):
                full.found_full(name, keys)
        returns = 0
        if self._nested is not None and self._detached:
            returns = self._lost_returns(self._nested)
        session_loss = Loss(dropped=self._dropped, returns=returns, shut_out=self._attachments.misses)
        return Loss(**causes, full=frozenset()) + full + session_loss + self._maps.loss

    def _lost_returns(self, nested: Nested) -> int:
        first = first_counter(self.plan)
        returned = sum(self._summed(HITS, point) for point in (first + 1, *self._own_returns))
        return nested.lost(self._summed(HITS, first), returned)

    def _summed(self, number: int, index: int) -> int:
        """An element of a per-CPU array."""
        value = bpf.map_lookup(self._loaded.maps[number], struct.pack("=I", index), 8 * self._cpus) or b""
        return sum(struct.unpack(f"={len(value) // 8}Q", value))

    def hits(self) -> int:
        """See `Session`. Where others have the probes too: 0 if no traced process was hit, else -1, since their hits
        may count.
        """
        if self.plan.shared:
            return -1 if self._control.hit else 0
        return sum(self.point_hits())

    def point_hits(self) -> list[int]:
        counted = self._generated.counted
        return [
            self._maps.hits(counted[number]) if number in counted else self._summed(HITS, number)
            for number in range(len(self._points))
        ]

    def unhit_sites(self) -> dict[int, tuple[FileSite, ...]]:
        unhit = {}
        for point, sites in self._generated.noted.items() if self._multi else ():
            noted = self._control.noted(sites)
            every = zip(self._points[point].sites, noted, strict=True)
            unhit[point] = tuple(places_among(site for site, hit in every if not hit))
        return unhit

    def hit_cost(self, point: int) -> Cost | None:
        from tracer.kernel.trials.hit_cost import OF_LATER_FILE, HitCosts

        if self._costs is None:
            self._costs = HitCosts()
            self._undo.callback(self._costs.close)
        sites = self._points[point].sites
        return attacher_of(sites).cost(sites, self._costs) if sites else OF_LATER_FILE

    def detach_point(self, point: int) -> None:
        if self._nested is not None:
            self._lost_returns(self._nested)  # as far as calls are counted
        self.gone.add(point)
        for part in self._attached:
            part.detach_point(point, alone_of(self.plan, self.gone, (point,)))

    def close(self) -> None:
        """Detaches and lets go of everything; the kernel keeps nothing."""
        self._undo.close()

    def __enter__(self) -> BccSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- the ring ---

    def _wait(self, deadline: float) -> bool:
        """Until a record is there; False where the time is up, or something else wants attention. For some ticks we
        look by ourselves, so that nobody is woken for each of many events; then we sleep, and the next one wakes us.
        """
        tick = _SHORTEST_TICK_S
        wake = *self._around.wake(), *self._own_wake
        try:
            while True:
                remaining_s = deadline - time.monotonic()
                if remaining_s <= 0 or (not self._generated.records and self._woken(remaining_s)):
                    return False
                asleep = tick > _LONGEST_TICK_S
                if asleep:
                    self._control.sleeps(True)
                    # What was sent before that woke nobody; poll(2) sees it. What a program that read the word before
                    # and was preempted sends after that wakes nobody either: it is seen when the sleep is over.
                    awaited, tick = (*wake, self._loaded.maps[RING]), _SLEEP_S
                else:
                    awaited = wake
                if any(descriptor in wake for descriptor in readable(awaited, min(tick, remaining_s))):
                    return False
                self._incoming.take()
                if self._incoming.unfinished:
                    return True
                if self._control.exit_code() is not None or any(self._control.pending(self._seen)):
                    return False
                tick *= 2
        finally:
            self._control.sleeps(False)

    def _woken(self, timeout_s: float) -> bool:
        """Waits on the descriptors of the run loop alone."""
        return bool(readable((*self._around.wake(), *self._own_wake), timeout_s))

    @property
    def _own_wake(self) -> tuple[int, ...]:
        return tuple([fd for part in self._attached for fd in part.wake])

    def _keep_up(self) -> None:
        for part in self._attached:
            part.keep_up()

    def _leftovers(self) -> Iterator[Event]:
        """Control events that found the ring full, after all that is in the ring; their own order is not known."""
        if self._detached or self._exited:
            return
        code = self._control.exit_code()
        if code is not None:
            # The program sets the flag just before it sends the record.
            time.sleep(_LONGEST_TICK_S)
        for event in self._pending() if code is None else self.drain():
            yield event
            if isinstance(event, ExitEvent):
                self._exited = True
                return
        if code is not None:
            self._exited = True
            yield ExitEvent(code)

    def _pending(self) -> Iterator[Event]:
        for number, count in enumerate(self._control.pending(self._seen)):
            for _ in range(count):
                self._seen[number] += 1
                record = self._generated.records[number]
                if record.kind in ("clear", "zero"):
                    self._maps.note_reset(record.map, -1, record.kind == "clear")
                    continue
                if record.map in self._generated.marks:
                    self._maps.look_back(record.map, None)
                said = self._control.exit_code() if record.kind == "exit" else None
                yield control_event(record) if said is None else ExitEvent(said)


def _small_ring(loaded: Loaded) -> tuple[str, ...]:
    """The message if the kernel gave less memory than was asked for."""
    if loaded.ring_size >= loaded.ring_wanted:
        return ()
    return (
        f"the buffer for events has {loaded.ring_size >> 10} KiB, not {loaded.ring_wanted >> 10}:"
        " the kernel gives no more (limit on locked memory, or control group), and more may be lost",
    )
