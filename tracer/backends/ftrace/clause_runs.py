"""The clauses of a session on what it samples, and what they say."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from tracer.backends.ftrace.read.reader import Reader
from tracer.backends.ftrace.samples.decoder import Decoder
from tracer.backends.ftrace.samples.shape import Sample
from tracer.results.events import Event, ExitEvent, PrintfBatch, PrintfEvent, ValueBatch, ValueEvent

_STEP = 1024
"""Samples worked through between two looks at the rings and the clock."""


class ClauseRuns:
    """`emit` takes what a clause says. `exited`: a clause has called exit(), and clauses do nothing any more."""

    def __init__(self) -> None:
        self.exited = False
        self._happened: deque[Event] = deque()
        self.emit: Callable[[Event], None] = self._happened.append
        self._runs: dict[int, Callable[[Sample], None]] = {}
        self._index = 0

    def take(self, decoders: Mapping[int, Decoder], index: int) -> None:
        """The clauses by the number of their event, which stands at `index` of a sample."""
        self._runs = {event: decoder.run for event, decoder in decoders.items()}
        self._index = index

    def add(self, decoders: Mapping[int, Decoder]) -> None:
        """Takes the clauses of further events."""
        self._runs |= {event: decoder.run for event, decoder in decoders.items()}

    def drop(self) -> int:
        """Drops the events that have not been delivered; returns how many."""
        dropped = len(self._happened)
        self._happened.clear()
        return dropped

    def run(
        self, reader: Reader, deadline: float | None, final: bool = False, until: int | None = None,
        hurried: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """Runs them on what has been collected so far, until the deadline."""
        index = self._index
        runs = self._runs
        yield from self._told()
        for _ in range(max(reader.waiting, 1)):
            samples = reader.next_samples(final, until)
            done = 0
            try:
                while done < len(samples):
                    step = samples[done : done + _STEP]
                    done += len(step)
                    for sample in step:
                        runs[sample[index]](sample)
                    yield from self._told()
                    if self.exited:
                        return
                    reader.keep_up()
                    if hurried() or (deadline is not None and time.monotonic() > deadline):
                        return
            finally:
                # The run loop may stop here too: then the drain goes on with the next sample.
                if done < len(samples):
                    reader.put_back(samples[done:])

    def _told(self) -> Iterator[Event]:
        """The events of the clauses. After exit() they do nothing more, however many samples are left."""
        happened = self._happened
        kinds = set(map(type, happened)) if len(happened) > 1 else set()
        if kinds == {PrintfEvent} or kinds == {ValueEvent}:
            numbers, rows = zip(*happened, strict=True)
            one = len(set(numbers)) == 1
            if kinds == {PrintfEvent} or one:
                happened.clear()
                yield PrintfBatch(numbers[0] if one else numbers, rows) if kinds == {PrintfEvent} else ValueBatch(
                    numbers[0], rows
                )
        while happened:
            happening = happened.popleft()
            if isinstance(happening, ExitEvent):
                self.exited = True
                happened.clear()
            yield happening
