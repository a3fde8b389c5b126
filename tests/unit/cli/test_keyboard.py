"""The terminal of a live table is left as it was, whatever comes between."""

from __future__ import annotations

import os
import pty
import sys
import termios

import pytest

CHILD = """
import os, signal, sys, termios
from contextlib import ExitStack
from types import SimpleNamespace
from tracer.cli.tracing.keyboard import screen
os.environ["TERM"] = "xterm"
signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell's background job ignores it
before, ended = termios.tcgetattr(0), []
controls = SimpleNamespace(wake=(), end=lambda: ended.append(1))
with ExitStack() as stack:
    assert screen(controls, stack) is not None and termios.tcgetattr(0) != before
    os.kill(os.getpid(), signal.{})
    {}
assert termios.tcgetattr(0) == before and signal.getsignal(signal.SIGQUIT) == signal.SIG_DFL
os.write(1, b"as it was, %d asked for the end" % len(ended))
"""
BACKGROUND = """
    if (other := os.fork()) == 0:
        os.setpgid(0, 0)
        signal.pause()
    while os.getpgid(other) != other:
        pass
    os.tcsetpgrp(0, other)
os.kill(other, signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("signal", "then", "asked"), [("SIGQUIT", "", 1), ("SIGTSTP", "", 0), ("SIGCONT", BACKGROUND, 0)]
)
def test_the_terminal_is_as_it_was_behind_a_live_table(signal: str, then: str, asked: int) -> None:
    """Where a key or a signal would end or stop us, and where we are in the background by then."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", CHILD.format(signal, then)])
    shown = b""
    try:
        while b"asked" not in shown and b"Error" not in shown:
            shown += os.read(terminal, 4096)
    except OSError:
        pass
    os.close(terminal)
    os.waitpid(process, 0)
    assert f"as it was, {asked} asked for the end" in shown.decode()


def test_a_terminal_that_has_gone_is_no_error() -> None:
    from tracer.cli.tracing.keyboard import _set

    terminal, ours = os.openpty()
    before = termios.tcgetattr(ours)
    os.close(terminal)
    with pytest.raises(termios.error):
        termios.tcsetattr(ours, termios.TCSADRAIN, before)
    _set(ours, before)
    os.close(ours)
