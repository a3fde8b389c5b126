"""The code mappings of processes, now and earlier, which lead from addresses to files.

A process may have ended when its addresses are looked at. So its memory map is read early (`remember`), and the files
that it names are opened at once, each once however many processes map it. Maps grow by dlopen. Where exec, or a library
in the place of another, changes what an address means, a new one begins and the older are kept: for what was hit while
they held, and for older addresses. An address that is in no known map makes the map be read again.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.host.maps import Mapping, mappings
from tracer.host.stat import identity
from tracer.resolve.symbols.jit_maps import jit_map
from tracer.resolve.symbols.modules import Module, Modules

_MAX_MAPS = 64
"""How many maps of one process are kept, with the present one."""
_MOST_MOMENTS = 1 << 16
_MOST_SEEN = 1 << 16
_MOST_PROCESSES = 4096
_REFRESH_S = 0.05

Known = dict[int, Any]
"""Answers about addresses."""

_PID = (1 << 32) - 1
_state = attrgetter("state")
_start = attrgetter("start")


@dataclass(slots=True)
class Image:
    """The mappings of a process from some moments on, each until the next, and what was found out of addresses
    meanwhile: `here` where a thread is, `after` where a call returns to, and in which state they first had the same
    mappings (`states`) or name (`firsts`).
    `state`: the number of these mappings, `program`: which of its programs the process runs.
    """

    mappings: tuple[Mapping, ...] = ()
    state: int = 1
    program: int = 1
    here: Known = field(default_factory=dict)
    after: Known = field(default_factory=dict)
    states: dict[tuple[int, ...], int] = field(default_factory=dict)
    firsts: dict[int, int] = field(default_factory=dict)
    narrow: bool | None = None
    """Whether its programs are of 32 bits; None where no file has been asked yet."""

    def hold(self, mappings: tuple[Mapping, ...]) -> None:
        """Notes that it holds these: what was found out need not be right any more."""
        self.mappings = mappings
        self.here.clear()
        self.after.clear()
        self.states.clear()
        self.firsts.clear()

    def number(self, address: int) -> int:
        """The `number_of` what is mapped at an address; 0 for nothing."""
        mapping = _find((self,), address)
        return 0 if mapping is None else number_of(mapping)


@dataclass(slots=True)
class Process:
    """`missed` is how often records had been lost when its map was read last. `images` are the present one and then
    those that held last; from each of the `moments` on one of them did (`held`). `program` is the number of the program
    that it runs, which an exec raises, and `state` the last number of mappings of which some took another's place. By
    such a number, 0 for the last that had it, and an address `seen` has what was mapped there when a stack had it,
    `names` its name.
    """

    started: int
    images: list[Image] = field(default_factory=list)
    read_at: float = 0.0
    owner: int = 0
    jit_path: str = ""
    missed: int = 0
    program: int = 1
    state: int = 1
    moments: list[int] = field(default_factory=list)
    held: list[Image] = field(default_factory=list)
    names: dict[tuple[int, int], Any] = field(default_factory=dict)
    seen: dict[tuple[int, int], Mapping] = field(default_factory=dict)

    def begin(self, since: int, mappings: tuple[Mapping, ...]) -> None:
        """Notes that these are mapped from that moment on (nanoseconds of CLOCK_MONOTONIC), perhaps once more."""
        again = (image for image in self.images if image.program == self.program and image.mappings == mappings)
        image = next(again, None)
        if image is None:
            self.state += bool(self.images)
            image = Image(mappings, self.state, self.program)
        else:
            self.images.remove(image)
        self.images.insert(0, image)
        del self.images[_MAX_MAPS:]
        self.moments.append(since)
        self.held.append(image)
        if len(self.moments) > _MOST_MOMENTS:
            del self.moments[: _MOST_MOMENTS // 2], self.held[: _MOST_MOMENTS // 2]
        self.names = {place: name for place, name in self.names.items() if place[0] or place in self.seen}

    def image(self, moment: int) -> Image:
        """The one that held at a moment, the present one for 0."""
        if not moment or not self.images:
            return self.images[0] if self.images else Image()
        index = bisect_right(self.moments, moment) - 1
        return self.held[index] if index >= 0 else min(self.images, key=_state)

    def oldest(self, image: Image, addresses: tuple[int, ...]) -> int:
        """The number of the first state in which the same was mapped at these addresses: they mean the same there, and
        one number says so however often something else has come and gone.
        """
        if len(self.images) < 2:
            return image.state
        state = image.states.get(addresses)
        if state is None:
            if len(image.states) >= _MOST_SEEN:
                image.states.clear()
            here = [(address, _find((image,), address)) for address in addresses]
            state = image.states[addresses] = next(
                candidate.state
                for candidate in sorted(self.images, key=_state)
                if candidate.state == image.state
                or all(_is_same(mapping, image, _find((candidate,), address), candidate) for address, mapping in here)
            )
        return state

    def see(self, address: int, mapping: Mapping, state: int) -> None:
        """An address of a stack in that state lies there."""
        if len(self.seen) >= _MOST_SEEN:
            self.seen.clear()
        for place in ((0, address), (state, address)):
            before = self.seen.get(place)
            if before is not None and before != mapping:
                self.names.pop(place, None)
            self.seen[place] = mapping


class Processes:
    """The maps of processes. Of very many it keeps those used last, in the order of their last use. `close`
    closes the files.
    """

    def __init__(self) -> None:
        self._processes: dict[int, Process] = {}
        self.modules = Modules()
        self._missed = 0
        self.altered: set[int] = set()
        """Processes of whose addresses nothing that was found out need hold any more; whoever uses it empties it."""
        self.fresh: set[int] = set()
        """Processes that have mapped something since then; emptied likewise."""

    def __len__(self) -> int:
        return len(self._processes)

    def close(self) -> None:
        """Closes the files."""
        self.modules.close()

    def remember(self, pid: int, before: Process | None = None) -> None:
        """Takes note of what a process has mapped now; its numbers go on where they were `before`. A process that is
        gone, or not ours to read, is no error.
        """
        started = _started(pid)
        process = self._processes.get(pid)
        if started is None:
            return
        if process is None or process.started not in (started, 0):
            process = self._add(pid, Process(started, missed=self._missed))
            if before is not None:
                process.program, process.state = before.program, before.state
            process.jit_path, process.owner = jit_map(pid)
        self._read_maps(pid, process)

    def mapped(self, pid: int, mapping: Mapping, moment: int = 0) -> None:
        """The process mapped this too at a moment, as a record of the kernel says: it need not exist any more."""
        process = self._processes.get(pid)
        if process is None:
            process = self._add(pid, Process(_started(pid) or 0, missed=self._missed))
            process.jit_path, process.owner = jit_map(pid)
        current = process.images[0].mappings if process.images else ()
        kept = [older for older in current if older.end <= mapping.start or older.start >= mapping.end]
        now = tuple(sorted((*kept, mapping), key=_start))
        if now == current:
            pass  # it was read from /proc before this was told
        elif len(kept) < len(current) or not process.images:
            self.altered.add(pid)
            process.begin(moment if process.images else 0, now)
        else:
            process.images[0].hold(now)
        self.fresh.add(pid)
        self._open(pid, mapping)

    def executed(self, pid: int, moment: int = 0) -> None:
        """The process runs another program from then on; what it had mapped still names older addresses."""
        process = self._processes.get(pid)
        if process is not None and process.images:
            if process.missed != self._missed:  # of what was missed before nothing holds any more
                process.images, process.missed = [], self._missed
                process.moments.clear()
                process.held.clear()
                process.seen.clear()
                process.names.clear()
            process.program += 1
            process.state += not process.images
            process.begin(moment, ())
            self.altered.add(pid)

    def forked(self, pid: int, parent: int) -> None:
        """The process began as a copy of another."""
        self.altered.add(pid)
        original = self._processes.get(parent)
        if original is not None and original.images:
            inherited = [Image(original.images[0].mappings)]
            child = Process(_started(pid) or 0, inherited, owner=original.owner, missed=original.missed)
            self._add(pid, child).jit_path = jit_map(pid)[0]

    def missed(self) -> None:
        """The recent mappings, execs and forks of processes are unknown: they are read again for each running process,
        and dropped for the others.
        """
        self._missed += 1

    def get(self, pid: int) -> Process | None:
        """The known mappings of a process, read now if there are none. None if it has ended unseen."""
        process = self._processes.get(pid)
        if process is None:
            self.remember(pid)
            process = self._processes.get(pid)
        elif process.missed != self._missed:
            del self._processes[pid]
            self.remember(pid, process)
            process = self._processes.get(pid)
        return process

    def find(
        self, pid: int, process: Process, address: int, image: Image | None = None, state: int = 0
    ) -> Mapping | None:
        """The mapping at an address in an image, else the one when a stack in that state had the address, else the one
        of that state, or the last known for 0. `process` is what `get` gave.
        """
        mapping = _find((image,), address) if image is not None else process.seen.get((state, address))
        mapping = mapping or _find(process.images, address, state)
        present = state in (0, process.images[0].state if process.images else state)
        if mapping is None and present and time.monotonic() - process.read_at > _REFRESH_S:
            self.remember(pid)
            mapping = _find(self._processes.get(pid, process).images, address, state)
        return mapping

    def is_narrow(self, pid: int, image: Image) -> bool:
        """Whether an image is of a 32-bit program."""
        if image.narrow is None:
            files = (mapping for mapping in image.mappings if mapping.file is not None)
            modules = filter(None, (self.modules.of(pid, mapping) for mapping in files))
            module = next(modules, None)
            if module is None:
                return False
            image.narrow = module.elf.word == 4
        return image.narrow

    def place(self, pid: int, mapping: Mapping, address: int) -> tuple[Module, int] | None:
        """The file of an address and the offset in it; None where it lies in no file."""
        if mapping.file is not None:
            module, offset = self.modules.of(pid, mapping), address - mapping.start + mapping.offset
        elif mapping.path == "[vdso]":
            module, offset = self.modules.vdso(pid, mapping), address - mapping.start
        else:
            return None
        return None if module is None else (module, offset)

    def _add(self, pid: int, process: Process) -> Process:
        """Keeps a process, in the place of that which has been kept for longest if there are too many."""
        self._processes.pop(pid, None)
        if len(self._processes) >= _MOST_PROCESSES:
            del self._processes[next(iter(self._processes))]
        self._processes[pid] = process
        return process

    def _read_maps(self, pid: int, process: Process) -> None:
        process.read_at = time.monotonic()
        try:
            every = tuple(mapping for mapping in mappings(pid) if mapping.executable)
        except TracerError:
            return
        if not every or (process.images and process.images[0].mappings == every):
            return
        # Records tell of nearly all; this holds for what they did not tell of since the last one.
        if process.images and set(process.images[0].mappings) <= set(every):
            process.images[0].hold(every)
        else:
            process.begin(process.moments[-1] if process.moments else 0, every)
        self.fresh.add(pid)
        for mapping in every:
            self._open(pid, mapping)

    def _open(self, pid: int, mapping: Mapping) -> None:
        """Opens what is mapped while it is there."""
        if mapping.file is not None:
            if mapping.file not in self.modules:
                self.modules.of(pid, mapping)
        elif mapping.path == "[vdso]" and mapping.end <= 1 << 32:
            self.modules.vdso(pid, mapping)  # of a 32-bit process: nobody else may have it


def space_of(pid: int, state: int) -> int:
    """The number of the address space of a process in a state of its mappings; for 0 the process's own number."""
    return pid | state << 32


def process_of(space: int) -> tuple[int, int]:
    """The process of an address space, and the number of its state; 0 where it is not known which it was."""
    return space & _PID, space >> 32


def number_of(mapping: Mapping) -> int:
    """A number of 32 bits for a mapping, as `bpf_programs/places.h` has it; 0 for what is of no file."""
    if mapping.file is None:
        return 0
    moved = (mapping.start >> 12) - (mapping.offset >> 12)
    return (mapping.file[1] ^ moved * 0x9E3779B1) & 0xFFFF_FFFF


def _is_same(one: Mapping | None, image: Image, other: Mapping | None, before: Image) -> bool:
    """Whether the same lies at an address; of what is no file, in the same program."""
    if one is None or other is None or one.file is None or other.file is None:
        return one == other and image.program == before.program
    return (one.file, one.start, one.offset) == (other.file, other.start, other.offset)


def _find(images: Iterable[Image], address: int, state: int = 0) -> Mapping | None:
    for image in images:
        if not state or image.state == state:
            for mapping in image.mappings:
                if mapping.start <= address < mapping.end:
                    return mapping
    return None


def _started(pid: int) -> int | None:
    """The start of the process in clock ticks since boot, which tells it from a later one of the same number."""
    process = identity(pid)
    return None if process is None else process.started
