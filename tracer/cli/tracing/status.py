"""One line on a terminal while a trace runs: what is attached, hits so far, seconds left, losses. It goes away."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.errors import counted
from tracer.host.polling import ready

if TYPE_CHECKING:
    from tracer.tracing.trace import Trace

_EVERY_S = 0.5
_SHARE = 50
"""The part of the time that is spent on counting for the line is one in so many at most."""
_ERASE = b"\r\x1b[K"


def status_line(unwanted: bool, ends_s: float | None = None) -> StatusLine | None:
    """The line; None where it is `unwanted`, or stderr is no terminal, or one that cannot erase, or results go into a
    pipe, whose reader may write to the same terminal. `ends_s`: the program ends its trace after so many seconds.
    """
    if unwanted or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    if sys.stdout is not None:
        mode = os.fstat(sys.stdout.fileno()).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            return None
    return StatusLine(sys.stderr.fileno(), ends_s)


def in_front(terminal: int) -> bool | None:
    """Whether we are in the foreground there; None where it is not the terminal that we belong to."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return None


class StatusLine:
    """The line on a terminal. Whoever writes there calls `erase` before."""

    def __init__(self, descriptor: int, ends_s: float | None = None) -> None:
        self._descriptor = descriptor
        self._trace: Trace | None = None
        self._shown = self._latest = b""
        self._next = self._begun = 0.0
        self._places = -1
        self._seconds = ends_s

    def of(self, trace: Trace, seconds: float | None) -> None:
        """The trace to tell of, which is ended after so many seconds, or None."""
        self._trace = trace
        self._seconds = min((limit for limit in (seconds, self._seconds) if limit is not None), default=None)

    def attached(self, places: int) -> None:
        """Notes that there are probes at so many places."""
        self._places, self._begun, self._next = places, time.monotonic(), 0.0

    def look(self) -> None:
        """The trace is about to wait: shows the line, or shows it anew. Not while it runs in the background of its
        terminal.
        """
        if self._trace is None or self._places < 0 or self._trace.ending or in_front(self._descriptor) is False:
            return
        now = time.monotonic()
        if now >= self._next:
            self._latest = self._text(now)
            end = time.monotonic()
            self._next = end + max(_EVERY_S, _SHARE * (end - now))
        if self._latest != self._shown and self._write(_ERASE + self._latest):
            self._shown = self._latest

    def erase(self) -> bool:
        """Takes the line away, until the next look; False where the terminal takes nothing now (Ctrl-S)."""
        if self._shown and self._write(_ERASE):
            self._shown = b""
        return not self._shown

    def end(self) -> None:
        """Takes it away for good."""
        self.erase()
        self._trace = None

    def _text(self, now: float) -> bytes:
        assert self._trace is not None
        hits, lost = self._trace.so_far()
        passed = now - self._begun
        parts = [f"attached at {counted(self._places, 'place')}", counted(hits, "hit") if hits >= 0 else "hits unknown"]
        if self._seconds is None:
            parts.append(f"{passed:.0f} s, Ctrl-C ends")
        else:
            parts.append(f"{max(self._seconds - passed, 0):.0f} s left")
        parts.append(f"{lost} lost" if lost else "nothing lost")
        try:
            width = os.get_terminal_size(self._descriptor).columns or 80
        except OSError:
            width = 80
        return ", ".join(parts)[: max(width - 1, 1)].encode()

    def _write(self, data: bytes) -> bool:
        """Whether the terminal took it, or is gone. Where it would have to be waited for, it is not tried."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        with suppress(OSError):
            if not ready(poll, 0):
                return False
            os.write(self._descriptor, data)
        return True
