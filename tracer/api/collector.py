"""The collector takes the events of a trace, makes them plain where the trace runs, and keeps them for who reads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from tracer.api.consumer import Consumer as ByProgram, Writer
from tracer.api.events import Event, Map, Message, Output, Printf, Time, Value
from tracer.api.values import Values
from tracer.render.notices import (
    WARNING,
    Attached,
    Consumer,
    Detached,
    Ended,
    NeverHit,
    Notice,
    Overhead,
    Warned,
)
from tracer.render.printf import argument_types
from tracer.render.renderer import Renderer
from tracer.render.value_text import NUMBERS, Symbolizer
from tracer.results.events import Loss, PrintfBatch, PrintfEvent, ValueBatch, ValueEvent

if TYPE_CHECKING:
    from tracer.lang import typed
    from tracer.lang.types import Type
    from tracer.render.renderer import Effects
    from tracer.render.value_text import Show
    from tracer.results import events as of_trace
    from tracer.results.values import MapSnapshot, MapStore
    from tracer.tracing.loop import Controls

MOST = 1 << 16
"""Events that wait for a reader; then the trace waits too, and what comes meanwhile waits in bounded memory or is
lost, and counted.
"""
_TICK_S = 0.01


class Collector(Consumer):
    """Filled by the thread of the trace, read by any other."""

    def __init__(self, controls: Controls) -> None:
        self.controls = controls
        self.changed = threading.Condition()
        self.events: deque[Event] = deque()
        self.notices: list[Notice] = []
        self.warnings: list[Notice] = []
        self.snapshots: dict[str, Any] = {}
        self.loss = Loss()
        self.probes = 0
        self.hits = -1
        self.backend: str | None = None
        self.is_attached = self.is_over = False
        self.error: BaseException | None = None
        self.code = 0
        self.looks = 0
        self.renderer: PlainRenderer | None = None
        self.consumers: list[ByProgram] = []
        self.writers: list[Writer] = []
        self._turn = threading.RLock()
        self.keeps = True
        """Whether events wait for the iterator."""

    def results(self, program: typed.Program, names: Symbolizer | None, effects: Effects) -> Consumer:
        """The consumer of the results: this one, through the renderer, and the writers."""
        if not self.writers:
            self.renderer = PlainRenderer(program, names, self, effects)
            return self.renderer
        from tracer.render import renderer_of
        from tracer.tracing.several import Once, Several

        once = Once(effects)
        self.renderer = PlainRenderer(program, names, self, once.of_each())
        written = [
            renderer_of(writer.format)(program, names, writer.file, effects=once.of_each()) for writer in self.writers
        ]
        return Several([self.renderer, *written], once)

    def say(self, text: str) -> None:
        """Takes a complaint of system() or cat()."""
        self.notice(Warned(text.rstrip("\n")))

    escapes = False

    def notice(self, notice: Notice) -> None:
        self._give(lambda consumer: consumer.notice(notice))
        with self.changed:
            self.notices.append(notice)
            if notice.weight == WARNING or isinstance(notice, Overhead):
                self.warnings.append(notice)
            if isinstance(notice, Attached):
                self.backend, self.probes, self.is_attached = notice.backend, notice.probes, True
                self.changed.notify_all()
            elif isinstance(notice, Ended):
                self.code, self.hits = notice.code, notice.hits

    def put(self, event: Event, store: MapStore | None) -> None:
        """Keeps an event; where nobody reads, the kernel's buffers are emptied meanwhile, and maps can be asked for."""
        self._give(lambda consumer: consumer.event(event))
        if not self.keeps:
            return
        with self.changed:
            while len(self.events) >= MOST and not self.controls.hurry and not self.controls.stop:
                self.changed.wait(_TICK_S)
                self.controls.meanwhile()
                if self.controls.print_maps and store is not None and self.renderer is not None:
                    self.controls.print_maps = False
                    self.renderer.maps([store.snapshot(name) for name in self.renderer.names()])
            if len(self.events) < MOST or not self.controls.hurry:
                self.events.append(event)
            self.changed.notify_all()

    def keep(self, snapshots: dict[str, Any]) -> None:
        """The maps as they are now."""
        self._give(lambda consumer: consumer.maps(snapshots))
        with self.changed:
            self.snapshots = snapshots
            self.looks += 1
            self.changed.notify_all()

    def _give(self, give: Callable[[ByProgram], None]) -> None:
        if self.consumers:
            with self._turn:
                for consumer in self.consumers:
                    give(consumer)

    def over(self, error: BaseException | None) -> None:
        """The trace has ended, and all is undone."""
        try:
            self._give(lambda consumer: consumer.end())
            for writer in self.writers:
                writer.file.flush()
        except BaseException as fault:
            error = error or fault
        with self.changed:
            self.error = error
            self.is_over = True
            self.changed.notify_all()


class PlainRenderer(Renderer):
    """Puts out objects in place of bytes."""

    escapes_values = False

    def __init__(
        self, program: typed.Program, names: Symbolizer | None, collector: Collector, effects: Effects
    ) -> None:
        super().__init__(program, names, _Nowhere(), effects=effects)
        self._collector = collector
        self._values = Values(self.text, names if names is not None else NUMBERS)
        self._plain = [self._values.of(type) for type in program.shapes]
        arguments = argument_types(program) if program.formats else {}
        self._arguments: dict[int, list[Callable[[Any], Any]]] = {
            format: [self._values.of(type) for type in types] for format, types in arguments.items()
        }
        self._store: MapStore | None = None

    def names(self) -> list[str]:
        """The names of the maps, in order."""
        return sorted(name for name, decl in self._program.maps.items() if not decl.inner)

    def event(self, event: of_trace.Event, store: MapStore) -> None:
        self._store = store
        if isinstance(event, PrintfEvent) and event.format not in self._program.outputs:
            self._printf(event.format, event.args)
        elif isinstance(event, PrintfBatch):
            one = event.format
            rows = zip(repeat(one), event.rows) if isinstance(one, int) else zip(one, event.rows, strict=True)
            for format, row in rows:
                self.event(PrintfEvent(format, row), store)
        elif isinstance(event, ValueEvent):
            self._value(event.shape, event.value)
        elif isinstance(event, ValueBatch):
            for value in event.values:
                self._value(event.shape, value)
        else:
            super().event(event, store)

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        self._collector.keep({snapshot.decl.name: self._values.map(snapshot) for snapshot in snapshots})

    def show(self, type: Type) -> Show:
        return self.text.of(type)

    def printf(self, texts: Iterable[bytes]) -> None:
        """Not used: `event` has the values."""

    def print_values(self, shown: Iterable[bytes]) -> None:
        """Not used, likewise."""

    def print_time(self, text: bytes) -> None:
        self._put(Time(_decoded(text)))

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        self._put(Map(snapshot.decl.name, self._values.map(snapshot, top, div)))

    def message(self, output: typed.Output, text: bytes) -> None:
        _, line, column = self.place(output.span)
        self._put(Message(output.kind, _decoded(text), line, column))

    def print_bytes(self, output: typed.Output, data: bytes) -> None:
        self._put(Output(output.kind, data))

    def lost(self, loss: Loss) -> None:
        self._collector.loss = loss

    def silent(self, probe: str, reason: str) -> None:
        self._collector.notice(NeverHit(probe, reason))

    def detached(self, probe: str, hits: int, seconds: float, after_s: float, maps: Sequence[str]) -> None:
        self._collector.notice(Detached(probe, hits, seconds, after_s, tuple(maps)))

    def _printf(self, format: int, args: tuple[Any, ...]) -> None:
        values = tuple([of(value) for of, value in zip(self._arguments[format], args, strict=True)])
        self._put(Printf(_decoded(self._formats[format](args)), values))

    def _value(self, shape: int, value: Any) -> None:
        self._put(Value(self._plain[shape](value), _decoded(self._shapes[shape](value))))

    def _put(self, event: Event) -> None:
        self._collector.put(event, self._store)


class _Nowhere:
    def write(self, data: bytes, /) -> None:
        raise AssertionError("bytes are for renderers")

    def flush(self) -> None:
        pass


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
