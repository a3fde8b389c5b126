"""A flow as text: a line for each call, indented by how deep it is; and for the end of each that had calls inside."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tracer.render.flow.renderer import UNKNOWN, FlowRenderer, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracer.lang.typed import Program
    from tracer.render.flow.calls import Ended, Open, Thread
    from tracer.render.flow.renderer import Function
    from tracer.results.events import Loss

_PATIENCE_NS = 500_000_000
"""After so long a call is told that has not ended yet."""
_LOOK_NS = 100_000_000
_INDENT = b"  "
_MOST_HEADS = 1 << 14
"""Threads of which it is remembered that they have been named."""


class TextFlow(FlowRenderer):
    """Lines, each with its thread. A call is told when it has ended, or when one begins inside it."""

    def __init__(self, functions: Mapping[str, Function], program: Program, *rest: Any) -> None:
        super().__init__(functions, program, *rest)
        self._last: dict[int, Open] = {}
        """The call of each thread that has begun last, until its line is written."""
        self._heads: dict[int, tuple[int, bytes]] = {}
        self._lost = self._looked = self._missed = 0

    def _line(self, thread: Thread, depth: int, text: bytes) -> None:
        self.write(b"%7d  %b%b\n" % (thread.shown, _INDENT * depth, text))

    def began(self, thread: Thread, call: Open) -> None:
        """Waits for what comes next in the thread."""
        self._open(thread)
        if call.depth == 0 and self._heads.get(thread.number) != (thread.process, thread.comm):
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            self._heads[thread.number] = thread.process, thread.comm
            comm = thread.comm if self.text.escape is None else self.text.escape(thread.comm)
            self._line(thread, 0, b"# %b, process %d" % (comm, thread.process))
        self._last[thread.number] = call

    def returned(self, thread: Thread, call: Open, ended: Ended, again: bool) -> None:
        """The line of a call without others inside, or that of its end."""
        took = max(ended.time_ns - call.begun.time_ns, 0)
        shown = self.result(ended)
        end = b"%b%b" % (b"" if shown is None else b"= %b  " % shown, duration(took))
        if again:
            self._open(thread)
            name = self.name(call.begun.function)
            self._line(thread, call.depth, b"} %b  # %b, gone back to" % (end, name))
        elif self._last.get(thread.number) is call:
            del self._last[thread.number]
            self._line(thread, call.depth, b"%b %b" % (self._call(call), end))
        else:
            self._open(thread)
            self_time = duration(max(took - call.below_ns, 0))
            self._line(thread, call.depth, b"} %b, self %b" % (end, self_time))

    def left(self, thread: Thread, call: Open, time_ns: int, why: str) -> None:
        """It has no end."""
        if not why:
            self._look(time_ns)
        how = b"left by %b" % why.encode() if why else b"no return seen"
        if self._last.get(thread.number) is call:
            del self._last[thread.number]
            self._line(thread, call.depth, b"%b %b" % (self._call(call), how))
        else:
            self._open(thread)
            self._line(thread, call.depth, b"} %b" % how)

    def unknown(self, thread: Thread, ended: Ended) -> None:
        """It is told as a comment, where it does not change how deep others are."""
        self._open(thread)
        self._look(ended.time_ns)
        shown = self.result(ended)
        result = b"" if shown is None else b" = %b" % shown
        depth = thread.calls[-1].depth + 1 if thread.calls else 0
        name = self.name(ended.function)
        self._line(thread, depth, b"# return of %b%b, whose beginning was not seen" % (name, result))

    def flush(self) -> None:
        """Tells what has waited for long, and what was lost."""
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if now - self._looked >= _LOOK_NS:
            self._looked = now
            for number, call in [*self._last.items()]:
                thread = self.calls.threads.get(number)
                if thread is not None and now - call.begun.time_ns > _PATIENCE_NS:
                    self._open(thread)
            self._say_lost(self.lost_so_far())
        super().flush()

    def lost(self, loss: Loss) -> None:
        """Says once more what is lost altogether."""
        self._say_lost(loss.events)
        super().lost(loss)

    def _look(self, time_ns: int) -> None:
        """Something is missing: asks whether it was lost, once for a while of the program's."""
        if time_ns - self._missed >= _LOOK_NS:
            self._missed = time_ns
            self._say_lost(self.lost_so_far())

    def _say_lost(self, lost: int) -> None:
        more = lost - self._lost
        if more > 0:
            self._lost = lost
            records = b"1 record was" if more == 1 else b"%d records were" % more
            self.write(
                b"# %b lost before this line: calls are missing, and what was inside one stands too far out\n" % records
            )

    def under_way(self, thread: Thread, call: Open, age_ns: int | None) -> None:
        """Its end is the trace's, or its thread's."""
        self._open(thread)
        how = b"under way for %b" % duration(age_ns) if age_ns is not None else b"left: its thread has ended"
        self._line(thread, call.depth, b"} %b" % how)

    def _open(self, thread: Thread) -> None:
        """The line of a call that waits, as one whose end comes later."""
        call = self._last.pop(thread.number, None)
        if call is not None:
            self._line(thread, call.depth, b"%b {" % self._call(call))

    def _call(self, call: Open) -> bytes:
        shown = self.arguments(call.begun)
        inside = UNKNOWN if shown is None else b", ".join([b"%b=%b" % (name.encode(), value) for name, value in shown])
        return b"%b(%b)" % (self.name(call.begun.function), inside)
