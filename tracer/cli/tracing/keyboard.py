"""The terminal of a live table: its size, and keys as they are pressed. It is left as it was."""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from tracer.cli.tracing.status import in_front
from tracer.render.live.renderer import Screen

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from tracer.tracing.loop import Controls

_DISABLED = b"\0"


def screen(controls: Controls, stack: ExitStack) -> Screen | None:
    """The terminal on stdout, and the keys of the one on stdin where it is ours; None where there is none, or one that
    cannot be drawn on. When the `stack` closes it is as it was.
    """
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    shown = sys.stdout.fileno()
    if not in_front(shown):
        return None
    keyboard = _Keys(controls, stack)

    def size() -> tuple[int, int]:
        with suppress(OSError):
            columns, lines = os.get_terminal_size(shown)
            if columns and lines:
                return columns, lines
        return 80, 24

    return Screen(size, keyboard.take, controls.end)


def _set(terminal: int, attributes: list[Any]) -> None:
    """As far as the terminal is still there. In the background by now, we are not stopped for it."""
    import termios

    waiting = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    try:
        termios.tcsetattr(terminal, termios.TCSADRAIN, attributes)
    except (OSError, termios.error):
        pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, waiting)


def _handle(number: signal.Signals, handler: Callable[[int, FrameType | None], object], stack: ExitStack) -> None:
    stack.callback(signal.signal, number, signal.signal(number, handler))


class _Keys:
    """The keyboard, where there is one, which gives each key at once."""

    def __init__(self, controls: Controls, stack: ExitStack) -> None:
        self._descriptor = -1
        self._controls = controls
        if sys.stdin is None or not sys.stdin.isatty():
            return
        import termios

        descriptor = sys.stdin.fileno()
        if not in_front(descriptor):  # in the background to read would stop us
            return
        try:
            before = termios.tcgetattr(descriptor)
        except (OSError, termios.error):
            return
        after = [*before[:6], [*before[6]]]
        after[3] &= ~(termios.ICANON | termios.ECHO)
        after[6][termios.VSUSP] = _DISABLED
        # Stopped, or ended at once, we would leave the terminal as it is now. A program that we start has neither.
        _handle(signal.SIGTSTP, lambda number, frame: None, stack)
        _handle(signal.SIGQUIT, lambda number, frame: controls.end(), stack)
        stack.callback(_set, descriptor, before)
        _set(descriptor, after)
        self._descriptor = descriptor
        controls.wake = (*controls.wake, descriptor)

    def take(self) -> bytes:
        """What was typed since the last time."""
        typed = b""
        while self._descriptor >= 0 and select.select([self._descriptor], [], [], 0)[0]:
            part = b""
            with suppress(OSError):
                part = os.read(self._descriptor, 64)
            if not part:  # nobody is there any more
                self._controls.wake = tuple([file for file in self._controls.wake if file != self._descriptor])
                self._descriptor = -1
            typed += part
        return typed
