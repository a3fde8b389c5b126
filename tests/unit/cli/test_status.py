"""The line of a terminal that tells how a trace goes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import tty
from types import SimpleNamespace
from typing import Any

import pytest

from tracer.cli.tracing.status import StatusLine, status_line


@pytest.mark.parametrize(
    "hits, lost, seconds, ends_s, shown",
    [
        (1, 0, None, None, "attached at 1 place, 1 hit, 0 s, Ctrl-C ends, nothing lost"),
        (1200, 3, 30.2, None, "attached at 1 place, 1200 hits, 30 s left, 3 lost"),
        (-1, 0, 30.2, 20.3, "attached at 1 place, hits unknown, 20 s left, nothing lost"),
    ],
)
def test_it_says_hits_time_and_losses_until_something_else_is_written(
    hits: int, lost: int, seconds: float | None, ends_s: float | None, shown: str
) -> None:
    read, write = os.pipe()
    trace: Any = SimpleNamespace(ending=False, so_far=lambda: (hits, lost))
    line = StatusLine(write, ends_s)
    line.of(trace, seconds)
    line.look()  # nothing is attached yet
    line.attached(1)
    line.look()
    line.look()  # the same is not written twice
    line.erase()
    line.erase()
    line.look()
    line.end()
    trace.ending = True
    line.look()
    os.close(write)
    with os.fdopen(read, "rb") as written:
        assert written.read().decode() == f"\r\x1b[K{shown}\r\x1b[K\r\x1b[K{shown}\r\x1b[K"


def test_a_narrow_terminal_cuts_it() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 20, 0, 0))
    trace: Any = SimpleNamespace(ending=False, so_far=lambda: (7, 0))
    line = StatusLine(slave)
    line.of(trace, 5)
    line.attached(1)
    line.look()
    assert os.read(master, 100) == b"\r\x1b[Kattached at 1 place"
    os.close(master)
    os.close(slave)


def test_a_terminal_that_takes_nothing_is_not_waited_for_and_loses_the_line_later() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    trace: Any = SimpleNamespace(ending=False, so_far=lambda: (7, 0))
    line = StatusLine(slave)
    line.of(trace, 5)
    line.attached(1)
    line.look()
    assert os.read(master, 100).startswith(b"\r\x1b[Kattached at 1 place, 7 hits")
    termios.tcflow(slave, termios.TCOOFF)  # Ctrl-S
    assert not line.erase()
    line.end()
    termios.tcflow(slave, termios.TCOON)
    assert line.erase() and os.read(master, 100) == b"\r\x1b[K"
    os.close(master)
    os.close(slave)


def test_a_trace_in_the_background_of_its_terminal_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    trace: Any = SimpleNamespace(ending=False, so_far=lambda: (7, 0))
    line = StatusLine(write)
    line.of(trace, 5)
    line.attached(1)
    for group, shown in (os.getpgrp() + 1, b""), (os.getpgrp(), b"\r\x1b[Kattached at 1 place, 7 hits, 5 s left"):
        monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor, group=group: group)
        line.look()
        os.set_blocking(read, False)
        try:
            written = os.read(read, 100)
        except BlockingIOError:
            written = b""
        assert written.startswith(shown) and bool(written) is bool(shown)
    os.close(read)
    os.close(write)


def test_there_is_none_where_stderr_is_no_terminal() -> None:
    assert status_line(False) is None
