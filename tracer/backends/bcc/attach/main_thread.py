"""Sees when the main thread of the traced process is not there any more to name its memory.

A link for one process holds the task of its main thread, and breakpoints are placed where that task has its memory
(uprobe_multi_link_filter). When the main thread has ended before the others, or another thread has exec'ed, which ends
it too, that is nowhere: what the process maps from then on has no breakpoints. The link's program still runs at those
that somebody else places, for it runs for all tasks of the process (uprobe_prog_run). So others place them, see
`anchors`. It takes tracer some milliseconds to come to that. After an exec nothing may run meanwhile, so the command of
-c is stopped by the kernel as it leaves the exec, and goes on when the breakpoints are there. A process that is not our
child has a parent that a stop would be told to, such as a shell: it is not stopped.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
from contextlib import ExitStack, suppress

from tracer.backends.bcc.events.ring import Ring
from tracer.backends.bcc.host import pid_namespace
from tracer.kernel import bpf
from tracer.kernel.bpf import MapType

ENDED, EXECED = 1, 2
"""What is told: the main thread has ended; another thread has exec'ed, and is the main thread now."""

_CURRENT, _SEND_SIGNAL, _CURRENT_IN, _OUTPUT = 14, 109, 120, 130  # helpers of enum bpf_func_id
_FORCE_WAKEUP = 2
_TGID = bytes.fromhex("7700000020000000")  # r0 >>= 32
_LEAVE = bytes.fromhex("b700000000000000" "9500000000000000")  # r0 = 0; exit


class MainThread:
    """Two programs at tracepoints of the scheduler. `fd` is readable while there is something to `take`."""

    def __init__(self, pid: int, stops: bool) -> None:
        """`stops`: the process is stopped at the exec of another thread. Raises `OSError`."""
        self.stops = stops
        self._stopped = False
        with ExitStack() as undo:
            self._pidfd = os.pidfd_open(pid)
            undo.callback(os.close, self._pidfd)
            self.fd = bpf.map_create(MapType.RINGBUF, 0, 0, mmap.PAGESIZE, name="tracer_main")
            undo.callback(os.close, self.fd)
            self._ring = Ring(self.fd, mmap.PAGESIZE)
            undo.callback(self._ring.close)
            for name, code in (
                ("sched_process_exit", _at_exit(pid, self.fd)),
                ("sched_process_exec", _at_exec(pid, self.fd, stops)),
            ):
                program = bpf.program_load(code, "tracer_main", kind=bpf.RAW_TRACEPOINT)
                try:
                    undo.callback(os.close, bpf.raw_tracepoint(name, program))
                finally:
                    os.close(program)
            self._undo = undo.pop_all()

    def take(self) -> set[int]:
        """Takes what happened since the last time."""
        happened = {
            struct.unpack_from("=Q", batch.data, offset)[0] for batch in self._ring.take() for offset in batch.offsets
        }
        self._stopped = self._stopped or (self.stops and EXECED in happened)
        return happened

    def go_on(self) -> None:
        """Lets the process go on where it was stopped here."""
        if self._stopped:
            self._stopped = False
            with suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)

    def close(self) -> None:
        """Nothing is stopped any more; a second call does nothing."""
        undo, self._undo = self._undo, ExitStack()
        with undo:
            self.take()
            self.go_on()


def _at_exit(pid: int, ring: int) -> bytes:
    """The main thread of the process is about to end."""
    of_it = b"".join((
        _call(_CURRENT),
        bytes.fromhex("bf01000000000000" "7701000020000000"),  # r1 = r0; r1 >>= 32
        bytes.fromhex("6700000020000000" "7700000020000000"),  # r0 <<= 32; r0 >>= 32
    ))  # fmt: skip
    return _told(of_it + b"\x5d\x10", pid, ENDED, ring)


def _at_exec(pid: int, ring: int, stops: bool) -> bytes:
    """The process runs another program; the second argument is the number of the thread that has exec'ed."""
    of_it = b"".join((
        bytes.fromhex("7916080000000000" "6706000020000000" "7706000020000000"),  # r6 = (u32)*(u64 *)(r1 + 8)
        _call(_CURRENT),
        _TGID,
    ))  # fmt: skip
    return _told(of_it + b"\x1d\x60", pid, EXECED, ring, stops)


def _told(test: bytes, pid: int, what: int, ring: int, stops: bool = False) -> bytes:
    """`test` ends with the beginning of the jump that leaves."""
    tell = bytes.fromhex("b701000013000000") + _call(_SEND_SIGNAL) if stops else b""  # r1 = SIGSTOP
    tell += b"".join((
        struct.pack("=BBhi", 0x7A, 10, -8, what),  # *(u64 *)(fp - 8) = what
        struct.pack("=BBhiBBhi", 0x18, 0x11, 0, ring, 0, 0, 0, 0),  # r1 = ring ll
        bytes.fromhex("bfa2000000000000" "07020000f8ffffff" "b703000008000000"),  # r2 = fp - 8; r3 = 8
        struct.pack("=BBhi", 0xB7, 4, 0, _FORCE_WAKEUP),  # r4 =
        _call(_OUTPUT),
    ))  # fmt: skip
    is_other = _number(len(tell) // 8 + 1) + struct.pack("=BBhi", 0x55, 0, len(tell) // 8, pid)  # if r0 != pid leave
    return test + struct.pack("=hi", len(is_other + tell) // 8, 0) + is_other + tell + _LEAVE


def _number(beyond: int) -> bytes:
    """The number of the current process here, into r0; where it has none leaves, over `beyond` more."""
    if not pid_namespace.translated():
        return _call(_CURRENT) + _TGID
    ours = os.stat("/proc/self/ns/pid")
    return b"".join((
        struct.pack("=BBhIBBhI", 0x18, 1, 0, ours.st_dev, 0, 0, 0, 0),
        struct.pack("=BBhIBBhI", 0x18, 2, 0, ours.st_ino, 0, 0, 0, 0),
        bytes.fromhex("bfa3000000000000" "07030000f0ffffff" "b704000008000000"),  # r3 = fp - 16; r4 = 8
        _call(_CURRENT_IN),
        struct.pack("=BBhi", 0x55, 0, beyond + 1, 0),  # if r0 != 0 leave
        bytes.fromhex("61a0f4ff00000000"),  # r0 = *(u32 *)(fp - 12)
    ))  # fmt: skip


def _call(helper: int) -> bytes:
    return struct.pack("=BBhi", 0x85, 0, 0, helper)
