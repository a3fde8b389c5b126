"""The descendants of the traced process, kept in the kernel by a BPF program for the probes' programs to test.

The tracepoint task:task_newtask runs in the task that forks, before the new one runs, so that a child is known at its
first instruction. The probes are machine-wide then: other processes that run the same code stop at them too, for the
time of that test. Inherited events would not work (Linux 6.18: an inherited perf uprobe counts, but a BPF program runs
at its parent's only), and a uprobe_multi link has one address space.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Sequence

from tracer.backends.bcc.host import pid_namespace
from tracer.backends.bcc.host.features import NO_NEW_TASK
from tracer.errors import TracerError
from tracer.kernel import bpf, perf
from tracer.kernel.bpf import MapType
from tracer.kernel.disabled import is_disabled
from tracer.kernel.tracefs import Tracefs, find
from tracer.plan.states import Unsupported, elsewhere

_TRACEPOINT = "task", "task_newtask"
_BLOCK = 4096  # FOLLOWED_BLOCK in prelude.h
_PIDS = 1 << 22  # PID_MAX_LIMIT of linux/threads.h; FOLLOWED_HERE in prelude.h
_FIELDS = (r"pid_t pid;\s+offset:8;\s+size:4;", r" clone_flags;\s+offset:32;\s+size:8;")  # struct new_task


def missing() -> Unsupported | None:
    """Why descendants cannot be followed here, None where they can, or where only root could tell."""
    if (unable := pid_namespace.missing()) is not None:
        return unable
    if os.geteuid() != 0:
        return None
    try:
        return _missing_in(find())
    except TracerError as error:
        return Unsupported(f"it needs the tracepoint task:task_newtask, and {error.message}", error.hint)


def _missing_in(tracefs: Tracefs) -> Unsupported | None:
    if is_disabled("task_newtask") or tracefs.number(*_TRACEPOINT) is None:
        return NO_NEW_TASK
    layout = tracefs.format(*_TRACEPOINT)
    if not all(re.search(field, layout) for field in _FIELDS):
        return Unsupported("the kernel's tracepoint task:task_newtask has another layout", elsewhere("ftrace"))
    return None


def create_map() -> int:
    """The map that says who is followed; nobody yet. Raises `OSError`."""
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        # In a namespace that is its own (Linux 6.14), and comes behind all numbers of the first.
        most = int(file.read()) + (_PIDS if pid_namespace.translated() else 0)
    blocks = most // _BLOCK + 1
    return bpf.map_create(MapType.ARRAY, 4, _BLOCK, blocks, name="tracer_followed")


def follow(fd: int, pids: Sequence[int], program: int) -> int:
    """Follows processes and what they fork from now on; returns the descriptor of the event that does so. In a pid
    namespace, where their other numbers are not known, the programs find them by these.
    """
    blocks: dict[int, bytearray] = {}
    first = _PIDS if pid_namespace.translated() else 0
    for pid in pids:
        blocks.setdefault((first + pid) // _BLOCK, bytearray(_BLOCK))[pid % _BLOCK] = 1
    for place, block in blocks.items():
        bpf.map_update(fd, struct.pack("=I", place), bytes(block))
    number = find().number(*_TRACEPOINT)
    if number is None:
        raise TracerError(NO_NEW_TASK.reason, NO_NEW_TASK.hint)
    try:
        # On one CPU, but the BPF program on it runs on all (trace_event_perf.c, perf_trace_run_bpf_submit).
        event = perf.open_event(perf.Attributes(perf.TYPE_TRACEPOINT, number), -1, 0)
    except OSError as error:
        raise _refused(error) from None
    try:
        perf.attach(event, program)
    except OSError as error:
        os.close(event)
        raise _refused(error) from None
    return event


def _refused(error: OSError) -> TracerError:
    reason = os.strerror(error.errno or 0)
    return TracerError(f"cannot follow processes (task:task_newtask): {reason}", elsewhere("ftrace"))
