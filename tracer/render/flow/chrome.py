"""A flow as a document of Chrome's trace events, which Perfetto, chrome://tracing and Speedscope open.

Each call is a complete event ("X"), in microseconds, with its arguments and its result. One that is under way at the
end is a beginning ("B") without an end, as the format has it. Source: Trace Event Format (Google).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tracer.render.flow.renderer import FlowRenderer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracer.lang.typed import Program
    from tracer.render.flow.calls import Ended, Open, Thread
    from tracer.render.flow.renderer import Function
    from tracer.results.events import Loss

_HEAD = b'{"displayTimeUnit":"ns","traceEvents":[\n'


class ChromeFlow(FlowRenderer):
    """One JSON object, written as calls end."""

    escapes_values = False

    def __init__(self, functions: Mapping[str, Function], program: Program, *rest: Any) -> None:
        super().__init__(functions, program, *rest)
        self._begun = False
        self._named: set[tuple[str, int, int]] = set()
        self._lost = 0

    def began(self, thread: Thread, call: Open) -> None:
        """Names the thread where its flow begins."""
        if call.depth == 0:
            names = (("process_name", thread.process), ("thread_name", thread.shown))
            for name, number in names:
                if (name, thread.process, number) not in self._named:
                    self._named.add((name, thread.process, number))
                    shown = {"name": thread.comm.decode(errors="replace")}
                    if thread.goroutine is not None and name == "thread_name":
                        shown = {"name": f"goroutine {thread.goroutine}"}
                    self._write({"ph": "M", "name": name, "pid": thread.process, "tid": thread.shown, "args": shown})

    def returned(self, thread: Thread, call: Open, ended: Ended, again: bool) -> None:
        """A whole call."""
        shown = self.result(ended)
        result = {} if shown is None else {"result": shown.decode(errors="replace")}
        self._call(thread, call, ended.time_ns, result)

    def left(self, thread: Thread, call: Open, time_ns: int, why: str) -> None:
        """One whose return was not seen ends where that shows."""
        self._call(thread, call, time_ns, {"ended": f"left by {why}" if why else "no return seen"})

    def unknown(self, thread: Thread, ended: Ended) -> None:
        """A mark where it was seen."""
        self._write({
            "name": f"return of {ended.function}, whose beginning was not seen", "ph": "i", "s": "t",
            "ts": ended.time_ns / 1000, "pid": thread.process, "tid": thread.shown,
        })  # fmt: skip

    def lost(self, loss: Loss) -> None:
        """It stands in the document too."""
        self._lost = loss.events
        super().lost(loss)

    def under_way(self, thread: Thread, call: Open, age_ns: int | None) -> None:
        """A beginning without an end."""
        more = {"ended": "its thread has ended"} if age_ns is None else {}
        self._write({**self._event(thread, call, more), "ph": "B"})

    def finish(self) -> None:
        """The end of the document."""
        super().finish()
        if not self._begun:
            self.write(_HEAD)
        lost = b',"otherData":{"lost":"%d records"}' % self._lost if self._lost else b""
        self.write(b"\n]%b}\n" % lost)

    def _call(self, thread: Thread, call: Open, end_ns: int, more: dict[str, str]) -> None:
        took = max(end_ns - call.begun.time_ns, 0)
        self._write({**self._event(thread, call, more), "ph": "X", "dur": took / 1000})

    def _event(self, thread: Thread, call: Open, more: dict[str, str]) -> dict[str, Any]:
        shown = self.arguments(call.begun) or ()
        arguments = {name or f"arg{index}": value.decode(errors="replace") for index, (name, value) in enumerate(shown)}
        return {
            "name": self.name(call.begun.function).decode(errors="replace"),
            "cat": "call", "ts": call.begun.time_ns / 1000, "pid": thread.process, "tid": thread.shown,
            "args": {**arguments, **more},
        }  # fmt: skip

    def _write(self, event: dict[str, Any]) -> None:
        self.write((b",\n" if self._begun else _HEAD) + json.dumps(event).encode())
        self._begun = True
