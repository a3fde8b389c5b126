"""The hit of a clause that no probe hits: BEGIN, END and interval read the tracer's own pid, name and clock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from tracer.interp.clock import clock_ns
from tracer.interp.fetch import fetches
from tracer.interp.runtime import Hit
from tracer.lang.typed import Builtin, Clause, Expr

__all__ = ["clock_ns", "host_values"]


def host_values(clause: Clause, child_pid: int = 0) -> Hit:
    """A value for each of `fetches(clause)`; what only a probe can deliver is None.

    `child_pid` is `cpid`: the process that `-c` started.
    """
    return tuple(_value(leaf, child_pid) for leaf in fetches(clause))


def _value(leaf: Expr, child_pid: int) -> object:
    if not isinstance(leaf, Builtin):
        return None
    if leaf.name == "cpid":
        return child_pid
    read = _READERS.get(leaf.name)
    return read() if read is not None else None


def _comm() -> bytes:
    with open("/proc/self/comm", "rb") as file:
        return file.read().rstrip(b"\n")


def _cpu() -> int:
    import ctypes

    return int(ctypes.CDLL(None).sched_getcpu())


_READERS: dict[str, Callable[[], object]] = {
    "pid": os.getpid,
    "tid": threading.get_native_id,
    "uid": os.getuid,
    "gid": os.getgid,
    "comm": _comm,
    "cpu": _cpu,
    "nsecs": clock_ns,
}
