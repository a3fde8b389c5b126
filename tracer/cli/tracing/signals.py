"""Signals while a trace runs: a handler sets a flag and raises nothing, so that the end is always the orderly one."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any

from tracer.errors import Heard

if TYPE_CHECKING:
    from tracer.plan.model import Plan
    from tracer.tracing.loop import Controls

_AT_ONCE_S = 0.5
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Signals of the user: from `with` to its end SIGINT, SIGTERM and SIGHUP ask for the end, SIGUSR1 for the maps.

    A second one, half a second later or more, or one that comes when the probes are gone already, asks to hurry: what
    has not been shown yet is left out. (timeout(1) and a terminal under sudo can send one signal twice at once.)

    The bell of the controls rings at each signal (signal.set_wakeup_fd), so a wait that began just before ends at once.
    With `last`, nothing but the end of this process follows: a signal that asks for it then is ignored,
    so that it cannot turn a finished trace into a death by signal.
    """

    def __init__(self, controls: Controls, last: bool = False) -> None:
        self._controls = controls
        self._last = last
        self._previous: dict[int, Any] = {}
        self._previous_wakeup = -1
        self._asked = -math.inf
        self._heard = Heard(None, controls.asked)

    def __enter__(self) -> Signals:
        self._previous_wakeup = signal.set_wakeup_fd(self._controls.rope, warn_on_full_buffer=False)
        for number in ENDING:
            # `nohup` ignores SIGHUP: then so do we.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._take(number, self._end)
        self._take(signal.SIGUSR1, self._print)
        self._heard.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, signal.SIG_IGN if self._last else previous)
        signal.set_wakeup_fd(self._previous_wakeup)
        self._heard.__exit__()

    def _take(self, number: signal.Signals, handler: Callable[[int, FrameType | None], None]) -> None:
        self._previous[number] = signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        controls, now = self._controls, time.monotonic()
        if (controls.stop or controls.detached) and now - self._asked > _AT_ONCE_S:
            controls.hurry = True
            if controls.leave:
                os._exit(1)  # the process that removes probes goes on alone
        if not controls.stop:
            controls.stop = True
            self._asked = now

    def _print(self, number: int, frame: FrameType | None) -> None:
        self._controls.print_maps = True


def looked_after(plan: Plan) -> AbstractContextManager[object]:
    """A context in which it is said who holds tracer up in the kernel, where no signal reaches it."""
    if not plan.probes:
        return nullcontext()
    from tracer.tracing.locked import Locked

    def say(line: str) -> None:
        os.write(2, f"tracer: {line}\n".encode())

    return Locked(say)
