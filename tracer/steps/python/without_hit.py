"""The hit of a clause that no probe hits: BEGIN, END and interval read the tracer's own pid, name and clock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial

from tracer.host.clock import CLOCKS, clock_ns
from tracer.lang.types import Stack
from tracer.steps.model import Steps
from tracer.steps.python.runtime import Hit
from tracer.steps.values import BuiltIn, KernelStack, Source, UserStack
from tracer.steps.walk import leaves


def host_values(steps: Steps, child_pid: int = 0) -> Hit:
    """A value for each of `leaves(steps)`; what only a probe can deliver is None.

    `child_pid` is `cpid`: the process that `-c` started.
    """
    return tuple(_value(leaf.source, child_pid) for leaf in leaves(steps))


def _value(source: Source, child_pid: int) -> object:
    if isinstance(source, UserStack):
        return Stack(os.getpid(), ())  # tracer's own, which tells nothing of what is traced
    if isinstance(source, KernelStack):
        return Stack(0, ())
    if not isinstance(source, BuiltIn):
        return None
    if source.name == "cpid":
        return child_pid
    read = _READERS.get(source.name)
    return read() if read is not None else None


def _comm(pid: int | str = "self") -> bytes:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read()[:-1]
    except OSError:
        return b""  # a parent outside of this container, or one that has just ended


def _cgroup() -> int | None:
    from tracer.host.tables.cgroups import own_group

    return own_group()


def _cpu() -> int:
    import ctypes

    return int(ctypes.CDLL(None).sched_getcpu())


def _ticks() -> int | None:
    """The kernel's own count of ticks, where it lets this user see it."""
    try:
        with open("/proc/timer_list") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("jiffies: ")), None)
    except OSError:
        return None


_READERS: dict[str, Callable[[], object]] = {
    "pid": os.getpid,
    "tid": threading.get_native_id,
    "uid": os.getuid,
    "gid": os.getgid,
    "comm": _comm,
    "leader_comm": _comm,
    "ppid": os.getppid,
    "pcomm": lambda: _comm(os.getppid()),
    "cpu": _cpu,
    "cgroup": _cgroup,
    "jiffies": _ticks,
    "nsecs": clock_ns,
    "moment": lambda: 0,
    **{name: partial(time.clock_gettime_ns, clock) for name, clock in CLOCKS.items()},
}
