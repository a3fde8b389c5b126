"""USDT semaphores counted by hand, where the kernel does not (ref_ctr, Linux 4.20).

A semaphore is a 16-bit number in the writable data of a program or library: how many tracers are attached. The code
tests it before it passes the probe. Here it is found in a process, raised, and lowered again.

Where it may be written: in a mapping of that very file, private and writable, that holds the semaphore's file offset,
and belongs to a loaded image. The last is told by the addresses: the image is loaded at one distance from the addresses
in the file, so the probe's own code must be mapped executable at the same distance. Somebody who has mapped the file to
read or edit it has no such pair. A program loaded twice (dlmopen) has two, and both count.

/proc/PID/mem is opened once for a process and kept: the descriptor belongs to the memory, not to the number. After an
exec, or when the number has gone to another process, it reads nothing. Fork copies a raised semaphore; see `_heirs`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.host.maps import Mapping as Mapped, mappings, users
from tracer.host.memory import open_memory, read, write
from tracer.host.stat import Process, directory, facts_of, identity, pids

DIRECTORY = "/run/tracer"
"""Locked (flock(2)) while somebody counts: two tracers do not overwrite each other's number."""

SIZE = 2
_MOST = 0xFFFF
_BREAKPOINT = 0xCC  # of x86; nobody has looked on other processors whether the kernel leaves anything
_FORKNOEXEC = 0x40  # PF_FORKNOEXEC of linux/sched.h
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A semaphore of a file and one of its probes: file offsets, and virtual addresses as the file states them."""

    device: int
    inode: int
    offset: int
    address: int
    code_offset: int
    code_address: int


@dataclass(slots=True)
class _Image:
    """The memory of a process, where semaphores are up, and the auxiliary vector that its forks share with it."""

    process: Process
    memory: int
    auxv: bytes
    up: dict[int, Semaphore] = field(default_factory=dict)


def places(every: Sequence[Mapped], semaphore: Semaphore) -> dict[int, Mapped]:
    """The addresses of a semaphore in a process with these mappings, each with the mapping that holds it.

    That these map the file with the right inode is all that is known of the file here.
    """
    holders = {}
    code = [mapping for mapping in every if mapping.executable]
    for data in every:
        if data.file is None or data.file[1] != semaphore.inode or data.permissions[1:4:2] != "wp":
            continue
        if not (data.offset <= semaphore.offset and semaphore.offset + SIZE <= data.offset + data.end - data.start):
            continue
        address = data.start + semaphore.offset - data.offset
        distance = address - semaphore.address
        if any(
            mapping.file == data.file
            and mapping.start <= semaphore.code_address + distance < mapping.end
            and mapping.start + semaphore.code_offset - mapping.offset == semaphore.code_address + distance
            for mapping in code
        ):
            holders[address] = data
    return holders


def values_of(pid: int, semaphore: Semaphore) -> list[int]:
    """The values of a semaphore in a process, of each image that has it; none where that cannot be read."""
    try:
        memory = open_memory(pid)
    except OSError:
        return []
    try:
        return [value for address in _addresses(pid, (semaphore,)) if (value := _read(memory, address)) is not None]
    finally:
        os.close(memory)


def unraised(pid: int, semaphores: Iterable[Semaphore]) -> dict[int, Semaphore]:
    """The addresses of those of which another copy in the process is up, and this one is not."""
    try:
        memory = open_memory(pid)
    except OSError:
        return {}
    try:
        copies = _addresses(pid, semaphores)
        values = {address: (semaphore, _read(memory, address)) for address, semaphore in copies.items()}
    finally:
        os.close(memory)
    up = {semaphore for semaphore, value in values.values() if value}
    return {address: semaphore for address, (semaphore, value) in values.items() if value == 0 and semaphore in up}


class Counting:
    """The semaphores that one tracer has raised. Not thread-safe; the calls are `raise_all`, then `lower_all`.
    `copies`: only those that are `unraised`.
    """

    def __init__(self, semaphores: Iterable[Semaphore], directory: str = DIRECTORY, copies: bool = False) -> None:
        self._semaphores = tuple(semaphores)
        self._copies = copies
        self._directory = directory
        self._images: dict[int, _Image] = {}
        self._before: frozenset[Process] = frozenset()
        self.refused: dict[int, str] = {}
        """Processes that could not be written, and why."""

    def raise_all(self, processes: Sequence[int] = ()) -> int:
        """Raises all in some processes, or in every one that has such a file loaded; returns in how many processes.

        Raises `OSError` where the lock cannot be had.
        """
        self._before = frozenset(filter(None, map(identity, pids())))
        with _locked(self._directory):
            for pid in processes or users({one.inode for one in self._semaphores}):
                with self._refusing(pid):
                    self._find(pid)
            values = _values(self._images)
            for pid, image in self._images.items():
                with self._refusing(pid):
                    _raise(image, values)
        return sum(1 for image in self._images.values() if image.up)

    def lower_all(self) -> None:
        """Lowers what was raised, in forks too. Raises `OSError` where the lock cannot be had."""
        with _locked(self._directory):
            images = self._images | self._heirs()
            values = _values(images)
            for pid, image in images.items():
                _lower(image, {address for address in image.up if _read(image.memory, address) == values[pid, address]})
            self._images = images
            self._lower_late()
            if self._copies:
                self._settle()
        for image in self._images.values():
            os.close(image.memory)
        self._images.clear()

    def balance(self) -> None:
        """Prepares the copies for the kernel, before it lowers them: it takes off for each copy, and always from that
        of the lowest address. Where that is less than it takes, it leaves the breakpoints of all copies ("ref_ctr going
        negative", Linux 6.18). So the lowest one gets what the others have. Raises `OSError` where the lock cannot be
        had.
        """
        with _locked(self._directory):
            for image in self._images.values():
                for copies in _copies(image.process.pid, self._semaphores):
                    addresses = sorted(copies)
                    lowest, *others = [_read(image.memory, address) or 0 for address in addresses]
                    more = sum(others) - sum(address in image.up for address in addresses[1:])
                    if more > 0:
                        _write(image.memory, addresses[0], lowest + more)

    def _settle(self) -> None:
        """Ends the counts after the kernel lowered them: where no copy has a breakpoint any more, nobody counts, and
        what the kernel left goes.
        """
        for image in self._images.values():
            for addresses in _copies(image.process.pid, self._semaphores):
                code = (address - place.address + place.code_address for address, place in addresses.items())
                if not any(_read(image.memory, address, 1) == _BREAKPOINT for address in code):
                    for address in addresses:
                        if _read(image.memory, address):
                            _write(image.memory, address, 0)

    def _lower_late(self) -> None:
        """Processes that were forked while the others were lowered. A fork's semaphore is its parent's, or one more."""
        for _ in range(_ROUNDS):
            late = self._heirs()
            if not late:
                return
            for heir in late.values():
                kin = [image.memory for image in self._images.values() if image.auxv == heir.auxv]
                above = set()
                for address in heir.up:
                    values = [value for memory in kin if (value := _read(memory, address)) is not None]
                    if (_read(heir.memory, address) or 0) > min(values, default=0):
                        above.add(address)
                _lower(heir, above)
            self._images |= late

    def _find(self, pid: int) -> None:
        image = _open(pid)
        if image is None:
            return
        image.up = unraised(pid, self._semaphores) if self._copies else _addresses(pid, self._semaphores)
        if image.up:
            self._images[pid] = image
        else:
            os.close(image.memory)

    @contextmanager
    def _refusing(self, pid: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.refused[pid] = error.strerror or str(error)

    def _heirs(self) -> dict[int, _Image]:
        """Processes that were forked from a raised one since, and have its number in their copy of its memory.

        A fork that has not exec'd (PF_FORKNOEXEC) has the auxiliary vector of its parent, in it random addresses. Of
        those the heirs are the children of raised processes and of heirs; and the orphans, whose parent now is one of
        another program. An orphan's parent may have been another process of the family, which with -p was not raised:
        its number is then 0, and stays.
        """
        family = {image.auxv: image for image in self._images.values()}
        parents: dict[int, int] = {}
        opened: dict[int, _Image] = {}
        for pid in users({one.inode for one in self._semaphores}):
            facts = facts_of(pid)
            if pid in self._images or facts is None or not facts.flags & _FORKNOEXEC or facts.process in self._before:
                continue
            with suppress(OSError):
                image = _open(pid)
                if image is None:
                    continue
                if image.auxv not in family:
                    os.close(image.memory)
                    continue
                relative = family[image.auxv]
                here = _addresses(pid, self._semaphores)
                image.up = {address: semaphore for address, semaphore in here.items() if address in relative.up}
                opened[pid], parents[pid] = image, facts.parent
        heirs: dict[int, _Image] = {}
        rest = set(opened)
        while ours := {pid for pid in rest if self._inherits(opened[pid], parents[pid], heirs)}:
            heirs |= {pid: opened[pid] for pid in ours}
            rest -= ours
        for pid in rest:
            os.close(opened[pid].memory)
        return heirs

    def _inherits(self, image: _Image, parent: int, heirs: dict[int, _Image]) -> bool:
        raised = self._images.get(parent)
        if parent in heirs or (raised is not None and raised.process == identity(parent)):
            return True
        return _auxv(parent) != image.auxv


def _addresses(pid: int, semaphores: Iterable[Semaphore]) -> dict[int, Semaphore]:
    """The address of each semaphore in a process, in mappings of those very files."""
    try:
        every = mappings(pid)
    except TracerError:
        return {}
    return {
        address: semaphore
        for semaphore in semaphores
        for address, mapping in places(every, semaphore).items()
        if _maps(pid, mapping, semaphore)
    }


def _maps(pid: int, mapping: Mapped, semaphore: Semaphore) -> bool:
    """Whether a mapping is of the very file, device and inode. /proc/PID/maps has another device than stat(2) on btrfs
    and overlayfs; the file itself, behind this link, has not.
    """
    try:
        status = os.stat(f"{directory(pid)}/map_files/{mapping.key}")
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (semaphore.device, semaphore.inode)


def _values(images: Mapping[int, _Image]) -> dict[tuple[int, int], int | None]:
    """The numbers before any is written. A child between vfork and exec shares its parent's memory: there the number
    has changed when it comes to the second of them.
    """
    return {(pid, address): _read(image.memory, address) for pid, image in images.items() for address in image.up}


def _raise(image: _Image, values: Mapping[tuple[int, int], int | None]) -> None:
    """Raises the semaphores of a process, and notes which are up."""
    wanted, image.up = image.up, {}
    for address, semaphore in wanted.items():
        value = values[image.process.pid, address]
        if value is None or value == _MOST:
            continue
        if _read(image.memory, address) == value:
            write(image.memory, (value + 1).to_bytes(SIZE, "little"), address)
        image.up[address] = semaphore


def _lower(image: _Image, which: Iterable[int] | None = None) -> None:
    """Lowers the semaphores that are still mapped where they were."""
    wanted = set(image.up if which is None else which)
    if not any(_read(image.memory, address) for address in wanted):
        return  # the memory has gone: the process has ended or runs another program
    for address in wanted & _addresses(image.process.pid, set(image.up.values())).keys():
        value = _read(image.memory, address)
        if value:
            with suppress(OSError):
                write(image.memory, (value - 1).to_bytes(SIZE, "little"), address)


def _open(pid: int) -> _Image | None:
    """A process's memory; None where it has gone. Raises `OSError` where it may not be written."""
    try:
        memory = open_memory(pid, write=True)
    except (FileNotFoundError, ProcessLookupError):
        return None
    process, auxv = identity(pid), _auxv(pid)
    if process is None or not auxv:
        os.close(memory)
        return None
    return _Image(process, memory, auxv)


def _copies(pid: int, semaphores: Iterable[Semaphore]) -> list[dict[int, Semaphore]]:
    """The addresses of each semaphore of which there are several."""
    by_semaphore: dict[Semaphore, dict[int, Semaphore]] = {}
    for address, semaphore in _addresses(pid, semaphores).items():
        by_semaphore.setdefault(semaphore, {})[address] = semaphore
    return [copies for copies in by_semaphore.values() if len(copies) > 1]


def _read(memory: int, address: int, size: int = SIZE) -> int | None:
    """The number at an address; None where there is no memory any more."""
    try:
        data = read(memory, size, address)
    except OSError:
        return None
    return int.from_bytes(data, "little") if len(data) == size else None


def _write(memory: int, address: int, value: int) -> None:
    with suppress(OSError):
        write(memory, value.to_bytes(SIZE, "little"), address)


def _auxv(pid: int) -> bytes:
    try:
        with open(f"{directory(pid)}/auxv", "rb") as file:
            return file.read()
    except OSError:
        return b""


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
