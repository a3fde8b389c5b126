"""Many places in one perf event, for kernels without multi-uprobe links (before Linux 6.6): they are defined as one
trace event of uprobe_events, as for the ftrace backend, and a BPF program runs at it.

A perf event for each place would work too, but the kernel takes 10 to 100 ms to close one, one after the other. For a
thousand that is most of a minute.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.kernel import perf
from tracer.kernel.trials.instructions import NOT_PROBED, Stopped, may_go_without
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kernel.uprobe_events.events import MOST_PLACES, ProbePlace, UprobeEvent
from tracer.kernel.uprobe_events.trials import Trials
from tracer.kernel.workers.watcher import Watcher
from tracer.kinds.site import FileSite, Spot
from tracer.plan.model import ProbePlan


@dataclass(frozen=True, slots=True)
class ClauseEvent(UprobeEvent):
    """A trace event for places of one clause."""

    probe: ProbePlan


class SharedEvents:
    """The trace events of one session. `left_out` are the sites that the kernel does not probe."""

    def __init__(self, pids: Sequence[int], stop: Callable[[], bool], watcher: Watcher) -> None:
        """Raises `TracerError` where there is no tracefs, or none that can do this."""
        self.left_out: dict[Spot, FileSite] = {}
        self._pids = pids
        self._stop = stop
        self._trials: Trials | None = None
        self._watcher = watcher
        self._definitions = Definitions(watcher)
        if not self._definitions.takes_several():
            self._definitions.close()
            raise TracerError("the kernel has one place for each event (before Linux 5.4)")

    def define(self, wanted: Sequence[tuple[ProbePlan, Sequence[FileSite]]]) -> list[list[ClauseEvent]]:
        """Defines events for the sites of each program; returns them. Raises `TracerError`, of a place
        `Undefinable`, and `Stopped`.
        """
        by_program: list[list[ClauseEvent]] = []
        number = 0
        for probe, sites in wanted:
            events = []
            for returns in (False, True):
                places = [ProbePlace(site, ()) for site in sites if site.is_return_probe is returns]
                for first in range(0, len(places), MOST_PLACES):
                    events.append(ClauseEvent(f"b{number}", tuple(places[first : first + MOST_PLACES]), probe))
                    number += 1
            by_program.append(events)
        self._definitions.define([event for events in by_program for event in events], self._stop)
        return by_program

    def attach(self, event: ClauseEvent, program: int) -> list[int]:
        """Lets a program run at an event; returns the descriptors that hold it, none where no place could be probed.

        Raises `OSError`, `TracerError` and `Stopped`.
        """
        remaining: ClauseEvent | None = event
        while remaining is not None:
            try:
                return self._open(remaining, program)
            except OSError as error:
                if error.errno not in NOT_PROBED:
                    raise
                refused = self._refused(remaining)
                if not refused or not all(may_go_without(remaining.probe.clause, place.site.spot) for place in refused):
                    raise
            self.left_out |= {place.site.spot: place.file for place in refused}
            remaining = self._definitions.without(remaining, refused)
        return []

    def attached(self) -> None:
        """Notes that all programs are attached: from now on the kernel itself keeps the definitions."""
        self._definitions.in_use()

    def close(self) -> None:
        """Removes all definitions; the descriptors must be closed by then."""
        self._definitions.close()

    def _open(self, event: UprobeEvent, program: int) -> list[int]:
        attributes = perf.Attributes(perf.TYPE_TRACEPOINT, self._definitions.format(event).id, flags=perf.DISABLED)
        # Bound to one task or one CPU, but the BPF program on it runs wherever the breakpoint is (trace_uprobe.c,
        # uprobe_perf_func): of several it is attached to the first.
        places = [(pid, -1) for pid in self._pids] or [(-1, perf.online_cpus()[0])]
        descriptors: list[int] = []
        try:
            for pid, cpu in places:
                with suppress(ProcessLookupError):
                    descriptors.append(self._watcher.open_one(perf.event_call(attributes, pid, cpu)))
            if not descriptors:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            perf.attach(descriptors[0], program)
        except BaseException:
            self._watcher.close(descriptors)
            raise
        return descriptors

    def _refused(self, event: UprobeEvent) -> list[ProbePlace]:
        if self._stop():
            raise Stopped
        if self._trials is None:
            self._trials = Trials(self._definitions, self._stop)
        return self._trials.refused_by_kind(event) or self._trials.refused(event)
