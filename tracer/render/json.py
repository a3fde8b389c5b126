"""Results as JSON, one object a line, in the format of bpftrace's `-f json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from tracer.lang.aggregations.aggregation import Series
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.fixed_width import quotient
from tracer.lang.types import IntType, SyscallType
from tracer.render.renderer import Renderer
from tracer.render.value_text import json_key, json_number, json_string, json_value

if TYPE_CHECKING:
    from tracer.lang.typed import MapDecl, Output, Program
    from tracer.lang.types import Type
    from tracer.render.renderer import Effects, Sink
    from tracer.render.value_text import Show, Symbolizer, ValueText
    from tracer.results.events import Loss
    from tracer.results.values import Key, MapSnapshot, MapValue

_UNREADABLE = (b"Bad address", b"probe_read_user", -14)
_BY_ZERO = b"Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result."
_FULL = (b"Argument list too long", b"map_update_elem", -7)
_NUL = rb"\u0000"


class JsonRenderer(Renderer):
    """Lines of JSON. Losses other than of events and returns are said on stderr alone."""

    def __init__(
        self, program: Program, symbolizer: Symbolizer | None, out: Sink, quiet: bool = False,
        effects: Effects | None = None,
    ) -> None:  # fmt: skip
        super().__init__(program, symbolizer, out, quiet, effects)
        self._warned = False
        if getattr(out, "escapes", False):
            from tracer.render.terminal.escape import escaped_in_json

            self.write = lambda data: out.write(escaped_in_json(data))

    escapes_values = False

    def texts_of(self, format: int) -> ValueText:
        output = self._program.outputs.get(format)
        on_stderr = output is not None and output.kind == "debugf"
        return super().texts_of(format) if on_stderr else self.text

    def show(self, type: Type) -> Show:
        return json_value(type, self.text)

    def printf(self, texts: Iterable[bytes]) -> None:
        """Makes JSON strings of them all at once, with a NUL between two; where one holds a NUL itself, or what a NUL
        becomes in JSON, it is done one by one.
        """
        listed = list(texts)
        quoted = json_string(b"\0".join(listed))
        if quoted.count(_NUL) == len(listed) - 1:
            self.write(_line(b"printf", quoted.replace(_NUL, b'"}\n{"type": "printf", "data": "')))
        else:
            self.write(b"".join([_line(b"printf", json_string(text)) for text in listed]))

    def print_values(self, shown: Iterable[bytes]) -> None:
        """A line for each."""
        self.write(b"".join([_line(b"value", data) for data in shown]))

    def print_time(self, text: bytes) -> None:
        self.write(_line(b"time", json_string(text)))

    def message(self, output: Output, text: bytes) -> None:
        """A line with its place; what helps to find a fault stays on stderr."""
        if output.kind == "debugf":
            super().message(output, text)
            return
        name, line, column = self.place(output.span)
        file = json_string(name.encode("utf-8", "surrogateescape"))
        told = output.kind.encode(), json_string(text), file, line, column
        self.write(b'{"type": "%b", "msg": %b, "filename": %b, "line": %d, "col": %d}\n' % told)

    def print_bytes(self, output: Output, data: bytes) -> None:
        if data or output.kind != "cat":
            kind = "syscall" if output.kind == "system" else output.kind
            self.write(_line(kind.encode(), json_string(data)))

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        """One line for the map; keys are strings."""
        self._print_entries(snapshot, self.ordered(snapshot, top), div)

    def closing_map(self, snapshot: MapSnapshot) -> None:
        """An empty map of averages is `{}`, as in bpftrace; others that are empty are left out."""
        self._print_entries(snapshot, self.ordered(snapshot) if snapshot.items else [], 0)

    def _print_entries(self, snapshot: MapSnapshot, entries: list[tuple[Key, MapValue]], div: int) -> None:
        decl = snapshot.decl
        type = b"map" if decl.kind == "scalar" else AGGREGATIONS[decl.kind].json
        if not entries and type != b"stats":
            return
        scalar, key_text = self.show(decl.value), json_key(decl.key, self.text)
        if decl.key or not entries:
            keys = [key_text(key) for key, _ in entries]
            if len(set(keys)) < len(keys):
                self._warn_of_keys(decl.name)
            values = [_map_value(decl, value, div or 1, scalar) for _, value in entries]
            data = b"{%b}" % b", ".join([b"%b: %b" % entry for entry in zip(keys, values, strict=True)])
        else:
            data = _map_value(decl, entries[0][1], div or 1, scalar)
        name = json_string(decl.name.encode())
        self.write(_line(type, b"{%b: %b}" % (name, data)))

    def _warn_of_keys(self, name: str) -> None:
        """Says once that two keys are written alike, as they are in bpftrace."""
        if self.warns and not self._warned:
            self._warned = True
            what = f"two keys of {name} are one text in JSON, where commas stand between the parts of a key and in them"
            self._effects.say(f"tracer: warning: {what}; -f text shows both\n".encode())

    def attached(self, probes: int) -> None:
        if not self.quiet:
            self._count(b"attached_probes", b"probes", probes)

    def lost(self, loss: Loss) -> None:
        """`lost_events` and `lost_returns`; null for a number that is not known. `runtime_error`, and `helper_error`
        where it is wanted, as in bpftrace, but once for all hits.
        """
        if loss.events + loss.dropped:
            self._count(b"lost_events", b"events", loss.events + loss.dropped)
        if loss.returns:
            self._count(b"lost_returns", b"returns", loss.returns)
        if loss.divisions:
            self.write(b'{"type": "runtime_error", "msg": "%b", "count": %d}\n' % (_BY_ZERO, loss.divisions))
        if self.tells_failures:
            for count, (message, helper, code) in ((loss.unreadable, _UNREADABLE), (loss.keys, _FULL)):
                if count:
                    told = b'"msg": "%b", "helper": "%b", "retcode": %d, "count": %d' % (message, helper, code, count)
                    self.write(b'{"type": "helper_error", %b}\n' % told)

    def silent(self, probe: str, reason: str) -> None:
        told = (json_string(text.encode(errors="surrogateescape")) for text in (probe, reason))
        self.write(_line(b"never_hit", b'{"probe": %b, "reason": %b}' % tuple(told)))

    def detached(self, probe: str, hits: int, seconds: float, after_s: float, maps: Sequence[str]) -> None:
        data = b'{"probe": %b, "hits": %d, "seconds": %.3f, "after": %.3f, "incomplete": [%b]}' % (
            json_string(probe.encode(errors="surrogateescape")), hits, seconds, after_s,
            b", ".join(json_string(name.encode()) for name in maps),
        )  # fmt: skip
        self.write(_line(b"detached", data))

    def _count(self, type: bytes, name: bytes, number: int) -> None:
        shown = b"%d" % number if number >= 0 else b"null"
        self.write(b'{"type": "%b", "count": %b, "data": {"%b": %b}}\n' % (type, shown, name, shown))


def _line(type: bytes, data: bytes) -> bytes:
    return b'{"type": "%b", "data": %b}\n' % (type, data)


def _map_value(decl: MapDecl, value: MapValue, div: int, scalar: Show) -> bytes:
    if decl.kind == "scalar":
        counted = isinstance(decl.value, IntType) and not isinstance(decl.value, SyscallType)
        return json_number(quotient(cast(int, value), div)) if counted else scalar(value)
    shown = AGGREGATIONS[decl.kind].parts(decl, value, div)
    if isinstance(shown, list):
        from tracer.render.histogram import json_histogram

        return json_histogram(shown)
    if isinstance(shown, Series):
        from tracer.render.series import json_series

        return json_series(shown)
    if isinstance(shown, dict):
        members = (b'"%b": %b' % (name.encode(), json_number(number)) for name, number in shown.items())
        return b"{%b}" % b", ".join(members)
    return json_number(shown)
