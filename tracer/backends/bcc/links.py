"""What a BPF program runs at: links on many sites, and perf events on one site or on a tracepoint of the kernel.

Attributes are packed as linux/bpf.h and linux/perf_event.h lay them out (see `syscall`). Failures are `OSError` with
the kernel's errno.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

from tracer.backends.bcc.syscall import ATTACH_UPROBE_MULTI, PERF_EVENT_OPEN, address, bpf, call

_LINK_CREATE = 28
_UPROBE_MULTI_RETURN = 1

_ATTR = 112  # struct perf_event_attr up to aux_watermark (Linux 4.1)
_PERF_FLAG_CLOEXEC = 8
_PERF_IOC_ENABLE, _PERF_IOC_SET_BPF = 0x2400, 0x40042408
_PERF_TYPE = "/sys/bus/event_source/devices/uprobe/type"


def link_uprobes(
    program: int,
    path: bytes,
    offsets: Sequence[int],
    references: Sequence[int] | None,
    *,
    pid: int | None,
    returns: bool,
    cookies: Sequence[int] | None = None,
) -> int:
    """One link for many sites of one file (Linux 6.6). `references` are semaphore offsets, 0 for none; `cookies` tell
    the program at which site it runs.
    """
    name = ctypes.create_string_buffer(path)
    places = _numbers(offsets)
    counters = None if references is None else _numbers(references)
    marks = None if cookies is None else _numbers(cookies)
    return bpf(
        _LINK_CREATE,
        struct.pack(
            "=IIIIQQQQIIII",
            program,
            0,
            ATTACH_UPROBE_MULTI,
            0,
            ctypes.addressof(name),
            ctypes.addressof(places),
            address(counters),
            address(marks),
            len(offsets),
            _UPROBE_MULTI_RETURN if returns else 0,
            pid or 0,
            0,
        ),
    )


def _numbers(values: Sequence[int]) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(struct.pack(f"={len(values)}Q", *values), 8 * len(values))


def uprobe_event_type() -> int | None:
    """The number of the uprobe PMU (Linux 4.17), None where the kernel has none."""
    try:
        with open(_PERF_TYPE, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def perf_uprobe(path: bytes, offset: int, reference: int, *, pid: int | None, returns: bool) -> int:
    """A perf event on one site, for all threads of `pid` or for every process.

    The event itself is bound to one task or one CPU, but the BPF program on it runs wherever the breakpoint is
    (trace_uprobe.c, uprobe_perf_func).
    """
    kind = uprobe_event_type()
    if kind is None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    name = ctypes.create_string_buffer(path)
    config = (1 if returns else 0) | reference << 32
    head = struct.pack("=IIQQQQQIIQQ", kind, _ATTR, config, 1, 0, 0, 0, 1, 0, ctypes.addressof(name), offset)
    return _open(head, -1 if pid is None else pid, 0 if pid is None else -1)


def perf_tracepoint(number: int) -> int:
    """A perf event on a tracepoint of the kernel, for every process: on one CPU, but the BPF program on it runs on all
    (trace_event_perf.c, perf_trace_run_bpf_submit).
    """
    return _open(struct.pack("=IIQQQQQ", 2, _ATTR, number, 1, 0, 0, 0), -1, 0)


def _open(head: bytes, pid: int, cpu: int) -> int:
    attribute = ctypes.create_string_buffer(head, _ATTR)
    close_on_exec = ctypes.c_ulong(_PERF_FLAG_CLOEXEC)
    return call(PERF_EVENT_OPEN, attribute, ctypes.c_int(pid), ctypes.c_int(cpu), ctypes.c_int(-1), close_on_exec)


def perf_attach(event: int, program: int) -> None:
    """Lets a program run at a perf event, and enables the event."""
    import fcntl

    fcntl.ioctl(event, _PERF_IOC_SET_BPF, program)
    fcntl.ioctl(event, _PERF_IOC_ENABLE, 0)
