"""A tracefs instance of one session: the events that it lets triggers see are of some processes alone.

Its `set_event_pid` holds the threads that are looked at, and with the option `event-fork` (Linux 4.12) the kernel adds
each thread and process that one of them starts, before it runs, and takes out those that end (Documentation/trace/
events.rst, ftrace.rst). So it is about processes with all that they start: where one of them forks, nothing keeps the
child out (tried on 6.1: a process that called a function 15 times and its child 100 times gave both).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.errors import TracerError
from tracer.kernel.tracefs import Tracefs, put

if TYPE_CHECKING:
    from tracer.kernel.workers.watcher import Watcher

_SMALL_KB = 4
"""Of the ring that each instance has, for each processor, and that no trigger writes to."""


def knows_instances(tracefs: Tracefs) -> bool:
    """Whether this kernel can look at some processes with all that they start."""
    return all(os.path.exists(f"{tracefs.root}/{name}") for name in ("instances", "options/event-fork"))


def make(tracefs: Tracefs, group: str, pids: Iterable[int], watcher: Watcher) -> Tracefs:
    """Makes the session's instance, about these processes with all threads and all that they start from now on. Raises
    `TracerError`.
    """
    path = tracefs.instance(group).root
    watcher.undo_rmdir(path)
    try:
        os.mkdir(path, 0o700)
        put(f"{path}/buffer_size_kb", f"{_SMALL_KB}\n")
        put(f"{path}/options/event-fork", "1\n")
        for pid in pids:
            _add(path, pid)
    except OSError as error:
        with suppress(OSError):
            os.rmdir(path)
        message = f"no instance of tracefs can be made: {error.strerror}"
        raise TracerError(message) from None
    return Tracefs(path)


def remove(tracefs: Tracefs, group: str) -> bool:
    """Removes a session's instance, which no longer has triggers; whether there is none now."""
    path = tracefs.instance(group).root
    with suppress(OSError):
        os.rmdir(path)
    return not os.path.exists(path)


def _add(path: str, pid: int) -> None:
    """Adds a process: until no thread comes to it that one has started which was not looked at yet."""
    looked_at: set[str] = set()
    while fresh := set(_threads(pid)) - looked_at:
        for thread in fresh:
            put(f"{path}/set_event_pid", f"{thread}\n")
        looked_at |= fresh


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:  # it has ended
        return []
