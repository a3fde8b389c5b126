"""Results as JSON, one object a line, in the format of bpftrace's `-f json`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO, cast

from tracer.lang.types import IntType
from tracer.render.clock import format_time
from tracer.render.formats import compiled_formats
from tracer.render.histogram import json_histogram, rows
from tracer.render.values import Show, ValueJson, ValueText, json_number, json_string
from tracer.results.events import MapEvent, PrintfEvent, TimeEvent, ValueEvent
from tracer.results.integers import quotient
from tracer.results.order import ordered
from tracer.results.values import Average

if TYPE_CHECKING:
    from tracer.lang.typed import MapDecl, Program
    from tracer.render.symbols import Symbolizer
    from tracer.results.events import Event, Loss
    from tracer.results.values import MapSnapshot, MapStore, MapValue

_LINE_TYPES = {"hist": b"hist", "lhist": b"hist", "avg": b"stats", "stats": b"stats"}


class JsonRenderer:
    """Writes lines of JSON to a binary stream. Without a symbolizer addresses stay numbers."""

    def __init__(self, program: Program, symbolizer: Symbolizer | None, out: BinaryIO) -> None:
        self._out = out
        self._write = out.write
        text = ValueText(symbolizer)
        self._values = ValueJson(text)
        self._program = program
        self._formats = compiled_formats(program, text)
        self._shapes = [self._values.of(shape) for shape in program.shapes]

    def attached(self, probes: int) -> None:
        """How many probes were attached."""
        self._write(b'{"type": "attached_probes", "count": %d, "data": {"probes": %d}}\n' % (probes, probes))

    def lost(self, loss: Loss) -> None:
        """How many events were lost, if any. Other losses are said on stderr alone, see `render.loss`."""
        if loss.events:
            self._write(b'{"type": "lost_events", "count": %d, "data": {"events": %d}}\n' % (loss.events, loss.events))

    def event(self, event: Event, store: MapStore) -> None:
        """Shows one event; `store` is read for print(@x). Clear, zero and exit are the run loop's."""
        if isinstance(event, PrintfEvent):
            text = self._formats[event.format](event.args)
            self._write(b'{"type": "printf", "data": %b}\n' % json_string(text))
        elif isinstance(event, ValueEvent):
            shown = self._shapes[event.shape](event.value)
            self._write(b'{"type": "value", "data": %b}\n' % shown)
        elif isinstance(event, MapEvent):
            self._map(event.snapshot or store.snapshot(event.map), event.top, event.div)
        elif isinstance(event, TimeEvent):
            now = format_time(self._program.formats[event.format], time.time_ns())
            self._write(b'{"type": "time", "data": %b}\n' % json_string(now))

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """The maps at the end, in the order of their names; empty ones are left out."""
        for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.decl.name):
            self._map(snapshot, 0, 0)

    def flush(self) -> None:
        """Hands everything to the stream's owner."""
        self._out.flush()

    def _map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        decl = snapshot.decl
        entries = ordered(snapshot, top)
        if not entries:
            return
        scalar = self._values.of(decl.value)
        key_text = self._values.key(decl.key)
        if decl.key:
            members = [b"%b: %b" % (key_text(k), _map_value(decl, v, div or 1, scalar)) for k, v in entries]
            data = b"{%b}" % b", ".join(members)
        else:
            data = _map_value(decl, entries[0][1], div or 1, scalar)
        kind = _LINE_TYPES.get(decl.kind, b"map")
        self._write(b'{"type": "%b", "data": {%b: %b}}\n' % (kind, json_string(decl.name.encode()), data))


def _map_value(decl: MapDecl, value: MapValue, div: int, scalar: Show) -> bytes:
    if decl.kind in ("hist", "lhist"):
        return json_histogram(rows(decl, cast("dict[int, int]", value), div))
    if isinstance(value, Average) and decl.kind == "stats":
        parts = (value.hits, quotient(value.mean, div), value.total)
        return b'{"count": %b, "average": %b, "total": %b}' % tuple(json_number(part) for part in parts)
    if isinstance(value, Average):
        return json_number(quotient(value.mean, div))
    if decl.kind == "scalar" and not isinstance(decl.value, IntType):
        return scalar(value)
    return json_number(quotient(cast(int, value), div))
