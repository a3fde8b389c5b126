"""Fetches that may wait for a page that never comes.

The kernel's fetches wait inside the kernel: the thread that is traced hangs there, and with it whoever attaches or
removes a probe. So where one process is traced it is looked at, before and during the trace.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tracer.backends.ftrace.program import Event
from tracer.errors import Diagnostic, ProgramError, Source
from tracer.lang.walk import attach_points
from tracer.probes.site import Target
from tracer.resolve.processes.stat import named
from tracer.resolve.processes.unserved import unserved

_EVERY_S, _SHARE = 1.0, 20
"""How often the process is looked at, and how much of tracer's time that takes at most: one part of so many."""
_FIRST_S, _LATER_S = 2.0, 0.1
_OWN = ("(%sp)", "(%bp)")
"""The stack, on which the program itself has just worked."""


def reads(event: Event) -> bool:
    """Whether the kernel reads memory of the process for it, but for arguments on its stack."""
    return any(
        fetch.place[:1] in "+-" and not (fetch.place.endswith(_OWN) and fetch.place.count("(") == 1)
        for place in event.places
        for fetch in place.fetches
    )


class Waits:
    """Looks after the process of a trace."""

    def __init__(self, events: Sequence[Event], target: Target) -> None:
        self._events = [event for event in events if reads(event)]
        self._pid = target.pid if target.pid is not None else target.child_pid
        self._due = 0.0

    def refuse(self, source: Source) -> None:
        """Before the trace: raises `ProgramError` under the attach points that read."""
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

    def look(self, detach: Callable[[int], None]) -> str | None:
        """During the trace, now and then: detaches the attach points that read, and says so for the end."""
        if not self._events or self._pid is None or time.monotonic() < self._due:
            return None
        what = self._look(_LATER_S)
        if what is None:
            return None
        gone = sorted({point for event in self._events for place in event.places for point in place.points})
        self._events = []
        for point in gone:
            detach(point)
        return (
            f"the output is incomplete: what reads memory was detached, since {what} now, whose pages another process"
            " or machine brings: a read there waits in the kernel, and may never end; --backend bcc does not wait for"
            " them"
        )

    def _look(self, most_s: float) -> str | None:
        if not self._events or self._pid is None:
            return None
        found = unserved(self._pid, most_s)
        self._due = time.monotonic() + max(_EVERY_S, _SHARE * found.seconds)
        return None if found.what is None else f"{named(self._pid)} has {found.what}"
