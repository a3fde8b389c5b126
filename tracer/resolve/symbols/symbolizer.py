"""Addresses of a process → names, for `ustack`, `usym` and `func`.

A process may have ended when its addresses are printed. So its memory map is read early (`remember`), the files it
names are opened at once, each once however many processes map it, and symbols are read from those open files when
first needed: that works for ended processes, deleted files and containers. Maps grow by dlopen and change by exec; an
address that is in no known map makes the map be read again, and older ones are kept for older addresses.

Names are as bpftrace prints them: `name+offset` with the offset in decimal, C++ names demangled, and the bare address
in hexadecimal where nothing is known.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import bisect_right

from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.layout import printable
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.processes.maps import Mapping, mappings, path_of, root

_MAX_MAPS = 8
"""How many earlier maps of one process are kept."""
_MOST_PROCESSES = 4096
_MOST_FILES = 256
_MOST_NAMES = 1 << 16
"""Of one process."""
_MOST_JIT_MAPS = 64
_REFRESH_S = 0.05
_MAX_JIT_MAP = 1 << 28


@dataclass(frozen=True, slots=True)
class Name:
    """What stands at an address: a function and the distance from its start in bytes. `module`: the file, or what the
    kernel calls the memory. An empty `function` says that nothing is known.
    """

    function: str
    offset: int
    module: str


@dataclass(slots=True)
class _Process:
    """`missed` is how often records had been lost when its map was read last."""

    started: int
    maps: list[tuple[Mapping, ...]] = field(default_factory=list)
    read_at: float = 0.0
    owner: int = 0
    jit_path: str = ""
    names: dict[int, Name] = field(default_factory=dict)
    missed: int = 0


class _Module:
    """An open file, or the kernel's [vdso], with its symbols read when first asked for."""

    def __init__(self, elf: Elf) -> None:
        from tracer.resolve.elf.debug_file import find_debug_file

        self.elf = elf
        self.version = elf.version
        self._symbols = Symbols(elf, find_debug_file)

    def name(self, file_offset: int) -> tuple[Function, int] | None:
        """The function at a file offset and the distance from its start."""
        address = self.elf.address_of(file_offset)
        try:
            function = self._symbols.at(address) if address is not None else None
        except TracerError:
            return None
        return None if function is None or address is None else (function, address - function.address)


_File = tuple[str, int]
"""Device and inode, as /proc/PID/maps has them."""


class Symbolizer:
    """Names addresses of any number of processes. Keeps their files open until `close`; of very many processes or files
    those used last, the last ones at the end of each dict. A file that was closed is opened again where it is the same.
    """

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._modules: dict[_File, _Module | None] = {}
        self._closed: dict[_File, object] = {}
        self._missed = 0
        self._vdso: _Module | None = None
        self._vdso_read = False
        self._jit: dict[str, tuple[tuple[int, int], list[int], list[tuple[int, int, str]]]] = {}

    def close(self) -> None:
        """Closes the files."""
        for module in self._modules.values():
            if module is not None:
                module.elf.close()

    def remember(self, pid: int) -> None:
        """Takes note of what a process has mapped now. A process that is gone, or not ours to read, is no error."""
        started = _started(pid)
        known = self._processes.get(pid)
        if started is None:
            return
        if known is None or known.started not in (started, 0):
            known = self._add(pid, _Process(started, missed=self._missed))
            known.jit_path, known.owner = _jit_map(pid)
        self._read_maps(pid, known)

    def mapped(self, pid: int, mapping: Mapping) -> None:
        """The process maps this too, as a record of the kernel says: it need not exist any more."""
        process = self._processes.get(pid)
        if process is None:
            process = self._add(pid, _Process(_started(pid) or 0, missed=self._missed))
            process.jit_path, process.owner = _jit_map(pid)
        current = process.maps[0] if process.maps else ()
        kept = (each for each in current if each.end <= mapping.start or each.start >= mapping.end)
        process.maps[:1] = [tuple(sorted((*kept, mapping), key=lambda each: each.start))]
        if mapping.file is not None:
            self._module(pid, mapping)

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
            self._add(pid, child).jit_path = _jit_map(pid)[0]

    def missed(self) -> None:
        """What processes have mapped, run and begun lately is not known: it is looked up anew for each that still runs,
        and forgotten of those that do not.
        """
        self._missed += 1

    def symbol(self, pid: int, address: int, offset: bool = True) -> str:
        """`name+offset`, without `offset` the name alone; `0x…` where nothing is known."""
        name = self.lookup(pid, address)
        if not name.function:
            return f"{address:#x}"
        return f"{name.function}+{name.offset}" if offset else name.function

    def lookup(self, pid: int, address: int) -> Name:
        """What stands at an address of a process."""
        process = self._processes.get(pid)
        if process is None:
            self.remember(pid)
            process = self._processes.get(pid)
            if process is None:
                return Name("", 0, "[unknown]")
        if process.missed != self._missed:
            process = self._looked_at_anew(pid)
            if process is None:
                return Name("", 0, "[unknown]")
        known = process.names.get(address)
        if known is not None:
            return known
        mapping = _find(process, address)
        if mapping is None and time.monotonic() - process.read_at > _REFRESH_S:
            self.remember(pid)
            process = self._processes[pid]
            mapping = _find(process, address)
        if mapping is None:
            return Name("", 0, "[unknown]")
        name = self._name(pid, process, mapping, address)
        if name.function:
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

    def _module(self, pid: int, mapping: Mapping) -> _Module | None:
        """The file of a mapping: open, or opened again; None where it cannot be had."""
        assert mapping.file is not None
        if mapping.file in self._modules:
            module = self._modules.pop(mapping.file)
        else:
            module = _open_mapped(pid, mapping, _root(pid))
            before = self._closed.pop(mapping.file, None)
            if module is not None and before is not None and module.version != before:
                module.elf.close()
                module = None
            if len(self._modules) >= _MOST_FILES:
                self._put_away(next(iter(self._modules)))
        self._modules[mapping.file] = module
        return module

    def _put_away(self, file: _File) -> None:
        module = self._modules.pop(file)
        if module is not None:
            module.elf.close()
            self._closed[file] = module.version
            if len(self._closed) > _MOST_NAMES:
                del self._closed[next(iter(self._closed))]

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
                self._module(pid, each)

    def _name(self, pid: int, process: _Process, mapping: Mapping, address: int) -> Name:
        if mapping.file is not None:
            module = self._module(pid, mapping)
            at = address - mapping.start + mapping.offset
        elif mapping.path == "[vdso]":
            module, at = self._kernel_module(), address - mapping.start
        else:
            module, at = None, 0
        found = module.name(at) if module is not None else None
        if found is None:
            # Just-in-time compilers keep their code in anonymous memory, or in files that they deleted.
            jit = self._jit_name(process, address)
            return jit if jit.function or not mapping.path else Name("", 0, mapping.path)
        return Name(_readable(found[0].name), found[1], mapping.path)

    def _kernel_module(self) -> _Module | None:
        """The [vdso], which the kernel maps alike into every process: read from our own memory."""
        if not self._vdso_read:
            self._vdso_read = True
            own = next((each for each in mappings(os.getpid()) if each.path == "[vdso]"), None)
            if own is not None:
                try:
                    with open("/proc/self/mem", "rb", buffering=0) as memory:
                        memory.seek(own.start)
                        self._vdso = _Module(Elf("[vdso]", memory.read(own.end - own.start)))
                except (OSError, TracerError):
                    self._vdso = None
        return self._vdso

    def _jit_name(self, process: _Process, address: int) -> Name:
        """From the file that just-in-time compilers write for perf: lines of start, size (hexadecimal) and name."""
        status = _trusted(process.jit_path, process.owner)
        if status is None:
            return Name("", 0, "[unknown]")
        version = (status.st_size, status.st_mtime_ns)
        if process.jit_path not in self._jit or self._jit[process.jit_path][0] != version:
            entries = _read_jit(process.jit_path)
            if len(self._jit) >= _MOST_JIT_MAPS:
                del self._jit[next(iter(self._jit))]
            self._jit[process.jit_path] = (version, [each[0] for each in entries], entries)
        _, starts, entries = self._jit[process.jit_path]
        index = bisect_right(starts, address) - 1
        if index >= 0 and address < entries[index][0] + entries[index][1]:
            return Name(entries[index][2], address - entries[index][0], process.jit_path)
        return Name("", 0, "[unknown]")


def _find(process: _Process, address: int) -> Mapping | None:
    for every in process.maps:
        for each in every:
            if each.start <= address < each.end:
                return each
    return None


def _started(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: tells it from a later one of the same number."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _open_mapped(pid: int, mapping: Mapping, prefix: str) -> _Module | None:
    """The mapped file itself, even where it was deleted; else (not root) the file at its path, if it is the same."""
    try:
        return _Module(Elf(mapping.path, descriptor=os.open(f"/proc/{pid}/map_files/{mapping.key}", os.O_RDONLY)))
    except (OSError, TracerError):
        pass
    path = path_of(pid, mapping, prefix)
    try:
        return _Module(Elf(path)) if path is not None else None
    except TracerError:
        return None


def _root(pid: int) -> str:
    """`root`, and our own for a process that has ended."""
    try:
        return root(pid)
    except TracerError:
        return ""


def _readable(name: str) -> str:
    if name[:2] not in ("_Z", "_R"):
        return name
    from tracer.resolve.symbols.demangle import demangler

    try:
        return demangler()(name) or name
    except TracerError:
        return name


def _jit_map(pid: int) -> tuple[str, int]:
    """Where a just-in-time compiler of the process writes its symbols, and who must own that file."""
    inner = pid
    owner = 0
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("NSpid:"):
                    inner = int(line.split()[-1])
                elif line.startswith("Uid:"):
                    owner = int(line.split()[2])
        prefix = root(pid)
    except (OSError, ValueError, TracerError):
        prefix = ""
    return f"{prefix}/tmp/perf-{inner}.map", owner


def _trusted(path: str, owner: int) -> os.stat_result | None:
    """The state of a map that its process's user (or root) wrote: anyone may create names in /tmp."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    ours = stat.S_ISREG(status.st_mode) and status.st_uid in (0, owner) and status.st_size <= _MAX_JIT_MAP
    return status if ours else None


def _read_jit(path: str) -> list[tuple[int, int, str]]:
    """The entries in order of address; of those at one address the last, for code is replaced."""
    entries: dict[int, tuple[int, int, str]] = {}
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(" ", 2)
                try:
                    start, size = int(fields[0], 16), int(fields[1], 16)
                    entries[start] = (start, size, printable(fields[2]))
                except (ValueError, IndexError):
                    continue
    except OSError:
        return []
    return [entries[start] for start in sorted(entries)]
