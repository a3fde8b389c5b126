"""Waiting on descriptors by poll(2): select(2)'s sets end at descriptor 1023, and a trace can hold more."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from contextlib import suppress

_AGAIN, _PAUSE_S = 3, 0.002


def readable(descriptors: Iterable[int], timeout_s: float) -> list[int]:
    """The descriptors that can be read, have hung up or failed, after at most `timeout_s`; [] where the time is up.
    Raises `OSError`.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return ready(poll, timeout_s)


def ready(poll: select.poll, timeout_s: float) -> list[int]:
    """The descriptors of a poll object on which what it awaits has come, after at most `timeout_s`.

    poll(2) wants memory: where there is none it is asked a few times more. Raises `OSError`.
    """
    for _ in range(_AGAIN):
        with suppress(OSError):
            return [descriptor for descriptor, _ in poll.poll(max(timeout_s, 0) * 1000)]
        time.sleep(_PAUSE_S)
    try:
        return [descriptor for descriptor, _ in poll.poll(max(timeout_s, 0) * 1000)]
    except OSError as error:
        error.call = "poll"  # type: ignore[attr-defined]
        raise


def reaped(pid: int, patience_s: float) -> int | None:
    """The status of a child that has ended, as of waitpid(2), after at most `patience_s`; None where it goes on. Raises
    `ChildProcessError` where it was reaped: by the kernel, where SIGCHLD is ignored.
    """
    until = time.monotonic() + patience_s
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > until:
            return None
        time.sleep(_PAUSE_S)
