"""The kernel's records of the files that processes map while a trace runs: they name addresses of processes that have
ended.

A process that lives for a millisecond is gone before anyone could read its /proc/PID/maps. perf's records of mmap, exec
and fork (`struct perf_event_mmap_event` and its kin in `<linux/perf_event.h>`) miss none, cost nothing per hit, and
are read when a name is asked for, and before their rings are full. Both backends use them; they need no BPF.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Iterator, Sequence

from tracer.dataclass import dataclass
from tracer.host.maps import Mapping
from tracer.host.stat import threads_of
from tracer.kernel import perf

_RING = 1 << 20
_MOST_OTHERS = 1024
"""Descriptors: of processes with more threads some are not recorded, and their mappings are read again when needed."""
_LARGE = 512  # bytes, which nearly all records stay below
_WANTED = perf.MMAP | perf.MMAP2 | perf.COMM | perf.COMM_EXEC | perf.TASK | perf.SAMPLE_ID_ALL
_WRITABLE, _EXECUTABLE = 2, 4  # PROT_WRITE, PROT_EXEC

# pid, tid, start, length, file offset, major, minor, inode, generation, protection, flags; then the path
_MMAP2 = struct.Struct("=IIQQQIIQQII")
_PIDS = struct.Struct("=II")
_FORK = struct.Struct("=IIII")
_LOST = struct.Struct("=8xQ")


@dataclass(frozen=True, slots=True)
class Mapped:
    """A process mapped part of a file as code. `at_ns`: when, in nanoseconds of CLOCK_MONOTONIC."""

    pid: int
    mapping: Mapping
    at_ns: int


@dataclass(frozen=True, slots=True)
class Executed:
    """A process runs another program: what it had mapped before is gone."""

    pid: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Forked:
    """A process began as a copy of another."""

    pid: int
    parent: int


@dataclass(frozen=True, slots=True)
class Missed:
    """The kernel lost so many records, and what is known of any process may be outdated. 0: a ring was full; the next
    record that it has room for tells how many.
    """

    count: int


Record = Mapped | Executed | Forked | Missed


class MappingRecords:
    """The records since it was opened, about some processes and their descendants or (without any) about everybody."""

    def __init__(self, pids: Sequence[int] = (), prompt: bool = False, size: int | None = None) -> None:
        """`prompt`: each record wakes whoever waits for the descriptors. `size`: bytes of each ring. Raises
        `OSError` where perf_event_open(2) does not allow it.
        """
        self._rings: list[perf.Ring] = []
        self._others: list[int] = []
        self._later: list[tuple[int, Record]] = []
        try:
            cpus = perf.online_cpus()
            for cpu in cpus:
                # The threads, the main ones first.
                tasks = [*pids, *(thread for thread in threads_of(*pids) if thread not in pids)] if pids else [-1]
                del tasks[max(_MOST_OTHERS // len(cpus), 1) :]
                self._open(cpu, tasks, prompt, size or _RING)
        except OSError:
            self.close()
            raise

    def _open(self, cpu: int, tasks: Sequence[int], prompt: bool, size: int) -> None:
        """Opens the descriptors of one CPU: the records of all tasks come into one ring."""
        flags = _WANTED | (perf.INHERIT if tasks != [-1] else 0)
        ring: perf.Ring | None = None
        for task in tasks:
            try:
                if ring is not None:
                    self._others.append(ring.share(task))
                else:
                    ring = perf.Ring(cpu, size, time.CLOCK_MONOTONIC, flags, task, prompt)
                    self._rings.append(ring)
            except OSError as error:
                if error.errno != errno.ESRCH or (task == tasks[-1] and ring is None):
                    raise  # else it has ended

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Readable once when there is something new."""
        return tuple(ring.fd for ring in self._rings)

    @property
    def pressing(self) -> bool:
        """Whether a ring should be read soon; costs next to nothing."""
        spans = ((ring.size, *ring.span) for ring in self._rings)
        return any(head - tail > size // 8 for size, tail, head in spans)

    @property
    def has_any(self) -> bool:
        """Whether there is anything to take; costs next to nothing."""
        return bool(self._later) or any(ring.has_data for ring in self._rings)

    def take(self) -> Iterator[Record]:
        """Takes the new records, in the order of time."""
        full = any(ring.size - (head - tail) < _LARGE for ring in self._rings for tail, head in (ring.span,))
        # While one ring is read, a process may move from its CPU to another: a later ring can have what is newer than
        # what comes into this one. So what is newer than the reading waits for the next, which follows at once.
        for _ in range(2):
            began = time.monotonic_ns()
            records = [*self._later, *(timed for ring in self._rings for timed in _records(ring.take()))]
            records.sort(key=lambda timed: timed[0])
            self._later = [timed for timed in records if timed[0] > began]
            for _, record in records[: len(records) - len(self._later)]:
                yield record
            if not self._later:
                break
        if full:
            yield Missed(0)

    def close(self) -> None:
        """Ends the recording."""
        for fd in self._others:
            os.close(fd)
        for ring in self._rings:
            ring.close()
        self._rings, self._others = [], []


def _records(data: bytes) -> Iterator[tuple[int, Record]]:
    """Takes each record with its time, which `sample_id_all` puts into its last 8 bytes."""
    for kind, misc, body in perf.records(data):
        at_ns = struct.unpack_from("=Q", body, len(body) - 8)[0] if len(body) >= 8 else 0
        record = _record(kind, misc, body, at_ns)
        if record is not None:
            yield at_ns, record


def _record(kind: int, misc: int, body: bytes, at_ns: int) -> Record | None:
    if kind == perf.RECORD_MMAP2:
        pid, _, start, length, offset, major, minor, inode, _, protection, _ = _MMAP2.unpack_from(body)
        path = body[_MMAP2.size :].split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
        if protection & _EXECUTABLE:
            file = (f"{major:02x}:{minor:02x}", inode) if inode else None
            permissions = "rwxp" if protection & _WRITABLE else "r-xp"
            return Mapped(pid, Mapping(start, start + length, permissions, offset, file, path, False), at_ns)
    elif kind == perf.RECORD_COMM and misc & perf.MISC_COMM_EXEC:
        return Executed(_PIDS.unpack_from(body)[0], at_ns)
    elif kind == perf.RECORD_LOST:
        return Missed(int(_LOST.unpack_from(body)[0]))
    elif kind == perf.RECORD_FORK:
        pid, parent, _, _ = _FORK.unpack_from(body)
        if pid != parent:
            return Forked(pid, parent)
    return None
