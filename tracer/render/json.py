"""Results as JSON, one object a line, in the format of bpftrace's `-f json`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from tracer.lang.types import IntType
from tracer.render.clock import format_time
from tracer.render.formats import compiled_formats, formatted
from tracer.render.histogram import json_histogram, rows
from tracer.render.values import Show, ValueJson, ValueText, json_number, json_string
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

_NUL = rb"\u0000"
_VALUE = b'{"type": "value", "data": %b}\n'
_LINE_TYPES = {"hist": b"hist", "lhist": b"hist", "avg": b"stats", "stats": b"stats"}


class JsonRenderer:
    """Writes lines of JSON to a stream of bytes. Without a symbolizer addresses stay numbers."""

    def __init__(self, program: Program, symbolizer: Symbolizer | None, out: Sink, quiet: bool = False) -> None:
        self._out = out
        self._quiet = quiet
        self._write = out.write
        text = ValueText(symbolizer)
        self._values = ValueJson(text)
        self._program = program
        self._formats = compiled_formats(program, text)
        self._shapes = [self._values.of(shape) for shape in program.shapes]

    def attached(self, probes: int) -> None:
        """How many probes were attached; `quiet` leaves it out."""
        if not self._quiet:
            self._write(b'{"type": "attached_probes", "count": %d, "data": {"probes": %d}}\n' % (probes, probes))

    def lost(self, loss: Loss) -> None:
        """How many events and returns were lost, if any. Other losses are said on stderr alone, see `render.loss`."""
        lost = loss.events + loss.dropped
        if lost:
            self._write(b'{"type": "lost_events", "count": %d, "data": {"events": %d}}\n' % (lost, lost))
        if loss.returns:
            count = b"%d" % loss.returns if loss.returns > 0 else b"null"
            self._write(b'{"type": "lost_returns", "count": %b, "data": {"returns": %b}}\n' % (count, count))

    def detached(self, probe: str, hits: int, seconds: float, after_s: float, maps: Sequence[str]) -> None:
        """That an attach point was detached, which had `hits` within `seconds` and was attached for `after_s`; `maps`
        are incomplete from here on.
        """
        data = b'{"probe": %b, "hits": %d, "seconds": %.3f, "after": %.3f, "incomplete": [%b]}' % (
            json_string(probe.encode(errors="surrogateescape")), hits, seconds, after_s,
            b", ".join(json_string(name.encode()) for name in maps),
        )  # fmt: skip
        self._write(b'{"type": "detached", "data": %b}\n' % data)

    def event(self, event: Event, store: MapStore) -> None:
        """Shows one event; `store` is read for print(@x). Clear, zero and exit are the run loop's."""
        if isinstance(event, PrintfEvent):
            text = self._formats[event.format](event.args)
            self._write(_line(text))
        elif isinstance(event, PrintfBatch):
            self._write(_lines(list(formatted(event, self._formats))))
        elif isinstance(event, ValueEvent):
            self._write(_VALUE % self._shapes[event.shape](event.value))
        elif isinstance(event, ValueBatch):
            self._write(b"".join([_VALUE % shown for shown in map(self._shapes[event.shape], event.values)]))
        elif isinstance(event, MapEvent):
            self._map(event.snapshot or store.snapshot(event.map), event.top, event.div)
        elif isinstance(event, TimeEvent):
            now = format_time(self._program.formats[event.format], time.time_ns())
            self._write(b'{"type": "time", "data": %b}\n' % json_string(now))

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


def _line(text: bytes) -> bytes:
    return b'{"type": "printf", "data": %b}\n' % json_string(text)


def _lines(texts: list[bytes]) -> bytes:
    """The lines of many printfs. Their texts become JSON strings all at once, with a NUL between two; where one holds
    a NUL itself, or what a NUL becomes in JSON, it is done one by one.
    """
    quoted = json_string(b"\0".join(texts))
    if quoted.count(_NUL) != len(texts) - 1:
        return b"".join(map(_line, texts))
    return b'{"type": "printf", "data": %b}\n' % quoted.replace(_NUL, b'"}\n{"type": "printf", "data": "')


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
