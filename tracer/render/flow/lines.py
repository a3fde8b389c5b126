"""A flow as lines of JSON, one for each call when it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tracer.render.flow.renderer import FlowRenderer

if TYPE_CHECKING:
    from tracer.render.flow.calls import Ended, Open, Thread
    from tracer.results.events import Loss


class LinesFlow(FlowRenderer):
    """Objects of `type` "call" with the `data` of a call: `time` and `duration` in nanoseconds, `depth` in its flow.
    One that was left has `left` in place of `result`, `duration` and `self`; one under way has `age`. A return whose
    beginning was not seen is of `type` "return".
    """

    escapes_values = False

    def returned(self, thread: Thread, call: Open, ended: Ended, again: bool) -> None:
        """A whole call."""
        took = max(ended.time_ns - call.begun.time_ns, 0)
        more: dict[str, Any] = {} if (shown := self.result(ended)) is None else {"result": _text(shown)}
        self._call(thread, call, {**more, "duration": took, "self": max(took - call.below_ns, 0)})

    def left(self, thread: Thread, call: Open, time_ns: int, why: str) -> None:
        """One whose return was not seen."""
        self._call(thread, call, {"left": why or "no return seen"})

    def unknown(self, thread: Thread, ended: Ended) -> None:
        """It changes no other."""
        self._line("return", {"time": ended.time_ns, _who(thread): thread.shown, "func": ended.function})

    def lost(self, loss: Loss) -> None:
        """See `Consumer`."""
        if loss.events:
            self._line("lost_events", {"events": loss.events})
        super().lost(loss)

    def under_way(self, thread: Thread, call: Open, age_ns: int | None) -> None:
        """One that has not ended."""
        self._call(thread, call, {"left": "its thread has ended"} if age_ns is None else {"age": age_ns})

    def _call(self, thread: Thread, call: Open, more: dict[str, Any]) -> None:
        shown = self.arguments(call.begun)
        arguments = {} if shown is None else {"args": {name: _text(value) for name, value in shown}}
        self._line("call", {
            "time": call.begun.time_ns, "pid": thread.process, _who(thread): thread.shown,
            "comm": _text(thread.comm), "depth": call.depth, "func": call.begun.function, **arguments, **more,
        })  # fmt: skip

    def _line(self, type: str, data: dict[str, Any]) -> None:
        self.write(json.dumps({"type": type, "data": data}).encode() + b"\n")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _who(thread: Thread) -> str:
    return "tid" if thread.goroutine is None else "goroutine"
