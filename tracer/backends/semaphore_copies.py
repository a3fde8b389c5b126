"""The semaphores of a library that a process has loaded more than once (dlmopen).

The kernel counts one of them alone, that of the lowest address (uprobes.c, find_ref_ctr_vma), and the code of the other
copies skips its probes. So these are counted by hand, as for `--usdt-file-activation`: in what runs when the trace
begins, and in the process of -p or -c as soon as it maps the file again. That takes some milliseconds, in which hits
may be missed: `closing` says so. No program is looked at, for glibc loads none twice.
"""

from __future__ import annotations

import os
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress

from tracer.backends.activation import Process, semaphores
from tracer.errors import TracerError
from tracer.host.maps import mappings, users
from tracer.kernel.mapping_records import Mapped, MappingRecords
from tracer.kernel.workers.semaphores import unraised
from tracer.kinds.site import Target, files_of
from tracer.opening import content
from tracer.plan.model import Plan

_PT_INTERP, _HEAD = 3, 8192
_MOST = 16
"""Processes that count, one for each process whose copies are raised."""


def libraries(plan: Plan) -> dict[int, str]:
    """The paths of the libraries with semaphores, by their inode."""
    files = files_of(site for site in plan.places if site.semaphore is not None)
    paths = {inode: path for (_, inode), path in files.items()}
    return {inode: path for inode, path in paths.items() if ".so" in os.path.basename(path) or not _is_program(path)}


def _is_program(path: str) -> bool:
    """Whether a 64-bit ELF file names a loader (PT_INTERP), which hardly a library but libc.so.6 does. What cannot be
    told counts as one.
    """
    try:
        head = content(path, _HEAD)
        (first,), (size, count) = struct.unpack_from("=Q", head, 32), struct.unpack_from("=HH", head, 54)
        kinds = [struct.unpack_from("=I", head, first + size * number)[0] for number in range(count)]
    except (OSError, struct.error):
        return True
    return head[4:5] != b"\2" or _PT_INTERP in kinds


class SemaphoreCopies:
    """The copies of semaphores of one trace."""

    def __init__(self, plan: Plan, target: Target, paths: dict[int, str]) -> None:
        """Looks from now on at what processes map."""
        self._paths = paths
        by_hand = semaphores(plan, kernel=True)  # those are raised in all copies
        ours = (semaphore for semaphore in semaphores(plan, kernel=False) if semaphore.inode in paths)
        self._semaphores = tuple(semaphore for semaphore in ours if semaphore not in by_hand)
        self._target = target
        self._processes: list[Process] = []
        self._places: dict[tuple[int, int], set[int]] = defaultdict(set)
        self._late: dict[tuple[int, int], int] = {}
        """When a process mapped a file last."""
        self._delays: dict[tuple[int, int], int] = {}
        """How long the copy of a file waited for its semaphores, in nanoseconds."""
        self._unsure: set[tuple[int, int]] = set()
        """What was mapped and not looked at since."""
        self._again: set[int] = set()
        self._missed: list[tuple[int, str]] = []
        self._records: MappingRecords | None = None
        if target.pids:
            with suppress(OSError):
                self._records = MappingRecords(target.pids, prompt=True)

    @property
    def wake(self) -> tuple[int, ...]:
        """Readable when `look` has something to do."""
        return self._records.descriptors if self._records is not None else ()

    def start(self) -> None:
        """The probes are in place: raises what is loaded already."""
        for pid in self._users():
            self._raise(pid)
            with suppress(TracerError):
                for mapping in mappings(pid) if self._records is not None else ():
                    if mapping.executable and mapping.file is not None and mapping.file[1] in self._paths:
                        self._places[pid, mapping.file[1]].add(mapping.start)

    def look(self) -> None:
        """Raises what has been mapped since."""
        # Its data may not have been mapped yet when its code was.
        pids, self._again = self._again, set()
        if self._records is not None and self._records.has_any:
            for record in self._records.take():
                if isinstance(record, Mapped) and record.mapping.file and record.mapping.file[1] in self._paths:
                    mapped = record.pid, record.mapping.file[1]
                    self._places[mapped].add(record.mapping.start)
                    self._late[mapped] = record.at_ns
                    self._unsure.add(mapped)
                    self._again.add(record.pid)
        for pid in pids | self._again:
            self._raise(pid)
            if pid not in self._again and _goes_on(pid):
                self._unsure -= {mapped for mapped in self._unsure if mapped[0] == pid}

    def before_detach(self) -> None:
        """Takes note of what was not raised, and prepares all for the kernel, which lowers its own then."""
        self.look()
        for pid in self._users() if self._records is None else ():
            for inode in {semaphore.inode for semaphore in unraised(pid, self._semaphores).values()}:
                self._missed.append((pid, self._paths[inode]))
            self._raise(pid)
        for process in self._processes:
            process.balance()

    def closing(self) -> Iterator[str]:
        """The lines about hits that may be missing."""
        missed = [(pid, self._paths[inode]) for pid, inode in sorted(self._unsure) if len(self._places[pid, inode]) > 1]
        for pid, path in (*missed, *self._missed):
            one = "the kernel raises the semaphore of one copy alone, and hits of another may be missing"
            yield f"process {pid} loaded {path} more than once: {one}"
        for (pid, inode), delay in sorted(self._delays.items()):
            later = f"the semaphores of a copy were raised {max(round(delay / 1e6), 1)} ms later"
            yield (
                f"process {pid} loaded {self._paths[inode]} more than once: {later}, and its hits before that are not"
                " counted"
            )

    def close(self) -> None:
        """Lowers what was raised; after the session has detached."""
        if self._records is not None:
            self._records.close()
            self._records = None
        processes, self._processes = self._processes, []
        for process in processes:
            process.lower_all()

    def _users(self) -> Iterable[int]:
        self._target.look_again()
        return users(set(self._paths), self._target.pictures)

    def _raise(self, pid: int) -> None:
        if len(self._processes) < _MOST and unraised(pid, self._semaphores):
            with suppress(TracerError):  # what is not raised is told at the end
                process = Process()
                self._processes.append(process)
                process.raise_all([pid], self._semaphores, (), copies=True)
                now = time.monotonic_ns()
                for mapped, since_ns in self._late.items():
                    if mapped[0] == pid and len(self._places[mapped]) > 1:
                        self._delays.setdefault(mapped, now - since_ns)
                        self._unsure.discard(mapped)


def _goes_on(pid: int) -> bool:
    with suppress(TracerError):
        return bool(mappings(pid))
    return False
