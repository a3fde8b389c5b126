"""The code mappings of processes, now and earlier, which lead from addresses to files.

A process may have ended when its addresses are looked at. So its memory map is read early (`remember`), and the files
that it names are opened at once, each once however many processes map it. Maps grow by dlopen. Where exec, or a library
in the place of another, changes what an address means, a new one begins and the older are kept: for what was hit while
they held, and for older addresses. An address that is in no known map makes the map be read again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.resolve.processes.maps import Mapping, mappings
from tracer.resolve.processes.stat import identity
from tracer.resolve.symbols.jit_maps import jit_map
from tracer.resolve.symbols.modules import Module, Modules

_MAX_MAPS = 64
"""How many maps of one process are kept, with the present one."""
_MOST_SEEN = 1 << 16
_MOST_PROCESSES = 4096
_REFRESH_S = 0.05

Known = dict[int, Any]
"""Answers about addresses."""

_PID = (1 << 32) - 1


@dataclass(slots=True)
class Image:
    """The mappings of a process from a moment on (nanoseconds of CLOCK_MONOTONIC), and what was found out of addresses
    meanwhile: `here` where a thread is, `after` where a call returns to. `program`: which of its programs it runs.
    """

    since: int = 0
    mappings: tuple[Mapping, ...] = ()
    program: int = 1
    here: Known = field(default_factory=dict)
    after: Known = field(default_factory=dict)

    def hold(self, mappings: tuple[Mapping, ...]) -> None:
        """It holds these: what was found out need not be right any more."""
        self.mappings = mappings
        self.here.clear()
        self.after.clear()


@dataclass(slots=True)
class Process:
    """`missed` is how often records had been lost when its map was read last. `images` are the present one and then
    older ones; `program` is the number of the program that it runs, which an exec raises. By a program's number, 0 for
    the last that had it, and an address of stacks `seen` has what was mapped there when it was met, `names` its name.
    """

    started: int
    images: list[Image] = field(default_factory=list)
    read_at: float = 0.0
    owner: int = 0
    jit_path: str = ""
    missed: int = 0
    program: int = 1
    names: dict[tuple[int, int], Any] = field(default_factory=dict)
    seen: dict[tuple[int, int], Mapping] = field(default_factory=dict)

    def begin(self, since: int, mappings: tuple[Mapping, ...]) -> None:
        """From that moment on these are mapped."""
        self.images.insert(0, Image(since, mappings, self.program))
        del self.images[_MAX_MAPS:]
        self.names = {place: name for place, name in self.names.items() if place[0] or place in self.seen}

    def image(self, at: int) -> Image:
        """The one that held at a moment, the present one for 0."""
        for image in self.images:
            if image.since <= at or not at:
                return image
        return self.images[-1] if self.images else Image()

    def see(self, address: int, mapping: Mapping, program: int) -> None:
        """An address of a stack of that program lies there."""
        if len(self.seen) >= _MOST_SEEN:
            self.seen.clear()
        for place in ((0, address), (program, address)):
            before = self.seen.get(place)
            if before is not None and before != mapping:
                self.names.pop(place, None)
            self.seen[place] = mapping


class Processes:
    """The maps of any number of processes. Of very many those used last, the last ones at the end of the dict. `close`
    closes the files.
    """

    def __init__(self) -> None:
        self._known: dict[int, Process] = {}
        self.modules = Modules()
        self._missed = 0
        self.altered: set[int] = set()
        """Processes of whose addresses nothing that was found out need hold any more; whoever uses it empties it."""
        self.fresh: set[int] = set()
        """Processes that have mapped something since then; emptied likewise."""

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """Closes the files."""
        self.modules.close()

    def remember(self, pid: int, program: int = 1) -> None:
        """Takes note of what a process has mapped now, as that `program` of its where it was not known. A process that
        is gone, or not ours to read, is no error.
        """
        started = _started(pid)
        known = self._known.get(pid)
        if started is None:
            return
        if known is None or known.started not in (started, 0):
            known = self._add(pid, Process(started, missed=self._missed, program=program))
            known.jit_path, known.owner = jit_map(pid)
        self._read_maps(pid, known)

    def mapped(self, pid: int, mapping: Mapping, at: int = 0) -> None:
        """The process mapped this too at a moment, as a record of the kernel says: it need not exist any more."""
        process = self._known.get(pid)
        if process is None:
            process = self._add(pid, Process(_started(pid) or 0, missed=self._missed))
            process.jit_path, process.owner = jit_map(pid)
        current = process.images[0].mappings if process.images else ()
        kept = [each for each in current if each.end <= mapping.start or each.start >= mapping.end]
        now = tuple(sorted((*kept, mapping), key=lambda each: each.start))
        if now == current:
            pass  # it was read from /proc before this was told
        elif len(kept) < len(current) or not process.images:
            self.altered.add(pid)
            process.begin(at if process.images else 0, now)
        else:
            process.images[0].hold(now)
        self.fresh.add(pid)
        if mapping.file is not None:
            self.modules.of(pid, mapping)

    def executed(self, pid: int, at: int = 0) -> None:
        """The process runs another program from then on; what it had mapped still names older addresses."""
        process = self._known.get(pid)
        if process is not None and process.images:
            if process.missed != self._missed:  # of what was missed before nothing holds any more
                process.images, process.missed = [], self._missed
                process.seen.clear()
                process.names.clear()
            process.program += 1
            process.begin(at, ())
            self.altered.add(pid)

    def forked(self, pid: int, parent: int) -> None:
        """The process began as a copy of another."""
        self.altered.add(pid)
        known = self._known.get(parent)
        if known is not None and known.images:
            inherited = [Image(0, known.images[0].mappings)]
            child = Process(_started(pid) or 0, inherited, owner=known.owner, missed=known.missed)
            self._add(pid, child).jit_path = jit_map(pid)[0]

    def missed(self) -> None:
        """The recent mappings, execs and forks of processes are unknown: they are read again for each running process,
        and dropped for the others.
        """
        self._missed += 1

    def get(self, pid: int) -> Process | None:
        """The known mappings of a process, read now if there are none. None if it has ended unseen."""
        process = self._known.get(pid)
        if process is None:
            self.remember(pid)
            process = self._known.get(pid)
        elif process.missed != self._missed:
            del self._known[pid]
            self.remember(pid, process.program)
            process = self._known.get(pid)
        return process

    def find(
        self, pid: int, process: Process, address: int, image: Image | None = None, program: int = 0
    ) -> Mapping | None:
        """The mapping at an address in an image, else the one when a stack of the program had the address, else the
        last known one of that program, or of all programs for 0. `process` is what `get` gave.
        """
        mapping = _find((image,), address) if image is not None else process.seen.get((program, address))
        mapping = mapping or _find(process.images, address, program)
        if mapping is None and program in (0, process.program) and time.monotonic() - process.read_at > _REFRESH_S:
            self.remember(pid)
            mapping = _find(self._known.get(pid, process).images, address, program)
        return mapping

    def place(self, pid: int, mapping: Mapping, address: int) -> tuple[Module, int] | None:
        """The file of an address and the offset in it; None where it lies in no file."""
        if mapping.file is not None:
            module, offset = self.modules.of(pid, mapping), address - mapping.start + mapping.offset
        elif mapping.path == "[vdso]":
            module, offset = self.modules.vdso(), address - mapping.start
        else:
            return None
        return None if module is None else (module, offset)

    def _add(self, pid: int, process: Process) -> Process:
        """Keeps a process, in the place of that which has been kept for longest if there are too many."""
        self._known.pop(pid, None)
        if len(self._known) >= _MOST_PROCESSES:
            del self._known[next(iter(self._known))]
        self._known[pid] = process
        return process

    def _read_maps(self, pid: int, process: Process) -> None:
        process.read_at = time.monotonic()
        try:
            every = tuple(each for each in mappings(pid) if each.executable)
        except TracerError:
            return
        if not every or (process.images and process.images[0].mappings == every):
            return
        # Records tell of nearly all; this holds for what they did not tell of since the last one.
        process.begin(process.images[0].since if process.images else 0, every)
        self.fresh.add(pid)
        for each in every:
            if each.file is not None and each.file not in self.modules:
                self.modules.of(pid, each)


def space_of(pid: int, program: int) -> int:
    """The number of the address space in which a process runs that program of its; for 0 the process's own number."""
    return pid | program << 32


def process_of(space: int) -> tuple[int, int]:
    """The process of an address space, and the number of its program; 0 where it is not known which it was."""
    return space & _PID, space >> 32


def _find(images: Iterable[Image], address: int, program: int = 0) -> Mapping | None:
    for image in images:
        if not program or image.program == program:
            for each in image.mappings:
                if each.start <= address < each.end:
                    return each
    return None


def _started(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: tells it from a later one of the same number."""
    process = identity(pid)
    return None if process is None else process.started
