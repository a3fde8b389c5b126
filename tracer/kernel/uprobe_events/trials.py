"""Trials of which places of events the kernel does not probe, machine-wide, for whoever has the file in memory (see
`kernel.trials.instructions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer.kernel import perf
from tracer.kernel.trials.instructions import NOT_PROBED, Stopped, codes_of, kind_of, parts
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kernel.uprobe_events.events import ProbePlace, UprobeEvent


class Trials:
    """Tries places. A trial takes the kernel some 100 ms, so the first time one instruction speaks for all of its kind;
    where that was not enough, each place speaks for itself.
    """

    def __init__(self, definitions: Definitions, stop: Callable[[], bool]) -> None:
        self._definitions = definitions
        self._stop = stop
        self._kinds: dict[bytes, bool] = {b"": True}

    def refused_by_kind(self, event: UprobeEvent) -> list[ProbePlace]:
        """Places of an event whose kind of instruction the kernel does not probe. Raises `TracerError`, `OSError`."""
        refused = []
        for place, code in zip(event.places, codes_of([place.file for place in event.places]), strict=True):
            kind = kind_of(code)
            if kind not in self._kinds:
                self._kinds[kind] = self._takes(event, [place])
            if not self._kinds[kind]:
                refused.append(place)
        return refused

    def refused(self, event: UprobeEvent) -> list[ProbePlace]:
        """Finds all places of an event that the kernel does not probe. Raises `TracerError`, `OSError`."""
        refused: list[ProbePlace] = []
        untried = [list(event.places)]
        while untried:
            part = untried.pop()
            if self._takes(event, part):
                continue
            if len(part) > 1:
                untried += parts(part, codes_of([place.file for place in part]))
            else:
                refused += part
        return refused

    def _takes(self, event: UprobeEvent, places: Sequence[ProbePlace]) -> bool:
        if self._stop():
            raise Stopped
        watcher = self._definitions.watcher
        with self._definitions.trial(event, places) as number:
            try:
                attributes = perf.Attributes(perf.TYPE_TRACEPOINT, number, flags=perf.DISABLED)
                fd = watcher.open_one(perf.event_call(attributes, -1, perf.online_cpus()[0]))
            except OSError as error:
                if error.errno in NOT_PROBED:
                    return False
                raise
            watcher.close([fd])
        return True
