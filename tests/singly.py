"""The events of a session one by one, whatever batches they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracer.results.events import Event, PrintfBatch, PrintfEvent, ValueBatch, ValueEvent


def singly(events: Iterable[Event]) -> Iterator[Event]:
    """Each printf by itself."""
    for event in events:
        if isinstance(event, PrintfBatch):
            for number, row in enumerate(event.rows):
                yield PrintfEvent(event.format if isinstance(event.format, int) else event.format[number], row)
        elif isinstance(event, ValueBatch):
            yield from (ValueEvent(event.shape, value) for value in event.values)
        else:
            yield event
