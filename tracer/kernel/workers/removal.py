"""Prepares what the kernel needs to take breakpoints out, and looks whether it has taken them.

Linux lowers a place's semaphore before it takes a breakpoint out of a process. Where that would go below 0, the program
having written the number anew, the breakpoint stays for ever: the kernel logs "ref_ctr going negative" and "failed to
unregister, leaking uprobe" (kernel/events/uprobes.c, __update_ref_ctr; 6.18). So before a removal what has fallen is
raised, to one for each breakpoint that the process has; and after it the bytes are compared with the file's. What
stayed is attached once more and removed. It stays then where another tracer has a probe there, or where the kernel
fails again, which its log says with the number of the thread that asked.

Memory is read and written through the door that waits for no page that may never come, and in a thread beside, which
is left behind where something else takes long, and ends with its process. All of it has a bound.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, get_native_id, start_new_thread
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from tracer.dataclass import NamedTuple
from tracer.host.memory import open_memory, open_pages, read, write
from tracer.host.named import named
from tracer.host.stat import directory, pids
from tracer.opening import opened

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite

_PATIENCE_S = 3.0
_LOOK_S = 1.0
_MENDING_S, _ROUNDS = 1.5, 10
_AGAIN_S = 0.05
"""Removals that follow each other sooner are one."""
_SITES, _MOST, _FAILED = 64, 4096, 16
"""Places without a semaphore that are compared, places at all, and breakpoints that are told."""
_NEGATIVE = 0x8000
_NEVER = b"\xcc", b"\xcd\x03"
_T = TypeVar("_T")


class Spot(NamedTuple):
    """A place in a file: device and inode, the offset, that of its semaphore (0: none), and the place's address as the
    file states it.
    """

    path: str
    device: int
    inode: int
    offset: int
    semaphore: int
    address: int


class Stayed(NamedTuple):
    """A breakpoint that the kernel does not take out; `low`: for its semaphore; `copied`: with code, by its process."""

    pid: int
    path: str
    offset: int
    low: bool
    copied: bool


def spots_of(sites: Iterable[FileSite]) -> list[tuple[object, ...]]:
    """The places of some sites, each once, as `Removal` takes them."""
    places = (
        (site.path, site.identity.device, site.identity.inode, site.offset, site.semaphore or 0, site.address)
        for site in sites
    )
    return sorted({*places})


def told(stayed: Sequence[Sequence[Any]]) -> str | None:
    """The sentence about breakpoints that stay; None where none does."""
    if not stayed:
        return None
    first = Stayed(*stayed[0])
    more = f" (and {len(stayed) - 1} more)" if len(stayed) > 1 else ""
    breakpoint = f"the breakpoint at {first.path}:0x{first.offset:x}"
    if first.copied:
        copied = f"{named(first.pid)} has copied its code to memory of its own, and {breakpoint} with it"
        return f"{copied}{more}: there it stays, and ends the process by SIGTRAP"
    why = "its semaphore is below what the kernel takes off" if first.low else "the kernel's log (dmesg) may say why"
    return f"{breakpoint} stays in {named(first.pid)}{more}, where hits go on costing a trap until it ends: {why}"


class Removal:
    """The places of one trace, and its processes (none: any)."""

    def __init__(self, spots: Sequence[Sequence[Any]], pids: Sequence[int]) -> None:
        self._counted: list[Spot] = []
        self._others: list[Spot] = []
        self.add(spots)
        self._pids = pids
        self._log = _log()
        self._prepared = 0.0

    def add(self, spots: Sequence[Sequence[Any]]) -> None:
        """More places of the trace."""
        every = [Spot(*words) for words in spots]
        self._counted = [*self._counted, *(spot for spot in every if spot.semaphore)][:_MOST]
        self._others = [*self._others, *(spot for spot in every if not spot.semaphore)][:_SITES]

    @property
    def _spots(self) -> list[Spot]:
        return self._counted + self._others

    def prepare(self) -> None:
        """Raises the semaphores that have fallen, before a removal."""
        if self._counted and time.monotonic() > self._prepared + _AGAIN_S:
            _beside(self._lift)
            self._prepared = time.monotonic()

    def _lift(self) -> None:
        for memory, here in _users(self._counted, self._pids):
            memory.lift(here)

    def check(self, only: Collection[Sequence[Any]] | None = None) -> list[Stayed]:
        """Takes out the breakpoints that have stayed after the last removal, or the last of `only` these places;
        returns those that stay all the same. Of all processes only where the kernel says that it failed, or says
        nothing; of some always.
        """
        failed = self._log < 0 or bool(list(_failures(self._log)))
        spots = self._spots if only is None else [spot for spot in self._spots if spot in only]
        return _beside(lambda: list(self._stayed(spots, failed))) or []

    def _stayed(self, spots: Sequence[Spot], failed: bool) -> Iterator[Stayed]:
        if failed or self._pids:
            yield from self._mend(spots, only=not failed)
        for memory, here in _users(spots, self._pids):
            if lost := memory.lost(here):
                yield from _take_out_copies(memory.pid, lost)

    def _mend(self, spots: Sequence[Spot], only: bool) -> Iterator[Stayed]:
        stay = [(memory.pid, spot) for memory, here in _users(spots, self._pids, only) for spot in memory.held(here)]
        failing: list[tuple[int, Spot]] = []
        end = time.monotonic() + _MENDING_S
        for pid, spot in stay[:_SITES]:
            # A program that writes the number often does not do it each time just between raising and removal.
            for _ in range(_ROUNDS):
                list(_failures(self._log))
                _once_more(pid, spot, self._counted)
                if self._log < 0:
                    failed = any(memory.lacks(here) for memory, here in _users([spot], [pid], only=True))
                else:
                    failed = any(b":%d " % get_native_id() in line for line in _failures(self._log))
                if not failed or time.monotonic() > end:
                    break
            if failed:
                failing.append((pid, spot))
        for pid, spot in failing[:_FAILED]:
            if any(memory.held(here) for memory, here in _users([spot], [pid], only=True)):
                yield Stayed(pid, spot.path, spot.offset, bool(spot.semaphore), False)


def _take_out_copies(pid: int, spots: Sequence[Spot]) -> Iterator[Stayed]:
    from tracer.kernel.workers.own_copies import take_out

    for path, inode in {(spot.path, spot.inode) for spot in spots}:
        for offset in take_out(pid, path, inode, [(spot.offset, spot.address) for spot in spots if spot.path == path]):
            yield Stayed(pid, path, offset, False, True)


def _log() -> int:
    """The kernel's log from now on; -1 where it cannot be read."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(log, 0, os.SEEK_END)
    except OSError:
        return -1
    return log


def _failures(log: int) -> Iterator[bytes]:
    """The new lines about breakpoints that stayed."""
    for _ in range(_MOST if log >= 0 else 0):
        try:
            line = os.read(log, 8192)
        except BlockingIOError:
            return
        except OSError:  # some were overwritten before they were read (EPIPE)
            continue
        if b"leaking uprobe" in line:
            yield line


def _beside(function: Callable[[], _T]) -> _T | None:
    """The result of a function in a thread that is not waited for longer than `_PATIENCE_S`; None where that did not
    come, or it failed. A process would copy a megabyte of this one.
    """
    results: list[_T] = []
    ended = allocate_lock()

    def work() -> None:
        try:
            with suppress(Exception):
                results.append(function())
        finally:
            ended.release()

    ended.acquire()
    try:
        start_new_thread(work, ())
    except RuntimeError:  # pids.max, RLIMIT_NPROC, RLIMIT_AS
        return None
    ended.acquire(timeout=_PATIENCE_S)
    return results[0] if results else None


def _users(spots: Sequence[Spot], first: Sequence[int], only: bool = False) -> Iterator[tuple[_Memory, list[Spot]]]:
    """The processes that map these files, the traced ones first, or alone."""
    deadline = time.monotonic() + _LOOK_S
    by_inode: dict[int, list[Spot]] = {}
    for spot in spots:
        by_inode.setdefault(spot.inode, []).append(spot)
    files = {b" %d " % inode: inode for inode in by_inode}
    for pid in (*first, *(other for other in (() if only else pids()) if other not in first)):
        text = _maps(f"/proc/{pid}") or _maps(directory(pid))
        here = [(mark, inode) for mark, inode in files.items() if mark in text]
        if here:
            with _Memory(pid, text, here) as memory:
                yield memory, [spot for _, inode in here for spot in by_inode[inode]]
        if time.monotonic() > deadline:
            return


def _maps(directory: str) -> bytes:
    try:
        with open(f"{directory}/maps", "rb") as file:
            return file.read()
    except OSError:
        return b""


class _Mapped(NamedTuple):
    """A mapping of a file of the trace."""

    inode: int
    start: int
    end: int
    offset: int
    permissions: bytes


class _Memory:
    """That of a process, as far as it can be had."""

    def __init__(self, pid: int, maps: bytes, inodes: Sequence[tuple[bytes, int]]) -> None:
        """`maps` is the text of its /proc/PID/maps, and each inode stands beside how it is found there."""
        self.pid = pid
        self._every: list[_Mapped] = []
        self._fd = self._pages = -1
        self._files: dict[int, int] = {}
        for line in maps.splitlines():
            for mark, inode in inodes:
                if mark in line:
                    bounds, permissions, offset, _, number = line.split(None, 5)[:5]
                    if int(number) == inode:
                        start, end = (int(bound, 16) for bound in bounds.split(b"-"))
                        self._every.append(_Mapped(inode, start, end, int(offset, 16), permissions))

    def __enter__(self) -> _Memory:
        with suppress(OSError):
            self._fd = open_memory(self.pid, write=True)
            self._pages = open_pages(self._fd)
        return self

    def __exit__(self, *error: object) -> None:
        for fd in (self._fd, self._pages, *self._files.values()):
            if fd >= 0:
                os.close(fd)

    def held(self, spots: Sequence[Spot]) -> list[Spot]:
        """The places with a breakpoint."""
        return [spot for spot in spots if self.breakpoints(spot)]

    def lost(self, spots: Sequence[Spot]) -> list[Spot]:
        """The places that are not mapped as code, though other parts of the file are mapped."""
        return [spot for spot in spots if not any(self._addresses(spot.inode, spot.offset, b"x", b""))]

    def lift(self, spots: Sequence[Spot]) -> None:
        """Raises semaphores to one for each breakpoint."""
        for address, needed in self.needed(spots).items():
            if self.number(address) < needed:
                with suppress(OSError):
                    write(self._fd, needed.to_bytes(2, "little"), address, self._pages)

    def lacks(self, spots: Sequence[Spot]) -> bool:
        """Whether the kernel cannot take all of their breakpoints out."""
        return any(self.number(address) < needed for address, needed in self.needed(spots).items())

    def needed(self, spots: Sequence[Spot]) -> dict[int, int]:
        """The breakpoints of each semaphore, by the address where the kernel counts them: in the first private and
        writable mapping that has it (find_ref_ctr_vma). Copies of a library all count there.
        """
        counts: dict[int, int] = {}
        for spot in spots:
            if spot.semaphore and (count := self.breakpoints(spot)):
                address = next(self._addresses(spot.inode, spot.semaphore, b"w", b"p"), None)
                if address is not None:
                    counts[address] = counts.get(address, 0) + count
        return counts

    def breakpoints(self, spot: Spot) -> int:
        """The number of breakpoints that a process has at a place, in all mappings of the file."""
        wanted = self._of_file(spot)
        return sum(
            1
            for address in self._addresses(spot.inode, spot.offset, b"x", b"")
            if wanted and _is_ours(self.read(address, len(wanted)), wanted)
        )

    def number(self, address: int) -> int:
        """A semaphore, as the kernel takes it: with a sign. Where it cannot be read nothing is to be raised."""
        data = self.read(address, 2)
        value = int.from_bytes(data, "little")
        return (value ^ _NEGATIVE) - _NEGATIVE if len(data) == 2 else _MOST

    def read(self, address: int, size: int) -> bytes:
        """The one place that reads a process's memory here; nothing where there is none, or it may never come."""
        try:
            return read(self._fd, size, address, self._pages) if self._pages >= 0 else b""
        except OSError:
            return b""

    def _addresses(self, inode: int, offset: int, letter: bytes, private: bytes) -> Iterator[int]:
        for mapping in self._every:
            if mapping.inode != inode or letter not in mapping.permissions or private not in mapping.permissions:
                continue
            if mapping.offset <= offset < mapping.offset + mapping.end - mapping.start:
                yield mapping.start + offset - mapping.offset

    def _of_file(self, spot: Spot) -> bytes:
        if spot.inode not in self._files:
            self._files[spot.inode] = -1
            with suppress(OSError):
                fd = self._files[spot.inode] = opened(spot.path)
                status = os.fstat(fd)
                if (status.st_dev, status.st_ino) != (spot.device, spot.inode):
                    os.close(fd)
                    self._files[spot.inode] = -1
        fd = self._files[spot.inode]
        try:
            return os.pread(fd, 4, spot.offset) if fd >= 0 else b""
        except OSError:
            return b""


def _is_ours(now: bytes, wanted: bytes) -> bool:
    if now[:1] == wanted[:1] or len(now) < len(wanted):
        return now[:4] != wanted[:4] and now[3:4] == b"\xd4"  # BRK of aarch64, whose first byte may be the same
    return now.startswith(_NEVER) or now[3:4] == b"\xd4" or wanted.startswith((b"\x0f\x1f", b"\x66"))


def _once_more(pid: int, spot: Spot, counted: Sequence[Spot]) -> None:
    """Puts a probe there that counts nothing, and takes it away: the kernel looks at all processes again. In between
    semaphores are raised, so that it is just before.
    """
    from tracer.kernel import perf

    try:
        file = opened(spot.path)
    except OSError:
        return
    try:
        status = os.fstat(file)
        if (status.st_dev, status.st_ino) == (spot.device, spot.inode):
            event = perf.uprobe_call(file, spot.offset, pid=pid, semaphore=spot.semaphore).make()
            for memory, here in _users(counted, [pid], only=True):
                memory.lift(here)
            os.close(event)
    except OSError:
        pass
    finally:
        os.close(file)
