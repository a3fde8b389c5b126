"""Addresses of a process → names, for `ustack`, `usym` and `func`.

Symbols are read from the files that `processes` holds open when they are first needed: that works for ended processes,
deleted files and containers.

Names are as bpftrace prints them: `name+offset` with the offset in decimal, C++ names demangled, and the bare address
in hexadecimal where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.errors import TracerError
from tracer.host.maps import Mapping
from tracer.resolve.symbols.jit_maps import JitMaps
from tracer.resolve.symbols.modules import Module
from tracer.resolve.symbols.processes import Image, Process, Processes, process_of, space_of

_MOST_NAMES = 1 << 16
"""The most names that are kept of one process."""

_RESTORERS = ("__restore_rt", "__kernel_rt_sigreturn")

_Name = tuple[str, int]
"""A function, and the distance from its start in bytes."""


class Symbolizer:
    """Names addresses of the processes of which `processes` tells. What is called `pid` may be the number of an address
    space (`processes.space_of`), as stacks and symbols have it: then names are those of what was mapped there. Who
    `hurries` may get none of just-in-time code.
    """

    def __init__(
        self, processes: Processes, demangled: bool = True, hurries: Callable[[], bool] = lambda: False
    ) -> None:
        self.processes = processes
        self._demangled = demangled
        self._jit_maps = JitMaps(hurries)

    @property
    def cut(self) -> set[str]:
        """The files with names of just-in-time code that were too long to be read whole."""
        return self._jit_maps.cut

    def symbol(self, pid: int, address: int, offset: bool = True, returned: bool = False) -> str:
        """`name+offset`, without `offset` the name alone; `0x…` where nothing is known.

        `returned`: a call returns to the address. Behind a call that never returns the function may end, so where no
        function is, or one begins, it is the one before. A signal handler returns to the start of `__restore_rt`.
        """
        name = self._look_up(pid, address)
        if returned and (name is None or (not name[1] and name[0] not in _RESTORERS)):
            caller = self._look_up(pid, address - 1)
            name = name if caller is None else (caller[0], caller[1] + 1)
        if name is None:
            return f"{address:#x}"
        return f"{name[0]}+{name[1]}" if offset else name[0]

    def space_at(self, pid: int, address: int, moment: int = 0) -> int:
        """The address space of a process in which an address has the name that it had at a moment (CLOCK_MONOTONIC,
        nanoseconds; 0 for now). It is one number for one name, whatever was loaded in between.
        """
        process = self.processes.get(pid)
        if process is None or not process.images:
            return pid
        image = process.image(moment)
        return space_of(pid, image.state) if len(process.images) == 1 else self._first(pid, process, image, address)

    def space_with(self, pid: int, address: int, number: int) -> int:
        """The address space while the mapping there had that `number` (`processes.number_of`; 0 if not known)."""
        process = self.processes.get(pid)
        if process is None or not process.images:
            return pid
        image = process.images[0]
        if number and len(process.images) > 1:
            image = next((older for older in process.images if older.number(address) == number), image)
        return space_of(pid, image.state) if len(process.images) == 1 else self._first(pid, process, image, address)

    def _first(self, pid: int, process: Process, image: Image, address: int) -> int:
        """The first state in which the address had the name that it has in an image."""
        state = image.firsts.get(address)
        if state is None:
            name = self._look_up(space_of(pid, image.state), address)
            state = process.oldest(image, (address,))
            for other in sorted(process.images, key=lambda other: other.state):
                if other.state == image.state or state == other.state:
                    break
                if name is not None and name == self._look_up(space_of(pid, other.state), address):
                    state = other.state
                    break
            image.firsts[address] = state
        return space_of(pid, state)

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        """The functions that were inlined there, innermost first, and last the one that `symbol` names, each with
        `file:line` as far as debug information knows it; nothing where it knows nothing.
        """
        # What is going on in a caller is the call, not what follows it.
        address -= returned
        place = self._place(pid, address)
        sources = () if place is None else place[0].sources(place[1])
        return [
            (self._shown(name), f"{path or '?'}:{line}" if path or line else "") for name, path, line in sources
        ]

    def interrupts(self, pid: int, address: int) -> bool:
        """Whether a signal's handler returns there, as unwind tables say it."""
        place = self._place(pid, address - 1)
        rule = None if place is None else place[0].rule(place[1])
        return rule is not None and rule.signal

    def path(self, pid: int, address: int) -> str | None:
        """The path of the file that is mapped there, as the process sees it; None where none is known."""
        mapping = self.mapping(pid, address)
        return mapping.path if mapping is not None and mapping.path else None

    def mapping(self, pid: int, address: int) -> Mapping | None:
        """The mapping there; None if none is known."""
        pid, state = process_of(pid)
        process = self.processes.get(pid)
        return None if process is None else self.processes.find(pid, process, address, state=state)

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        """The build-id of that file in hexadecimal and the offset in it in bytes; None where it has none."""
        place = self._place(pid, address)
        build_id = None if place is None else place[0].elf.build_id
        return None if place is None or build_id is None else (build_id, place[1])

    def _place(self, pid: int, address: int) -> tuple[Module, int] | None:
        mapping = self.mapping(pid, address)
        return None if mapping is None else self.processes.place(process_of(pid)[0], mapping, address)

    def _look_up(self, pid: int, address: int) -> _Name | None:
        pid, state = process_of(pid)
        process = self.processes.get(pid)
        if process is None:
            return None
        remembered: _Name | None = process.names.get((state, address))
        if remembered is not None:
            return remembered
        name = self._name(pid, process, state, address)
        if name is not None:
            if len(process.names) >= _MOST_NAMES:
                process.names.clear()
            process.names[state, address] = name
        return name

    def _name(self, pid: int, process: Process, state: int, address: int) -> _Name | None:
        mapping = self.processes.find(pid, process, address, state=state)
        if mapping is None:
            return None
        place = self.processes.place(pid, mapping, address)
        symbol = place[0].name(place[1]) if place is not None else None
        if symbol is None:
            # Just-in-time compilers keep their code in anonymous memory, or in files that they deleted.
            return self._jit_maps.name(process.jit_path, process.owner, address)
        return self._shown(symbol[0].name), symbol[1]

    def _shown(self, name: str) -> str:
        return _readable(name) if self._demangled else name


def _readable(name: str) -> str:
    if name[:2] not in ("_Z", "_R"):
        return name
    from tracer.resolve.symbols.demangle import demangler

    try:
        return demangler()(name) or name
    except TracerError:
        return name
