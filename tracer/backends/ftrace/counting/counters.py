"""Maps that hits in the kernel feed without samples: by counters of perf, or by hist triggers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.lang.typed import Program
from tracer.lang.types import Value
from tracer.results.events import Loss
from tracer.results.store import LocalMaps
from tracer.results.values import Key, MapSnapshot, MapValue

if TYPE_CHECKING:
    from tracer.backends.ftrace.read.hist_maps import HistTriggers

Total = Callable[[], int]
"""How many hits a counter has seen since it was opened; it never goes down."""


class CountedMaps(LocalMaps):
    """`LocalMaps`, some of which also take what the kernel counts.

    It is read when a handler begins, or for one reading outside of handlers; what was counted since the last time is
    added then. So a handler sees one moment, and what it clears is what it saw: later hits come with the next one.
    `stop` ends that: what was counted since then is left out, unless `finish` takes it.

    To read hist triggers takes longer. But where an interval may need them (`eager`), since its code looks into the
    tables themselves, a handler reads them when it first asks for a map of theirs.
    """

    def __init__(self, program: Program, loss: Loss) -> None:
        super().__init__(program, loss)
        self._counters: list[tuple[str, Total]] = []
        self._seen: list[int] = []
        self._in_handler = False
        self._stopped = False
        self._hist: HistTriggers | None = None
        self._eager = True
        self._hist_taken = False

    def follow_triggers(self, triggers: HistTriggers, eager: bool) -> None:
        """Lets the maps take what hist triggers count from now on."""
        self._hist, self._eager = triggers, eager

    def follow(self, name: str, total: Total) -> None:
        """Lets the count `name` take what `total` counts from now on."""
        self._counters.append((name, total))
        self._seen.append(0)

    def take(self) -> None:
        """Adds what was counted since the last time."""
        if self._stopped:
            return
        for number, (name, total) in enumerate(self._counters):
            now = total()
            delta = now - self._seen[number]
            if delta:
                self._seen[number] = now
                table = self.table(name)
                table[()] = table.get((), 0) + delta

    def stop(self) -> None:
        """Takes no more: where a handler said exit(), hits after it do not count."""
        self._stopped = True

    def finish(self) -> None:
        """Takes what the counters had counted when they were stopped."""
        self._stopped = False
        self.take()
        self._take_triggers()
        self._stopped = True

    def begin_handler(self) -> None:
        self.take()
        self._in_handler = True
        if self._eager:
            self._take_triggers()

    def end_handler(self) -> None:
        self._in_handler = self._hist_taken = False

    def get(self, name: str, key: Key) -> MapValue | None:
        self._refresh(name)
        return super().get(name, key)

    def snapshot(self, name: str) -> MapSnapshot:
        self._refresh(name)
        return super().snapshot(name)

    def clear(self, name: str) -> None:
        self._refresh(name)
        super().clear(name)

    def zero(self, name: str) -> None:
        self._refresh(name)
        super().zero(name)

    def delete(self, name: str, key: Key) -> None:
        self._refresh(name)
        super().delete(name, key)

    def set(self, name: str, key: Key, value: Value) -> None:
        self._refresh(name)
        super().set(name, key, value)

    def _refresh(self, name: str) -> None:
        if not self._in_handler:
            self.take()
        if self._hist is not None and name in self._hist.maps and not self._hist_taken:
            self._take_triggers()

    def _take_triggers(self) -> None:
        """Once in a handler."""
        self._hist_taken = self._in_handler
        if self._hist is not None and not self._stopped:
            self._hist.take(self)
