"""What processes have mapped as code, now and a while ago: from where their addresses lead into files.

A process may have ended when its addresses are looked at. So its memory map is read early (`remember`), and the files
that it names are opened at once, each once however many processes map it. Maps grow by dlopen and change by exec; an
address that is in no known map makes the map be read again, and older ones are kept for older addresses.
"""

from __future__ import annotations

import time
from typing import Any

from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.resolve.processes.maps import Mapping, mappings
from tracer.resolve.processes.stat import identity
from tracer.resolve.symbols.jit_maps import jit_map
from tracer.resolve.symbols.modules import Module, Modules

_MAX_MAPS = 8
"""How many earlier maps of one process are kept."""
_MOST_PROCESSES = 4096
_REFRESH_S = 0.05

Known = dict[int, Any]
"""What was found out about addresses."""


@dataclass(slots=True)
class Process:
    """`missed` is how often records had been lost when its map was read last. What is found out about its addresses is
    kept in `names`, which older maps can still give, and `here` and `after`, which hold for the present one alone.
    """

    started: int
    maps: list[tuple[Mapping, ...]] = field(default_factory=list)
    read_at: float = 0.0
    owner: int = 0
    jit_path: str = ""
    missed: int = 0
    names: Known = field(default_factory=dict)
    here: Known = field(default_factory=dict)
    after: Known = field(default_factory=dict)

    def changed(self) -> None:
        """What was found out about addresses need not hold any more."""
        self.here.clear()
        self.after.clear()


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

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """Closes the files."""
        self.modules.close()

    def remember(self, pid: int) -> None:
        """Takes note of what a process has mapped now. A process that is gone, or not ours to read, is no error."""
        started = _started(pid)
        known = self._known.get(pid)
        if started is None:
            return
        if known is None or known.started not in (started, 0):
            known = self._add(pid, Process(started, missed=self._missed))
            known.jit_path, known.owner = jit_map(pid)
        self._read_maps(pid, known)

    def mapped(self, pid: int, mapping: Mapping) -> None:
        """The process maps this too, as a record of the kernel says: it need not exist any more."""
        process = self._known.get(pid)
        if process is None:
            process = self._add(pid, Process(_started(pid) or 0, missed=self._missed))
            process.jit_path, process.owner = jit_map(pid)
        current = process.maps[0] if process.maps else ()
        kept = [each for each in current if each.end <= mapping.start or each.start >= mapping.end]
        if len(kept) < len(current):
            self.altered.add(pid)
        process.maps[:1] = [tuple(sorted((*kept, mapping), key=lambda each: each.start))]
        process.changed()
        if mapping.file is not None:
            self.modules.of(pid, mapping)

    def executed(self, pid: int) -> None:
        """The process runs another program from here on; what it had mapped still names older addresses."""
        process = self._known.get(pid)
        if process is not None and process.maps:
            # Of what was missed before nothing holds any more.
            older = process.maps[: _MAX_MAPS - 1] if process.missed == self._missed else []
            process.maps, process.missed = [(), *older], self._missed
            process.names.clear()
            process.changed()
            self.altered.add(pid)

    def forked(self, pid: int, parent: int) -> None:
        """The process began as a copy of another."""
        self.altered.add(pid)
        known = self._known.get(parent)
        if known is not None and known.maps:
            child = Process(_started(pid) or 0, [known.maps[0]], owner=known.owner, missed=known.missed)
            self._add(pid, child).jit_path = jit_map(pid)[0]

    def missed(self) -> None:
        """What processes have mapped, run and begun lately is not known: it is looked up anew for each that still runs,
        and forgotten of those that do not.
        """
        self._missed += 1

    def get(self, pid: int) -> Process | None:
        """What is known of a process; looked up where nothing is. None for one that is gone unseen."""
        process = self._known.get(pid)
        if process is None:
            self.remember(pid)
            process = self._known.get(pid)
        elif process.missed != self._missed:
            del self._known[pid]
            self.remember(pid)
            process = self._known.get(pid)
        return process

    def find(self, pid: int, process: Process, address: int) -> Mapping | None:
        """What is mapped at an address; of several the last known. `process` is what `get` gave."""
        mapping = _find(process, address)
        if mapping is None and time.monotonic() - process.read_at > _REFRESH_S:
            self.remember(pid)
            mapping = _find(self._known.get(pid, process), address)
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
        if not every or (process.maps and process.maps[0] == every):
            return
        process.maps = [every, *process.maps[: _MAX_MAPS - 1]]
        process.changed()
        for each in every:
            if each.file is not None and each.file not in self.modules:
                self.modules.of(pid, each)


def _find(process: Process, address: int) -> Mapping | None:
    for every in process.maps:
        for each in every:
            if each.start <= address < each.end:
                return each
    return None


def _started(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: tells it from a later one of the same number."""
    process = identity(pid)
    return None if process is None else process.started
