"""Results as text, in bpftrace's format."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from tracer.lang.types import IntType
from tracer.render.clock import format_time
from tracer.render.formats import compiled_formats, formatted
from tracer.render.histogram import rows, text_histogram
from tracer.render.values import Show, ValueText
from tracer.results.events import MapEvent, PrintfBatch, PrintfEvent, TimeEvent, ValueBatch, ValueEvent
from tracer.results.integers import quotient
from tracer.results.order import ordered
from tracer.results.values import Average

if TYPE_CHECKING:
    from tracer.lang.typed import MapDecl, Program
    from tracer.render.sink import Sink
    from tracer.render.symbols import Symbolizer
    from tracer.results.events import Event, Loss
    from tracer.results.values import MapSnapshot, MapStore, MapValue


class TextRenderer:
    """Writes what people read to a stream of bytes. Without a symbolizer addresses stay numbers."""

    def __init__(self, program: Program, symbolizer: Symbolizer | None, out: Sink) -> None:
        self._out = out
        self._write = out.write
        self._values = ValueText(symbolizer)
        self._program = program
        self._formats = compiled_formats(program, self._values)
        self._shapes = [self._values.of(shape) for shape in program.shapes]

    def attached(self, probes: int) -> None:
        """Nothing: that is no result. Whoever runs the trace says it on stderr."""

    def lost(self, loss: Loss) -> None:
        """Nothing: see `render.loss` for what is said on stderr."""

    def detached(self, probe: str, hits: int, seconds: float, after_s: float, maps: Sequence[str]) -> None:
        """Nothing, as for what is lost."""

    def event(self, event: Event, store: MapStore) -> None:
        """Shows one event; `store` is read for print(@x). Clear, zero and exit are the run loop's."""
        if isinstance(event, PrintfEvent):
            self._write(self._formats[event.format](event.args))
        elif isinstance(event, PrintfBatch):
            self._write(b"".join(formatted(event, self._formats)))
        elif isinstance(event, ValueEvent):
            self._write(self._shapes[event.shape](event.value) + b"\n")
        elif isinstance(event, ValueBatch):
            self._write(b"".join([b"%b\n" % text for text in map(self._shapes[event.shape], event.values)]))
        elif isinstance(event, MapEvent):
            self._map(event.snapshot or store.snapshot(event.map), event.top, event.div)
        elif isinstance(event, TimeEvent):
            self._write(format_time(self._program.formats[event.format], time.time_ns()))

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """The maps at the end, in the order of their names; empty ones are left out."""
        for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.decl.name):
            if snapshot.items:
                self._map(snapshot, 0, 0)

    def flush(self) -> None:
        """Hands everything to the stream's owner."""
        self._out.flush()

    def _map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        decl = snapshot.decl
        name = decl.name.encode()
        key_text = self._values.key(decl.key)
        value_text = self._values.of(decl.value)
        for key, value in ordered(snapshot, top):
            shown = b"%b[%b]" % (name, key_text(key)) if decl.key else name
            self._write(b"%b:%b\n" % (shown, _map_value(decl, value, div or 1, value_text)))


def _map_value(decl: MapDecl, value: MapValue, div: int, scalar: Show) -> bytes:
    """What stands behind the colon."""
    if decl.kind in ("hist", "lhist"):
        return b"\n" + text_histogram(decl, rows(decl, cast("dict[int, int]", value), div))
    if isinstance(value, Average) and decl.kind == "stats":
        return b" { .count = %d, .average = %d, .total = %d }" % (value.hits, quotient(value.mean, div), value.total)
    if isinstance(value, Average):
        return b" %d" % quotient(value.mean, div)
    if decl.kind == "scalar" and not isinstance(decl.value, IntType):
        return b" " + scalar(value)
    return b" %d" % quotient(cast(int, value), div)
