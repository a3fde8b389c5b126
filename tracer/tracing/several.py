"""Several consumers of one trace: each is given what a single one would be, and what a program does is done once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tracer.render.notices import Consumer, Notice
from tracer.results.events import MapEvent, PrintfBatch, TimeEvent, ValueBatch

if TYPE_CHECKING:
    from tracer.render.renderer import Effects
    from tracer.results.events import Event, Loss
    from tracer.results.values import MapSnapshot, MapStore


class Once:
    """The effects of a program for several renderers: what the first of them has done for an event, those after it are
    given. `of_each` makes the effects of a further one.
    """

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.escapes: bool = getattr(effects, "escapes", False)
        self.said: Counter[bytes] = Counter()
        self.files: list[bytes] = []
        self.commands: list[_Command] = []
        self._turns: list[_Turn] = []

    def of_each(self) -> _Turn:
        """The turn of one more renderer."""
        self._turns.append(_Turn(self))
        return self._turns[-1]

    def begin(self) -> None:
        """Begins another event."""
        for collection in (self.said, self.files, self.commands):
            collection.clear()
        for turn in self._turns:
            turn.begin()


class _Turn:
    """See `render.renderer.Effects`. The renderers ask for the same, in the same order, but that some say less."""

    def __init__(self, once: Once) -> None:
        self._once = once
        self.escapes = once.escapes
        self.begin()

    def begin(self) -> None:
        self._said: Counter[bytes] = Counter()
        self._files = self._commands = 0

    def say(self, text: bytes) -> None:
        self._said[text] += 1
        if self._said[text] > self._once.said[text]:
            self._once.said[text] += 1
            self._once.effects.say(text)

    def file(self, name: bytes, most: int) -> bytes:
        once, number = self._once, self._files
        self._files += 1
        if number == len(once.files):
            once.files.append(once.effects.file(name, most))
        return once.files[number]

    def command(self, text: bytes, show: Callable[[bytes], None]) -> None:
        once, number = self._once, self._commands
        self._commands += 1
        if number == len(once.commands):
            once.commands.append(started := _Command())
            started.show(show)
            once.effects.command(text, started.ended)
        else:
            once.commands[number].show(show)


class _Command:
    """A command that runs, or has run."""

    def __init__(self) -> None:
        self._printed: bytes | None = None
        self._shows: list[Callable[[bytes], None]] = []

    def show(self, show: Callable[[bytes], None]) -> None:
        """Shows what it has printed: now, or when it has ended."""
        if self._printed is None:
            self._shows.append(show)
        else:
            show(self._printed)

    def ended(self, printed: bytes) -> None:
        """Notes that a renderer has printed the event."""
        self._printed = printed
        for show in self._shows:
            show(printed)


class Several(Consumer):
    """Gives all of them the same: rows that can be read once, the moment of a time(), and a map as it was at one
    moment. `once` are the effects that they share.
    """

    def __init__(self, consumers: Sequence[Consumer], once: Once) -> None:
        self._consumers = tuple(consumers)
        self._once = once

    def event(self, event: Event, store: MapStore) -> None:
        if isinstance(event, PrintfBatch):
            event = event._replace(rows=list(event.rows))
        elif isinstance(event, ValueBatch):
            event = event._replace(values=list(event.values))
        elif isinstance(event, TimeEvent) and event.moment is None:
            event = event._replace(moment=time.time_ns())
        elif isinstance(event, MapEvent) and event.snapshot is None:
            event = event._replace(snapshot=store.snapshot(event.map))
        self._once.begin()
        for consumer in self._consumers:
            consumer.event(event, store)

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        self._once.begin()
        maps = list(snapshots)
        self._all([partial(consumer.maps, maps) for consumer in self._consumers])

    def attached(self, probes: int) -> None:
        for consumer in self._consumers:
            consumer.attached(probes)

    def lost(self, loss: Loss) -> None:
        for consumer in self._consumers:
            consumer.lost(loss)

    def silent(self, probe: str, reason: str) -> None:
        for consumer in self._consumers:
            consumer.silent(probe, reason)

    def detached(self, probe: str, hits: int, seconds: float, after_s: float, maps: Sequence[str]) -> None:
        for consumer in self._consumers:
            consumer.detached(probe, hits, seconds, after_s, maps)

    def notice(self, notice: Notice) -> None:
        for consumer in self._consumers:
            consumer.notice(notice)

    def flush(self) -> None:
        for consumer in self._consumers:
            consumer.flush()

    def finish(self) -> None:
        self._all([consumer.finish for consumer in self._consumers])

    def end(self) -> None:
        self._all([consumer.end for consumer in self._consumers])

    @staticmethod
    def _all(calls: Sequence[Callable[[], None]]) -> None:
        """Does all, though one fails: what that raised is raised after them."""
        fault: Exception | None = None
        for call in calls:
            try:
                call()
            except Exception as error:
                fault = fault or error
        if fault is not None:
            raise fault
