"""What a BPF program runs at: links on many sites, and perf events on one site or on a tracepoint of the kernel.

Attributes are packed as linux/bpf.h and linux/perf_event.h lay them out (see `syscall`). What opens a descriptor is a
`Call`, for the watcher to make where that places breakpoints.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence

from tracer.kernel.bpf import ATTACH_UPROBE_MULTI, BPF, PERF_EVENT_OPEN, number_of
from tracer.kernel.syscall import Call

_LINK_CREATE = 28
_UPROBE_MULTI_RETURN = 1

_ATTR = 112  # struct perf_event_attr up to aux_watermark (Linux 4.1)
_PERF_FLAG_CLOEXEC = 8
_PERF_IOC_ENABLE, _PERF_IOC_SET_BPF = 0x2400, 0x40042408
_PERF_TYPE = "/sys/bus/event_source/devices/uprobe/type"


def link_uprobes(
    program: int,
    file: int,
    offsets: Sequence[int],
    references: Sequence[int] | None,
    *,
    pid: int | None,
    returns: bool,
    cookies: Sequence[int] | None = None,
) -> Call:
    """One link for many sites of one file, both given by descriptors (Linux 6.6). `references` are semaphore offsets, 0
    for none; `cookies` tell the program at which site it runs.
    """
    flags = _UPROBE_MULTI_RETURN if returns else 0
    structure = struct.pack("=IIIIQQQQIIII", 0, 0, ATTACH_UPROBE_MULTI, 0, 0, 0, 0, 0, len(offsets), flags, pid or 0, 0)
    arrays = ((24, offsets), (32, references), (40, cookies))
    return Call(
        number_of(BPF),
        structure,
        before=(_LINK_CREATE,),
        after=(len(structure),),
        pointers=tuple((at, struct.pack(f"={len(values)}Q", *values)) for at, values in arrays if values is not None),
        descriptors=((0, program),),
        paths=((16, file),),
    )


def uprobe_event_type() -> int | None:
    """The number of the uprobe PMU (Linux 4.17), None where the kernel has none."""
    try:
        with open(_PERF_TYPE, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def perf_uprobe(file: int, offset: int, reference: int, *, pid: int | None, returns: bool) -> Call:
    """A perf event on one site of a file given by its descriptor, for all threads of `pid` or for every process.

    The event itself is bound to one task or one CPU, but the BPF program on it runs wherever the breakpoint is
    (trace_uprobe.c, uprobe_perf_func).
    """
    kind = uprobe_event_type()
    if kind is None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    config = (1 if returns else 0) | reference << 32
    head = struct.pack("=IIQQQQQIIQQ", kind, _ATTR, config, 1, 0, 0, 0, 1, 0, 0, offset)
    return _event(head, -1 if pid is None else pid, 0 if pid is None else -1, ((56, file),))


def perf_tracepoint(number: int) -> Call:
    """A perf event on a tracepoint of the kernel, for every process: on one CPU, but the BPF program on it runs on all
    (trace_event_perf.c, perf_trace_run_bpf_submit).
    """
    return _event(struct.pack("=IIQQQQQ", 2, _ATTR, number, 1, 0, 0, 0), -1, 0)


def _event(head: bytes, pid: int, cpu: int, paths: tuple[tuple[int, int], ...] = ()) -> Call:
    after = (pid, cpu, -1, _PERF_FLAG_CLOEXEC)
    return Call(number_of(PERF_EVENT_OPEN), head.ljust(_ATTR, b"\0"), after=after, paths=paths)


def perf_attach(event: int, program: int) -> None:
    """Lets a program run at a perf event, and enables the event."""
    import fcntl

    fcntl.ioctl(event, _PERF_IOC_SET_BPF, program)
    fcntl.ioctl(event, _PERF_IOC_ENABLE, 0)
