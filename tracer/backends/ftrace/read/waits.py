"""Fetches that may wait for a page that never comes.

The kernel's fetches wait inside the kernel: the thread that is traced hangs there, and with it whoever removes a probe.
So the processes that are traced are looked at, before and during the trace, where they are known. And in all that run
into the probes it is looked for a thread that hangs: what holds it is detached, so that no other follows it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tracer.backends.ftrace.program import FtraceProgram, ProbeEvent
from tracer.errors import Diagnostic, ProgramError, Source, TracerError
from tracer.host.maps import mappings
from tracer.host.named import named
from tracer.host.stat import descendants, facts_of
from tracer.host.unserved import unserved
from tracer.kernel.workers.waiting import Held, Patrol
from tracer.kinds.site import Target
from tracer.lang.walk import attach_points
from tracer.plan.points import points

_EVERY_S, _SHARE = 0.1, 50
"""How often processes are looked at, and how much of tracer's time that takes at most: one part of so many."""
_FIRST_S, _LATER_S = 2.0, 0.1
_OWN = ("(%sp)", "(%bp)")
"""The stack, on which the program itself has just worked."""


def reads(event: ProbeEvent) -> bool:
    """Whether the kernel reads memory of the process for it, but for arguments on its stack."""
    return any(
        fetch.place[:1] in "+-" and not (fetch.place.endswith(_OWN) and fetch.place.count("(") == 1)
        for place in event.places
        for fetch in place.fetches
    )


class Waits:
    """Looks after the processes of a trace."""

    def __init__(self, program: FtraceProgram, target: Target) -> None:
        self._program = program
        self._reading = [event for event in program.events if reads(event)]
        self._events = self._reading
        self._pids = target.pids
        self._follow = target.follow
        self._since = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._due = 0.0
        self._patrol: Patrol | None = None
        self._traps_others = True

    def refuse(self, source: Source) -> None:
        """Raises `ProgramError`, before the trace, under the attach points that read."""
        what = self._look(_FIRST_S)
        if what is None:
            return
        message = (
            f"{what}, whose pages another process or machine brings: a read there waits in the kernel, and may never"
            " end"
        )
        clause = self._events[0].branches[0][0].clause
        hint = "--backend bcc reads without waiting for such pages; or read no memory, as count() does"
        raise ProgramError(source, [Diagnostic(message, attach_points(clause, source), hint)], exit_code=1)

    def add(self, program: FtraceProgram) -> None:
        """More is to be attached. Raises `TracerError` where what it reads might not come."""
        reading = [event for event in program.events if reads(event)]
        if not reading:
            return
        self._reading, self._events = [*self._reading, *reading], [*self._events, *reading]
        if (what := self._look(_LATER_S)) is not None:
            self._reading = [event for event in self._reading if event not in reading]
            self._events = [event for event in self._events if event not in reading]
            raise TracerError(f"{what}, and a read there may wait for ever")
        if self._patrol is None:
            self.begin(self._traps_others)

    def begin(self, traps_others: bool) -> None:
        """Takes note that all is attached. `traps_others`: others than the traced run into the probes too."""
        self._traps_others = traps_others
        if self._events:
            self._patrol = Patrol(() if traps_others or self._follow else self._pids)

    def wait_s(self, most_s: float) -> float:
        """Until the next look, at most that long."""
        return most_s if self._patrol is None else min(max(self._due - time.monotonic(), 0.0), most_s)

    def look(self, detach: Callable[[int], None], say: Callable[[str], None]) -> str | None:
        """During the trace, now and then: detaches attach points that read. Says at once which thread hangs, and
        returns what there is to say at the end.
        """
        if self._patrol is None or time.monotonic() < self._due:
            return None
        if (held := self._patrol.look()) is not None:
            self._due = time.monotonic()
            events = self._around(held)
            if not events:
                return None
            gone = self._text(events)
            fresh = [event for event in events if event in self._events]
            self._detach(fresh, detach)
            say(f"{gone} was detached, so that no other thread comes to wait there: {held.words}")
            if not fresh:
                return None
            return (
                f"the output is incomplete: {gone} was detached, since process {held.pid} waited there for a page that"
                " did not come; --backend bcc does not wait for such pages"
            )
        what = self._look(_LATER_S)
        if what is None:
            return None
        self._detach(self._events, detach)
        return (
            f"the output is incomplete: what reads memory was detached, since {what} now, whose pages another process"
            " or machine brings: a read there waits in the kernel, and may never end; --backend bcc does not wait for"
            " them"
        )

    def _text(self, events: Sequence[ProbeEvent]) -> str:
        every = points(self._program.plan)
        return ", ".join(dict.fromkeys(every[point].text for point in _points(events)))

    def _detach(self, events: Sequence[ProbeEvent], detach: Callable[[int], None]) -> None:
        self._events = [event for event in self._events if event not in events]
        for point in _points(events):
            detach(point)

    def _around(self, held: Held) -> Sequence[ProbeEvent]:
        """The events in which a thread hangs: those of its place, or where that is not known, as in a return probe, all
        that it may be in.
        """
        try:
            mapped = [mapping for mapping in mappings(held.pid) if mapping.file is not None]
        except TracerError:
            return ()
        here = {
            (mapping.file[1], held.address - mapping.start + mapping.offset)
            for mapping in mapped
            if mapping.file is not None and mapping.start <= held.address < mapping.end
        }
        exact = [event for event in self._reading if not here.isdisjoint(_places(event))]
        if here:
            return exact
        inodes = {mapping.file[1] for mapping in mapped if mapping.file is not None}
        return [event for event in self._reading if any(inode in inodes for inode, _ in _places(event))]

    def _look(self, most_s: float) -> str | None:
        """The finding in the processes that are traced, and in which, in words."""
        if not self._events or not self._pids:
            self._due = time.monotonic() + _EVERY_S
            return None
        begun = time.monotonic()
        what = None
        for pid in (*self._pids, *(self._descendants() if self._follow else ())):
            left_s = begun + most_s - time.monotonic()
            if left_s <= 0:
                break
            if (what := unserved(pid, left_s).what) is not None:
                what = f"{named(pid)} has {what}"
                break
        now = time.monotonic()
        self._due = now + max(_EVERY_S, _SHARE * (now - begun))
        return what

    def _descendants(self) -> Iterator[int]:
        """The descendants that have begun since."""
        ticks = self._since * os.sysconf("SC_CLK_TCK") - 1
        for pid in descendants(self._pids):
            with suppress(OSError):
                facts = facts_of(pid)
                if facts is not None and facts.process.started >= ticks:
                    yield pid


def _points(events: Sequence[ProbeEvent]) -> list[int]:
    return sorted({point for event in events for place in event.places for point in place.points})


def _places(event: ProbeEvent) -> set[tuple[int, int]]:
    places = event.places if event.is_defined else ()
    return {(place.file.identity.inode, place.file.offset) for place in places}
