"""Signals while a trace runs: a handler sets a flag and raises nothing, so that the end is always the orderly one."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracer.host.leases import Leases
    from tracer.target.child import Child
    from tracer.tracing.loop import Controls

_AT_ONCE_S = 0.5
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """From `with` to its end SIGINT, SIGTERM and SIGHUP ask for the end, SIGUSR1 for the maps.

    A second one, half a second later or more, or one that comes when the probes are gone already, asks to hurry: what
    has not been shown yet is left out. (timeout(1) and a terminal under sudo can send one signal twice at once.)

    A pipe in `controls.wake` becomes readable at each signal (signal.set_wakeup_fd), so a wait that began just before
    ends at once. With `last`, nothing but the end of this process follows: a signal that asks for it then is ignored,
    so that it cannot turn a finished trace into a death by signal.
    """

    def __init__(self, controls: Controls, last: bool = False) -> None:
        self._controls = controls
        self._last = last
        self._previous: dict[int, Any] = {}
        self._read = self._write = -1
        self._previous_wakeup = -1
        self._asked = -math.inf
        self.leave = False
        """Whether that one ends tracer at once, and the process that removes probes goes on alone."""

    def __enter__(self) -> Signals:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in ENDING:
            # `nohup` ignores SIGHUP: then so do we.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._take(number, self._end)
        self._take(signal.SIGUSR1, self._print)
        if os.environ.get("DEBUGINFOD_URLS"):
            from tracer.resolve.elf import debuginfod

            debuginfod.asked_to_end = lambda: (self._controls.stop, self._controls.hurry)
        self._controls.wake = (*self._controls.wake, self._read)
        self._controls.signals = self._read
        self._controls.acknowledge = self._drain
        return self

    def __exit__(self, *error: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, signal.SIG_IGN if self._last else previous)
        signal.set_wakeup_fd(self._previous_wakeup)
        self._controls.wake = tuple(descriptor for descriptor in self._controls.wake if descriptor != self._read)
        self._controls.signals = -1
        self._controls.acknowledge = lambda: None
        os.close(self._read)
        os.close(self._write)

    def _take(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        self._previous[number] = signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        controls, now = self._controls, time.monotonic()
        if (controls.stop or controls.detached) and now - self._asked > _AT_ONCE_S:
            controls.hurry = True
            if self.leave:
                os._exit(1)
        if not controls.stop:
            controls.stop = True
            self._asked = now

    def _print(self, number: int, frame: FrameType | None) -> None:
        self._controls.print_maps = True

    def _drain(self) -> None:
        try:
            while os.read(self._read, 4096):
                pass
        except BlockingIOError:
            pass


def tell_wait(
    say: Callable[[str], None], controls: Controls, signals: Signals, child: Child | None, leases: Leases | None,
    line: str,
) -> None:  # fmt: skip
    """Says, with -q too, what the kernel waits for. At the end that can be the command, which is then ended at once, as
    it would be later; and nobody has to wait for it.
    """
    signals.leave = controls.detached
    say(f"{line}; Ctrl-C leaves that to a process in the background" if controls.detached else line)
    if controls.detached and child is not None and (leases is None or leases.wanted is None):
        child.end()
