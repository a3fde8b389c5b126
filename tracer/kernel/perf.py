"""perf_event_open(2) and the ring it fills: the layouts of `<linux/perf_event.h>`, and nothing about probes.

Sizes are bytes, times nanoseconds of the clock that the descriptor was opened with. Failures are `OSError`.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator, Sequence

from tracer.dataclass import dataclass, replace
from tracer.kernel.syscall import Call, number_of

TYPE_SOFTWARE = 1
TYPE_TRACEPOINT = 2
TYPE_BREAKPOINT = 5
SOFTWARE_DUMMY = 9

SAMPLE_TID = 1 << 1
SAMPLE_TIME = 1 << 2
SAMPLE_READ = 1 << 4
SAMPLE_CALLCHAIN = 1 << 5
SAMPLE_CPU = 1 << 7
SAMPLE_RAW = 1 << 10
SAMPLE_REGS_USER = 1 << 12
SAMPLE_STACK_USER = 1 << 13
SAMPLE_WEIGHT = 1 << 14

LARGEST_STACK = 65024
"""Bytes of a stack's copy: with what else is in a record they are less than 64 KiB, which perf's sizes end at."""

FORMAT_ID, FORMAT_LOST = 1 << 2, 1 << 4

DISABLED = 1 << 0
INHERIT = 1 << 1
MMAP = 1 << 8
COMM = 1 << 9
ENABLE_ON_EXEC = 1 << 12
TASK = 1 << 13
WATERMARK = 1 << 14
SAMPLE_ID_ALL = 1 << 18
EXCLUDE_CALLCHAIN_KERNEL = 1 << 21
EXCLUDE_CALLCHAIN_USER = 1 << 22
MMAP2 = 1 << 23
COMM_EXEC = 1 << 24
USE_CLOCKID = 1 << 25
INHERIT_THREAD = 1 << 35
REMOVE_ON_EXEC = 1 << 36

RECORD_LOST = 2
RECORD_COMM = 3
RECORD_EXIT = 4
RECORD_THROTTLE = 5
RECORD_FORK = 7
RECORD_SAMPLE = 9
RECORD_MMAP2 = 10
MISC_COMM_EXEC = 1 << 13
CPU_MODES, USER_MODE = 7, 2
"""The misc bits of a sample that say what was interrupted, and what they are in a program."""

CONTEXT_KERNEL, CONTEXT_USER = (1 << 64) - 128, (1 << 64) - 512
CALLCHAIN_MARKS = (1 << 64) - 4095
"""Entries from here on are no addresses but say whose the next ones are (PERF_CONTEXT_USER and its kin)."""

_IOC_ENABLE = 0x2400
_IOC_DISABLE = 0x2401
_IOC_SET_OUTPUT = 0x2405
_IOC_SET_FILTER = 0x40082406
_IOC_SET_BPF = 0x40042408
_IOC_ID = 0x80082407
_NO_WAKEUP = 1 << 30

_FLAG_FD_CLOEXEC = 1 << 3
_PMU = "/sys/bus/event_source/devices/uprobe/type"

# type, size, config, sample_period, sample_type, read_format, flags, wakeup, bp_type, config1, config2,
# branch_sample_type, sample_regs_user, sample_stack_user, clockid, sample_regs_intr, aux_watermark, sample_max_stack
_ATTR = struct.Struct("=IIQQQQQIIQQQQIiQIHH")

_CONFIG1 = 56
"""Where config1 is: of a uprobe the address of the path."""

_HEAD = 1024
_TAIL = 1032


@dataclass(frozen=True, slots=True)
class Attributes:
    """The fields of `struct perf_event_attr` that are used here; `clock` is a clockid for `use_clockid`, or None.
    `config1` and `config2` mean what the type says, and `access` is the sort of a breakpoint. `registers` is a mask of
    those to sample, `stack` how many bytes of the user stack, a multiple of 8; the kernel takes less where a
    record would else exceed 64 KiB. Of what is sampled each event is a hit, or each `period`-th.
    """

    type: int
    config: int
    sample_type: int = 0
    read_format: int = 0
    flags: int = 0
    watermark: int = 0
    clock: int | None = None
    max_stack: int = 0
    config1: int = 0
    config2: int = 0
    registers: int = 0
    stack: int = 0
    period: int | None = None
    access: int = 0

    def pack(self) -> bytes:
        """The C structure, in the size of its fifth version (112 bytes, Linux 4.1), which every later kernel takes."""
        flags = self.flags | (USE_CLOCKID if self.clock is not None else 0)
        period = int(self.sample_type != 0) if self.period is None else self.period
        return _ATTR.pack(
            self.type, _ATTR.size, self.config, period, self.sample_type, self.read_format, flags, self.watermark,
            self.access, self.config1, self.config2, 0, self.registers, self.stack, self.clock or 0, 0, 0,
            self.max_stack, 0,
        )  # fmt: skip


def prctl(option: int, value: int | bytes) -> None:
    """Sets an option of this process, a number or a text; that it may be refused does not matter."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value) if isinstance(value, int) else value, 0, 0, 0)


def open_event(attributes: Attributes, pid: int, cpu: int) -> int:
    """A descriptor for one event; `pid` is a thread id or -1 for all, `cpu` a CPU or -1 for all (not both).

    For events that place no breakpoints: the others are the watcher's.
    """
    return event_call(attributes, pid, cpu).make()


def event_call(attributes: Attributes, pid: int, cpu: int) -> Call:
    """The call that opens an event."""
    return Call(number_of("perf_event_open"), attributes.pack(), after=(pid, cpu, -1, _FLAG_FD_CLOEXEC))


def uprobe_type() -> int | None:
    """The number of the uprobe PMU (Linux 4.17), None where the kernel has none."""
    try:
        with open(_PMU, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def uprobe_call(
    file: int, offset: int, *, pid: int | None, semaphore: int = 0, returns: bool = False, sample_type: int = 0
) -> Call:
    """The call that opens an event on one site of a file given by its descriptor, for `pid` (0: this thread) or for
    every process. Raises `OSError`.

    The event itself is bound to one task or one CPU, but the BPF program on it runs wherever the breakpoint is
    (trace_uprobe.c, uprobe_perf_func).
    """
    kind = uprobe_type()
    if kind is None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    attributes = Attributes(kind, returns | semaphore << 32, sample_type, watermark=_NO_WAKEUP, config2=offset)
    call = event_call(attributes, -1 if pid is None else pid, 0 if pid is None else -1)
    return replace(call, paths=((_CONFIG1, file),))


def attach(event: int, program: int) -> None:
    """Lets a BPF program run at an event, and enables the event."""
    set_program(event, program)
    enable(event)


def set_program(event: int, program: int) -> None:
    """Lets a BPF program run at an event, and at those that are inherited from now on."""
    fcntl.ioctl(event, _IOC_SET_BPF, program)


def enable(fd: int) -> None:
    """Starts counting, in inherited copies too."""
    fcntl.ioctl(fd, _IOC_ENABLE, 0)


def disable(fd: int) -> None:
    """Stops counting, in inherited copies too; when it returns, no further hit is counted or written."""
    fcntl.ioctl(fd, _IOC_DISABLE, 0)


def set_output(fd: int, ring_fd: int) -> None:
    """Samples of `fd` go to the ring of `ring_fd`, which must be on the same CPU and have the same clock."""
    fcntl.ioctl(fd, _IOC_SET_OUTPUT, ring_fd)


def set_filter(fd: int, text: str) -> None:
    """Only hits for which the event filter `text` is true are counted and sampled."""
    fcntl.ioctl(fd, _IOC_SET_FILTER, ctypes.create_string_buffer(text.encode()))


def identity(fd: int) -> int:
    """The number of a descriptor, as `FORMAT_ID` tells it."""
    number = ctypes.c_uint64()
    fcntl.ioctl(fd, _IOC_ID, number)
    return number.value


def read_count(fd: int, identified: bool = False) -> tuple[int, int]:
    """Hits so far, with those of inherited copies, and how many of them did not fit the ring (0 on kernels that do
    not tell, before 6.0). `identified`: it has `FORMAT_ID`.
    """
    words = struct.unpack("=QQQ", os.read(fd, 24).ljust(24, b"\0"))
    return words[0], words[2 if identified else 1]


class Ring:
    """The memory in which one CPU's samples arrive, owned by a descriptor that measures nothing itself.

    An event of its own (the software dummy) holds the ring, so that it outlives every thread and probe.
    """

    def __init__(
        self, cpu: int, size: int, clock: int | None, flags: int = DISABLED, pid: int = -1, prompt: bool = False,
        sample_type: int = SAMPLE_TIME,
    ) -> None:  # fmt: skip
        """`size` is a power of two, at least a page. The reader is woken when a quarter of it is full, or
        at each record (`prompt`).

        `flags` can ask for records of the kernel's own (MMAP2, COMM, TASK) about `pid`, or about everybody.
        """
        self.cpu = cpu
        self.size = size
        watermark = 1 if prompt else size // 4
        self._attributes = Attributes(
            TYPE_SOFTWARE, SOFTWARE_DUMMY, sample_type, 0, WATERMARK | flags, watermark, clock
        )
        self.fd = open_event(self._attributes, pid, cpu)
        try:
            self._map()
        except OSError as error:
            os.close(self.fd)
            error.call = "mmap of a perf ring"  # type: ignore[attr-defined]
            raise

    @classmethod
    def over(cls, fd: int, size: int) -> Ring:
        """The ring of an event that is open already, whose descriptor stays its owner's. Raises `OSError`."""
        ring = cls.__new__(cls)
        ring.fd, ring.size = fd, size
        ring._map()
        return ring

    def _map(self) -> None:
        self._memory = mmap.mmap(
            self.fd, mmap.PAGESIZE + self.size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE
        )
        # Each is read and written by one aligned 8-byte access, as the protocol asks; struct would copy bytewise.
        self._head = ctypes.c_uint64.from_buffer(self._memory, _HEAD)
        self._tail = ctypes.c_uint64.from_buffer(self._memory, _TAIL)

    def share(self, pid: int) -> int:
        """The descriptor of an event like the one that owns the ring, about another task, which uses this ring too.
        Raises `OSError`.
        """
        fd = open_event(self._attributes, pid, self.cpu)
        try:
            set_output(fd, self.fd)
        except OSError:
            os.close(fd)
            raise
        return fd

    def remap(self) -> None:
        """Maps the ring anew in a forked process, which the kernel does not give the mapping."""
        self.unmap()  # first: the new mapping may be where the old one was
        self._map()

    @property
    def has_data(self) -> bool:
        """Whether there is anything to take."""
        return self._head.value != self._tail.value

    @property
    def span(self) -> tuple[int, int]:
        """The positions from where to where there are whole records; they only grow."""
        head: int = self._head.value
        return self._tail.value, head

    def copy(self, tail: int, head: int, to: memoryview) -> None:
        """Copies what is between two positions into memory of that size."""
        first, second = self._between(tail, head)
        to[: len(first)] = first
        to[len(first) :] = second

    def advance(self, head: int) -> None:
        """Frees the place of all that is before `head`."""
        self._tail.value = head

    def take(self) -> bytes:
        """Returns all whole records that are there, in the order in which they were written, and frees their place."""
        tail, head = self.span
        if head == tail:
            return b""
        taken = b"".join(self._between(tail, head))
        self.advance(head)
        return taken

    def _between(self, tail: int, head: int) -> tuple[memoryview, memoryview]:
        start, stop = tail & (self.size - 1), head & (self.size - 1)
        data = memoryview(self._memory)[mmap.PAGESIZE :]
        return (data[start:stop], data[:0]) if start < stop else (data[start:], data[:stop])

    def close(self) -> None:
        """Unmaps the ring and closes its descriptor; a second call does nothing."""
        if self.fd < 0:
            return
        self.unmap()
        os.close(self.fd)
        self.fd = -1

    def unmap(self) -> None:
        """Leaves the descriptor open. While it is mapped, an event stays, though its descriptor is closed."""
        del self._head, self._tail
        self._memory.close()


def records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The records of a ring: the type, the misc bits, and what follows the header (perf_event_open(2))."""
    position = 0
    while position + 8 <= len(data):
        kind, misc, size = struct.unpack_from("=IHH", data, position)
        if size < 8:
            return
        yield kind, misc, data[position + 8 : position + size]
        position += size


@dataclass(frozen=True, slots=True)
class Round:
    """The content of some rings at a moment. `began`: before that (nanoseconds of CLOCK_MONOTONIC) it was not yet
    looked at. Not `complete`: some rings have more. Those of a copier have a `number`.
    """

    began: int
    complete: bool
    blocks: Sequence[bytes | memoryview]
    number: int = -1


def max_stack(frames: int) -> int:
    """The depth of call chains to ask the kernel for: at most kernel.perf_event_max_stack, or it refuses."""
    if frames == 0:
        return 0
    try:
        with open("/proc/sys/kernel/perf_event_max_stack") as file:
            return min(frames, int(file.read()))
    except (OSError, ValueError):
        return min(frames, 127)


def online_cpus() -> tuple[int, ...]:
    """The CPUs that descriptors can be opened on."""
    with open("/sys/devices/system/cpu/online") as file:
        text = file.read().strip()
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def boot_offset_ns() -> int:
    """CLOCK_BOOTTIME minus CLOCK_MONOTONIC: tracepoint samples take the second alone (the first is not safe in an NMI,
    so perf refuses it for them), `nsecs` shows the first. The difference changes only while the machine sleeps.
    """
    best, offset = None, 0
    for _ in range(8):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if best is None or after - before < best:
            best, offset = after - before, boot - (before + after) // 2
    # On a machine that never slept the two are one clock: what is left then is the cost of the calls.
    return offset if abs(offset) > 50_000 else 0
