"""Tells who holds up a thread of tracer in the kernel, where it cannot say so itself."""

from __future__ import annotations

import signal
from _thread import allocate_lock, get_native_id, start_new_thread
from collections.abc import Callable
from contextlib import suppress

_EVERY_S = 1.0
_OF_PROBES = (b"trace_", b"uprobe", b"dyn_event")
"""Parts of the names of the kernel's functions that take that lock."""


class Locked:
    """A context manager: as long as it lasts, `say` is called once, in another thread, with a line on who holds up the
    thread that entered it in the kernel, where no signal reaches it.

    Who defines, opens or closes an event of a user probe takes a lock, and another program may hold it for as long as a
    thread is in a probe (see `kernel.workers.waiting`).
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._over = allocate_lock()

    def __enter__(self) -> Locked:
        self._over.acquire()
        with suppress(RuntimeError, MemoryError):  # "can't start new thread": then it stays unsaid
            start_new_thread(self._look, (get_native_id(),))
        return self

    def __exit__(self, *error: object) -> None:
        self._over.release()

    def _look(self, thread: int) -> None:
        with suppress(OSError, MemoryError, ImportError):  # it stays unsaid
            self._watch(thread)

    def _watch(self, thread: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        before: tuple[bytes, ...] | None = None
        while not self._over.acquire(timeout=_EVERY_S):
            now = _sleep(thread)
            if now is not None and now == before:
                from tracer.kernel.workers.waiting import holder

                if (held := holder()) is not None:
                    self._say(f"another trace holds a lock of the kernel until every probe that runs has ended: {held}")
                    return
            before = now


def _sleep(thread: int) -> tuple[bytes, ...] | None:
    """A value that tells one sleep of a thread from another, where it waits for what concerns probes and nothing can
    interrupt it; else None.
    """
    try:
        with open(f"/proc/self/task/{thread}/status", "rb") as file:
            lines = file.read().splitlines()
        if not any(line.startswith(b"State:\tD") for line in lines):
            return None
        with open(f"/proc/self/task/{thread}/stack", "rb") as file:
            stack = file.read()
    except OSError:
        return None
    if not any(word in stack for word in _OF_PROBES):
        return None
    return tuple(line for line in lines if b"ctxt_switches:" in line)
