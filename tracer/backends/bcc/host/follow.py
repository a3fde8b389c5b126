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
from tracer.host.stat import threads_of
from tracer.kernel import bpf, perf
from tracer.kernel.bpf import MapType
from tracer.kernel.disabled import is_disabled
from tracer.kernel.tracefs import Tracefs, find
from tracer.plan.states import Unsupported, elsewhere

_TRACEPOINT = "task", "task_newtask"
_BLOCK = 4096  # FOLLOWED_BLOCK in prelude.h
_PIDS = 1 << 22  # PID_MAX_LIMIT of linux/threads.h; FOLLOWED_HERE in prelude.h
_THREADS = 2 << 22  # FOLLOWED_THREADS there
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


def create_map(threads: bool) -> int:
    """The map that says who is followed; nobody yet. With `threads` it says so of each thread too. Raises `OSError`."""
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        # In a namespace that is its own (Linux 6.14), and comes behind all numbers of the first.
        most = int(file.read()) + (_PIDS if pid_namespace.translated() else 0)
    blocks = (most + (_THREADS if threads else 0)) // _BLOCK + 1
    return bpf.map_create(MapType.ARRAY, 4, _BLOCK, blocks, name="tracer_followed")


def follow(fd: int, pids: Sequence[int], program: int, threads: bool) -> int:
    """Follows processes and what they fork from now on, with `threads` their threads too; returns the descriptor
    of the event that does so. In a pid namespace, where their other numbers are not known, the programs find them by
    these; there are no `threads` then.
    """
    _mark(fd, [(_PIDS if pid_namespace.translated() else 0) + pid for pid in pids])
    if not threads:
        return _noting(program)
    # Those that begin from now on are marked as they do. One that ends meanwhile leaves its mark, until its number is
    # used again.
    _mark(fd, [_THREADS + thread for thread in threads_of(*pids)])
    event = _noting(program)
    # Again for those that began before it, as long as there are any: to write a block takes away the mark of one in it
    # that began since the block was read.
    while _mark(fd, [_THREADS + thread for thread in threads_of(*pids)]):
        pass
    return event


def _mark(fd: int, numbers: Sequence[int]) -> bool:
    """Marks them; whether one was not marked before."""
    changed = False
    for place in sorted({number // _BLOCK for number in numbers}):
        key = struct.pack("=I", place)
        before = bpf.map_lookup(fd, key, _BLOCK) or bytes(_BLOCK)
        block = bytearray(before)
        for number in numbers:
            if number // _BLOCK == place:
                block[number % _BLOCK] = 1
        if block != before:
            bpf.map_update(fd, key, bytes(block))
            changed = True
    return changed


def _noting(program: int) -> int:
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
