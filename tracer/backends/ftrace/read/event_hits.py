"""Answers the overhead guard's questions to a session: how often each attach point was hit, and which events end.

Hits are those of the event's descriptors, where each is one of all its attach points. But what a filter drops they do
not count, though it traps all the same, and a hist trigger has none: there it is what the kernel counts for each place
(uprobe_profile). Neither costs anything more at a hit. The kernel's list holds the probes of everybody on the machine,
so it is read as seldom as its length demands.

Where others than those who are traced run into the breakpoints too, that list counts their hits. It only says then how
the hits of an event, after its filter, are spread over its places.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tracer.backends.ftrace.program import ProbeEvent
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kinds.site import FileSite
from tracer.plan.model import Plan
from tracer.plan.points import points

if TYPE_CHECKING:
    from tracer.backends.ftrace.read.attachment import Attachment

_RARELY = 20
"""After a reading, the next one comes no sooner than this many times its duration later."""


_MOST_PLACES = 4096
"""The largest number of sites for which those that were never hit are named."""


class EventHits:
    """The attach points of one session. `opened` are the events with descriptors, in their order, `triggered` the
    others.
    """

    def __init__(
        self, plan: Plan, definitions: Definitions, attachment: Attachment, opened: Sequence[ProbeEvent],
        triggered: Sequence[ProbeEvent],
    ) -> None:  # fmt: skip
        self._count = len(points(plan))
        self._definitions = definitions
        self._attachment = attachment
        counted = ((None, event) for event in triggered)
        self._events: list[tuple[int | None, ProbeEvent]] = [*enumerate(opened), *counted]
        self._later: set[str] = set()
        """The events that came while the trace ran."""
        self._again = 0.0

    def add(self, first: int, events: Sequence[ProbeEvent]) -> None:
        """Counts the hits of further events too, which have descriptors from that number on."""
        self._events += enumerate(events, first)
        self._later |= {event.name for event in events}

    def hits(self, rarely: bool = True) -> list[int] | None:
        """The hits of each attach point so far. None where the kernel's list is needed and cannot be had at the moment,
        with `rarely` also while reading it again would take too much of the time.
        """
        listed: dict[str, list[int]] = {}
        if not all(map(_is_counted, self._events)):
            start = time.monotonic()
            if rarely and start < self._again:
                return None
            by_event = self._definitions.hits()
            self._again = start + _RARELY * (time.monotonic() - start)
            if by_event is None:
                return None
            listed = by_event
        by_point = [0] * self._count
        for numbered in self._events:
            number, event = numbered
            if number is not None and (_is_counted(numbered) or not event.is_defined):
                hits = self._attachment.own_hits(number)
                for point in event.points:
                    by_point[point] += hits
                continue
            every = listed.get(event.name, [])
            if number is not None and self._attachment.traps_others:
                hits_here, whole = self._attachment.own_hits(number), max(sum(every), 1)
                every = [hits_here * hits // whole for hits in every]
            for place, hits in zip(event.places, every, strict=False):
                for point in place.points:
                    by_point[point] += hits
        return by_point

    def unhit_sites(self) -> dict[int, list[FileSite]]:
        """The sites for which the kernel has counted no hit, of each attach point with several; {} where its list
        cannot be had. The list counts hits of others' probes there too, so what is told was surely not hit.
        """
        events = [event for _, event in self._events if event.name not in self._later]
        places = [len(event.places) for event in events]
        wanted = sum(places) > 1 and sum(places) <= _MOST_PLACES
        listed = self._definitions.hits() if wanted else None
        if listed is None:
            return {}
        unhit: dict[int, list[FileSite]] = {}
        sites = [0] * self._count
        for event in events:
            for place, hits in zip(event.places, listed.get(event.name, ()), strict=False):
                for point in place.points:
                    sites[point] += 1
                    if not hits:
                        unhit.setdefault(point, []).append(place.file)
        return {point: places for point, places in unhit.items() if sites[point] > 1}

    def is_sampled(self, point: int) -> bool:
        """Whether a hit of an attach point becomes a sample."""
        return any(point in event.points and not (event.counts or event.hist) for _, event in self._events)

    def ended_by(self, gone: set[int]) -> Iterator[tuple[int | None, ProbeEvent]]:
        """The events, with the numbers of those that have descriptors, that are for no attach point but these; each is
        told once.
        """
        for numbered in [(number, event) for number, event in self._events if event.points <= gone]:
            self._events.remove(numbered)
            yield numbered


def _is_counted(numbered: tuple[int | None, ProbeEvent]) -> bool:
    """Whether its descriptors see all hits, and each is one of all its attach points."""
    number, event = numbered
    return number is not None and event.filter is None and len({place.points for place in event.places}) == 1
