"""Addresses of a process → names, for `ustack`, `usym` and `func`.

A process may have ended when its addresses are printed. So its memory map is read early (`remember`), the files it
names are opened at once, each once however many processes map it, and symbols are read from those open files when
first needed: that works for ended processes, deleted files and containers. Maps grow by dlopen and change by exec; an
address that is in no known map makes the map be read again, and older ones are kept for older addresses.

Names are as bpftrace prints them: `name+offset` with the offset in decimal, C++ names demangled, and the bare address
in hexadecimal where nothing is known.
"""

from __future__ import annotations

import time

from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.resolve.processes.maps import Mapping, mappings
from tracer.resolve.processes.stat import identity
from tracer.resolve.symbols.jit_maps import JitMaps, jit_map
from tracer.resolve.symbols.modules import Modules

_MAX_MAPS = 8
"""How many earlier maps of one process are kept."""
_MOST_PROCESSES = 4096
_MOST_NAMES = 1 << 16
"""Of one process."""
_REFRESH_S = 0.05


_Name = tuple[str, int]
"""A function, and the distance from its start in bytes."""


@dataclass(slots=True)
class _Process:
    """`missed` is how often records had been lost when its map was read last."""

    started: int
    maps: list[tuple[Mapping, ...]] = field(default_factory=list)
    read_at: float = 0.0
    owner: int = 0
    jit_path: str = ""
    names: dict[int, _Name] = field(default_factory=dict)
    missed: int = 0


class Symbolizer:
    """Names addresses of any number of processes. Keeps their files open until `close`; of very many processes or files
    those used last, the last ones at the end of each dict. A file that was closed is opened again where it is the same.
    """

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._modules = Modules()
        self._jit_maps = JitMaps()
        self._missed = 0

    def close(self) -> None:
        """Closes the files."""
        self._modules.close()

    def remember(self, pid: int) -> None:
        """Takes note of what a process has mapped now. A process that is gone, or not ours to read, is no error."""
        started = _started(pid)
        known = self._processes.get(pid)
        if started is None:
            return
        if known is None or known.started not in (started, 0):
            known = self._add(pid, _Process(started, missed=self._missed))
            known.jit_path, known.owner = jit_map(pid)
        self._read_maps(pid, known)

    def mapped(self, pid: int, mapping: Mapping) -> None:
        """The process maps this too, as a record of the kernel says: it need not exist any more."""
        process = self._processes.get(pid)
        if process is None:
            process = self._add(pid, _Process(_started(pid) or 0, missed=self._missed))
            process.jit_path, process.owner = jit_map(pid)
        current = process.maps[0] if process.maps else ()
        kept = (each for each in current if each.end <= mapping.start or each.start >= mapping.end)
        process.maps[:1] = [tuple(sorted((*kept, mapping), key=lambda each: each.start))]
        if mapping.file is not None:
            self._modules.of(pid, mapping)

    def executed(self, pid: int) -> None:
        """The process runs another program from here on; what it had mapped still names older addresses."""
        process = self._processes.get(pid)
        if process is not None and process.maps:
            # Of what was missed before nothing holds any more.
            older = process.maps[: _MAX_MAPS - 1] if process.missed == self._missed else []
            process.maps, process.missed = [(), *older], self._missed
            process.names.clear()

    def forked(self, pid: int, parent: int) -> None:
        """The process began as a copy of another."""
        known = self._processes.get(parent)
        if known is not None and known.maps:
            child = _Process(_started(pid) or 0, [known.maps[0]], owner=known.owner, missed=known.missed)
            self._add(pid, child).jit_path = jit_map(pid)[0]

    def missed(self) -> None:
        """What processes have mapped, run and begun lately is not known: it is looked up anew for each that still runs,
        and forgotten of those that do not.
        """
        self._missed += 1

    def symbol(self, pid: int, address: int, offset: bool = True) -> str:
        """`name+offset`, without `offset` the name alone; `0x…` where nothing is known."""
        name = self._look_up(pid, address)
        if name is None:
            return f"{address:#x}"
        return f"{name[0]}+{name[1]}" if offset else name[0]

    def _look_up(self, pid: int, address: int) -> _Name | None:
        process = self._processes.get(pid)
        if process is None:
            self.remember(pid)
            process = self._processes.get(pid)
            if process is None:
                return None
        if process.missed != self._missed:
            process = self._looked_at_anew(pid)
            if process is None:
                return None
        known = process.names.get(address)
        if known is not None:
            return known
        mapping = _find(process, address)
        if mapping is None and time.monotonic() - process.read_at > _REFRESH_S:
            self.remember(pid)
            process = self._processes[pid]
            mapping = _find(process, address)
        name = None if mapping is None else self._name(pid, process, mapping, address)
        if name is not None:
            if len(process.names) >= _MOST_NAMES:
                process.names.clear()
            process.names[address] = name
        return name

    def _add(self, pid: int, process: _Process) -> _Process:
        """Keeps a process, in the place of that which has been kept for longest if there are too many."""
        self._processes.pop(pid, None)
        if len(self._processes) >= _MOST_PROCESSES:
            del self._processes[next(iter(self._processes))]
        self._processes[pid] = process
        return process

    def _looked_at_anew(self, pid: int) -> _Process | None:
        """A process after records were lost; None for one that has ended."""
        del self._processes[pid]
        self.remember(pid)
        return self._processes.get(pid)

    def _read_maps(self, pid: int, process: _Process) -> None:
        process.read_at = time.monotonic()
        try:
            every = tuple(each for each in mappings(pid) if each.executable)
        except TracerError:
            return
        if not every or (process.maps and process.maps[0] == every):
            return
        process.maps = [every, *process.maps[: _MAX_MAPS - 1]]
        for each in every:
            if each.file is not None and each.file not in self._modules:
                self._modules.of(pid, each)

    def _name(self, pid: int, process: _Process, mapping: Mapping, address: int) -> _Name | None:
        if mapping.file is not None:
            module = self._modules.of(pid, mapping)
            at = address - mapping.start + mapping.offset
        elif mapping.path == "[vdso]":
            module, at = self._modules.vdso(), address - mapping.start
        else:
            module, at = None, 0
        found = module.name(at) if module is not None else None
        if found is None:
            # Just-in-time compilers keep their code in anonymous memory, or in files that they deleted.
            return self._jit_maps.name(process.jit_path, process.owner, address)
        return _readable(found[0].name), found[1]


def _find(process: _Process, address: int) -> Mapping | None:
    for every in process.maps:
        for each in every:
            if each.start <= address < each.end:
                return each
    return None


def _started(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: tells it from a later one of the same number."""
    process = identity(pid)
    return None if process is None else process.started


def _readable(name: str) -> str:
    if name[:2] not in ("_Z", "_R"):
        return name
    from tracer.resolve.symbols.demangle import demangler

    try:
        return demangler()(name) or name
    except TracerError:
        return name
