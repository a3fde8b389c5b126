"""The floors: attaches, to a place in a file, what does nothing at a hit, and stays until its standard input closes.

    empty_program.py perf PATH OFFSET SEMAPHORE PID     a BPF program that returns at once, by a perf event
    empty_program.py multi PATH OFFSET SEMAPHORE PID    the same by a uprobe_multi link
    empty_program.py ftrace PATH OFFSET SEMAPHORE PID   an event of ftrace, filtered away by the kernel

A file of its own that needs nothing but Python: what tracer does must not move what it is held against.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path

_TRACEFS = Path("/sys/kernel/tracing")
_BPF, _PERF_EVENT_OPEN = {"x86_64": (321, 298), "aarch64": (280, 241)}[platform.machine()]
_BPF_PROG_LOAD, _BPF_LINK_CREATE, _BPF_PROG_TYPE_KPROBE, _BPF_TRACE_UPROBE_MULTI = 5, 28, 2, 48
_TRACEPOINT = 2
_ENABLE, _SET_FILTER, _SET_BPF = 0x2400, 0x40082406, 0x40042408
_PERF_FLAG_FD_CLOEXEC = 8
_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *words: int) -> int:
    answer = _libc.syscall(number, *map(ctypes.c_long, words))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(answer)


def _control(event: int, request: int, word: int) -> None:
    # Not fcntl.ioctl: an address is no int there.
    if _libc.ioctl(event, ctypes.c_ulong(request), ctypes.c_void_p(word)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _perf_event(kind: int, config: int, pid: int, place: tuple[int, int] = (0, 0)) -> int:
    # struct perf_event_attr, as long as it was in Linux 2.6.33: type, size, config, sample_period, sample_type,
    # read_format, flags, wakeup, bp_type, config1, config2. One sample a hit; disabled until told.
    attribute = struct.pack("=IIQQQQQIIQQ", kind, 72, config, 1, 0, 0, 1, 0, 0, *place)
    kept = ctypes.create_string_buffer(attribute, len(attribute))
    return _call(_PERF_EVENT_OPEN, ctypes.addressof(kept), pid, -1, -1, _PERF_FLAG_FD_CLOEXEC)


def perf(path: str, offset: int, semaphore: int, pid: int) -> int:
    """The descriptor of a uprobe that runs `return 0`."""
    program = _program(0)
    kind = int(Path("/sys/bus/event_source/devices/uprobe/type").read_text())
    where = ctypes.create_string_buffer(os.fsencode(path))
    event = _perf_event(kind, semaphore << 32, pid, (ctypes.addressof(where), offset))
    _control(event, _SET_BPF, program)
    _control(event, _ENABLE, 0)
    return event


def multi(path: str, offset: int, semaphore: int, pid: int) -> int:
    """The descriptor of a uprobe_multi link (Linux 6.6) that runs `return 0` at one place."""
    program = _program(_BPF_TRACE_UPROBE_MULTI)
    where = ctypes.create_string_buffer(os.fsencode(path))
    offsets, semaphores = (ctypes.c_uint64 * 1)(offset), (ctypes.c_uint64 * 1)(semaphore)
    # union bpf_attr, the part of BPF_LINK_CREATE: program, target, attach type, flags, and of uprobe_multi: path,
    # offsets, semaphores' offsets, cookies, count, flags, pid.
    addresses = [ctypes.addressof(array) for array in (where, offsets, semaphores)]
    return _bpf(
        _BPF_LINK_CREATE, struct.pack("=IIIIQQQQIII", program, 0, _BPF_TRACE_UPROBE_MULTI, 0, *addresses, 0, 1, 0, pid)
    )


def _program(attach_type: int) -> int:
    code = ctypes.create_string_buffer(struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0), 16)
    name = ctypes.create_string_buffer(b"GPL")
    # The part of BPF_PROG_LOAD: type, count of instructions, they, the license; at 68 what it is to be attached to.
    head = struct.pack("=IIQQ", _BPF_PROG_TYPE_KPROBE, 2, ctypes.addressof(code), ctypes.addressof(name))
    return _bpf(_BPF_PROG_LOAD, head.ljust(68, b"\0") + struct.pack("=I", attach_type))


def _bpf(command: int, attribute: bytes) -> int:
    kept = ctypes.create_string_buffer(attribute, 128)
    return _call(_BPF, command, ctypes.addressof(kept), 128)


def define(name: str, path: str, offset: int, semaphore: int) -> None:
    """Adds the event to uprobe_events."""
    counter = f"({semaphore:#x})" if semaphore else ""
    _write_definition(f"p:{name} {path}:{offset:#x}{counter}\n")


def undefine(name: str) -> None:
    """Removes it."""
    _write_definition(f"-:{name}\n")


def sweep() -> None:
    """Removes what others like this one left when they were killed; the kernel refuses where one still runs."""
    for line in (_TRACEFS / "uprobe_events").read_text().splitlines():
        match = re.match(r"p:(tracer_bench_(\d+)/hit) ", line)
        if match and not os.path.exists(f"/proc/{match[2]}"):
            with suppress(OSError):
                undefine(match[1])


def _write_definition(line: str) -> None:
    # O_APPEND: without it the file would be emptied of everybody's probes.
    file = os.open(_TRACEFS / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def ftrace(name: str, pid: int) -> None:
    """Counts with a filter that no process passes, until the standard input closes."""
    number = int((_TRACEFS / "events" / name / "id").read_text())
    event = _perf_event(_TRACEPOINT, number, pid)
    try:
        never = ctypes.create_string_buffer(b"common_pid == 0")
        _control(event, _SET_FILTER, ctypes.addressof(never))
        _control(event, _ENABLE, 0)
        sys.stdin.read()
    finally:
        os.close(event)  # what is in use cannot be removed


def main() -> None:
    """Attaches and waits."""
    how, path = sys.argv[1:3]
    offset, semaphore, pid = map(int, sys.argv[3:])
    if how != "ftrace":
        {"perf": perf, "multi": multi}[how](path, offset, semaphore, pid)
        sys.stdin.read()
        return
    sweep()
    name = f"tracer_bench_{os.getpid()}/hit"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        define(name, path, offset, semaphore)
        ftrace(name, pid)
    finally:
        with suppress(FileNotFoundError):
            undefine(name)


if __name__ == "__main__":
    main()
