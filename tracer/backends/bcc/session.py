"""A trace under way through BPF."""

from __future__ import annotations

import os
import select
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType

from tracer.backends.bcc import kernel, syscall
from tracer.backends.bcc.attach import Attachments
from tracer.backends.bcc.codegen.generate import CONTROL, FOLLOWED, LOSSES, RING
from tracer.backends.bcc.codegen.maps import FIRST_TABLE
from tracer.backends.bcc.control import Control
from tracer.backends.bcc.follow import follow
from tracer.backends.bcc.loader import FOLLOWER, LOSS_CAUSES, Loaded, create_maps, load_programs
from tracer.backends.bcc.program import BccProgram
from tracer.backends.bcc.records import Record, bulk_decoder, control_event, decoder, mark_in
from tracer.backends.bcc.refused import Refused, under_the_clause
from tracer.backends.bcc.ring import Batch, Ring
from tracer.backends.bcc.store import KernelMaps
from tracer.interp.clock import clock_ns
from tracer.plan.walk import added_to
from tracer.resolve.model import Target
from tracer.results.events import Event, ExitEvent, Loss
from tracer.results.values import MapStore

_SHORTEST_TICK_S, _LONGEST_TICK_S = 0.002, 0.032
"""How often the ring is looked at while nothing happens: the first figure after an event, doubling up to the second."""

_CATCH_UP = 128
"""Events decoded before the ring is emptied again."""

_QUICK = "programs do not wait for pages, and text on a page that is not in memory is counted as unreadable"

_BACKLOG_BYTES = 512 << 20
"""Copied records that wait to be decoded; beyond it the ring fills, and what does not fit is counted as lost."""


class BccSession:
    """Follows `backends.base.Session`."""

    def __init__(self, program: BccProgram, target: Target) -> None:
        self.plan = program.plan
        self.wake: tuple[int, ...] = ()
        generated = program.generated
        kernel.raise_limits()
        self._followed = target.pid if self.plan.follow else None
        pid = target.pid if self._followed is None else None
        multi = kernel.has_multi(pid is not None)
        self._attachments = Attachments(pid, multi)
        self._detached = False
        self._exited = False
        with ExitStack() as undo:
            self._loaded = create_maps(generated, self.plan)
            undo.callback(self._loaded.close)
            self.details: tuple[str, ...] = _load(self._loaded, program, multi)
            self._control = Control(
                self._loaded.maps[CONTROL],
                generated.generations,
                generated.lengths,
                len(generated.records),
                len(generated.marks),
            )
            undo.callback(self._control.close)
            self._control.start(clock_ns(), target.pid or 0)
            self._ring = Ring(self._loaded.maps[RING], self._loaded.ring_size)
            undo.callback(self._ring.close)
            self._cpus = syscall.possible_cpus()
            maps = self._loaded.maps
            descriptors = {number - FIRST_TABLE: maps[number] for number in maps if number >= FIRST_TABLE}
            self._maps = KernelMaps(
                self.plan.program, generated.tables, descriptors, self._control, self._cpus, generated.marks
            )
            undo.callback(self._attachments.detach)
            if self._followed is not None:
                event = follow(maps[FOLLOWED], self._followed, self._loaded.programs[FOLLOWER])
                undo.callback(os.close, event)
            self._undo = undo.pop_all()
        self.maps: MapStore = self._maps
        self._texts = generated.site_texts
        self._records = generated.records
        self._marks = generated.marks
        self._decoders = [self._decoder(record) for record in generated.records]
        self._bulk_decoders = [bulk_decoder(record) for record in generated.records]
        self._seen = [0] * len(generated.records)
        self._backlog: deque[Batch] = deque()
        self._backlog_bytes = 0

    def attach(self) -> int:
        """Attaches all probes or none; returns how many sites."""
        sites = self._attachments.attach(self.plan, self._loaded.programs, self._texts)
        added = {name for probe in self.plan.probes for name in added_to(probe.clause)}
        self.details += tuple(f"{name}: aggregated in the kernel" for name in sorted(added))
        return sites

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterator[Event]:
        """What happened, oldest first; see `backends.base.Session`."""
        deadline = time.monotonic() + timeout_s
        self._maps.tidy()
        self._take()
        if not self._backlog and not self._wait(deadline):
            yield from self._leftovers()
            return
        present = len(self._backlog)
        while self._backlog:
            for number, event in enumerate(self._decoded()):
                yield event
                if isinstance(event, ExitEvent):
                    self._exited = True
                    return
                if not number % _CATCH_UP:
                    self._take()
            self._maps.tidy()
            present -= 1
            if present <= 0 and (time.monotonic() >= deadline or self._woken(0)):
                return
        yield from self._leftovers()

    def detach(self) -> None:
        """No hit after it counts."""
        if not self._detached:
            self._detached = True
            self._control.stop()
            self._attachments.detach()

    def drain(self) -> Iterator[Event]:
        """After `detach`: what was still in the ring."""
        self._take()
        while self._backlog:
            yield from self._decoded()
            self._take()
        yield from self._pending()

    def loss(self) -> Loss:
        """Losses so far: the programs' counters, and what user space could not put into a full map."""
        size = 8 * self._cpus
        causes = []
        for cause in range(LOSS_CAUSES):
            value = syscall.map_lookup(self._loaded.maps[LOSSES], struct.pack("=I", cause), size) or b""
            causes.append(sum(struct.unpack(f"={len(value) // 8}Q", value)))
        return Loss(*causes) + self._maps.loss

    def hits(self) -> int:
        """0 where nothing was hit, -1 for some: the programs note only whether, which costs nothing at a hit."""
        return -1 if self._control.hit else 0

    def close(self) -> None:
        """Detaches and lets go of everything; the kernel keeps nothing."""
        self._undo.close()

    def __enter__(self) -> BccSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the ring ---

    def _decoded(self) -> Iterator[Event]:
        """The events of the oldest batch."""
        batch = self._backlog.popleft()
        data = batch.data
        self._backlog_bytes -= len(data)
        if batch.uniform:
            number = data[batch.offsets[0]] | data[batch.offsets[0] + 1] << 8
            bulk = self._bulk_decoders[number]
            if bulk is not None:
                return bulk(data, batch.stride)
            decode = self._decoders[number]
            return (event for at in batch.offsets if (event := decode(data, at)) is not None)
        decoders = self._decoders
        events = (decoders[data[at] | data[at + 1] << 8](data, at) for at in batch.offsets)
        return (event for event in events if event is not None)

    def _decoder(self, record: Record) -> Callable[[bytes, int], Event | None]:
        """How such records are read: each just before its event is handled, so that a print of a map that probes clear
        can make the store look back to its moment. Clears and zeros are no events: they are done already.
        """
        name, maps = record.map, self._maps
        if name not in self._marks:
            return decoder(record)
        if record.kind == "map":
            event = control_event(record)

            def look_back(data: bytes, at: int) -> Event:
                maps.look_back(name, mark_in(data, at))
                return event

            return look_back
        cleared = record.kind == "clear"

        def raised(data: bytes, at: int) -> None:
            maps.raised(name, mark_in(data, at), cleared)

        return raised

    def _take(self) -> None:
        """Empties the ring into the backlog."""
        if self._backlog_bytes > _BACKLOG_BYTES:
            return
        for batch in self._ring.take():
            self._backlog.append(batch)
            self._backlog_bytes += len(batch.data)

    def _wait(self, deadline: float) -> bool:
        """Until a record is there; False where the time is up, or something else wants attention."""
        tick = _SHORTEST_TICK_S
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or (not self._records and self._woken(left)):
                return False
            if self._woken(min(tick, left)):
                return False
            self._take()
            if self._backlog:
                return True
            if self._control.exit_code() is not None or any(self._control.pending(self._seen)):
                return False
            tick = min(2 * tick, _LONGEST_TICK_S)

    def _woken(self, timeout_s: float) -> bool:
        """Waits on the descriptors of the run loop alone."""
        try:
            return bool(select.select(self.wake, [], [], timeout_s)[0])
        except InterruptedError:
            return True

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
                record = self._records[number]
                if record.map in self._marks:
                    self._maps.look_back(record.map, None)
                yield control_event(record)


def _load(loaded: Loaded, program: BccProgram, multi: bool) -> tuple[str, ...]:
    """Sleepable where the kernel takes it, else without waiting for pages: what is not in memory is counted then.
    Returns what is worth saying about it.
    """
    waits = program.generated.waits
    said: tuple[str, ...] = ()
    reads = not program.copies or kernel.can_read_kernel()
    if waits and not kernel.can_sleep():
        said = (f"{_QUICK}: the kernel has no sleepable uprobe programs (Linux 6.0)",)
    elif waits:
        try:
            compiled = program.compiled(sleepable=True, cookies=multi, kernel_reads=reads)
            load_programs(loaded, program.generated, compiled, waits, multi=multi)
            return ()
        except Refused as error:
            said = (f"{_QUICK}: {error.message}",)
            loaded.unload()
    try:
        compiled = program.compiled(sleepable=False, cookies=multi, kernel_reads=reads)
        load_programs(loaded, program.generated, compiled, frozenset(), multi=multi)
    except Refused as error:
        raise under_the_clause(error, program.plan) from error
    return said
