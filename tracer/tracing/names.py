"""Names for addresses, as `render` asks for them, of processes that may have ended by then."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from tracer.errors import counted
from tracer.lang.typed import UStack, USym
from tracer.lang.types import StackType, Symbol, is_interpreted, is_of_kernel
from tracer.lang.walk import walk_clause
from tracer.render.notices import Detail, Notice, StacksBroken

if TYPE_CHECKING:
    from tracer.host.maps import Mapping
    from tracer.host.tables.kallsyms import KernelSymbols
    from tracer.kernel.mapping_records import MappingRecords
    from tracer.kinds.site import Target
    from tracer.plan.model import Plan
    from tracer.resolve.interpreters.frames import Interpreters
    from tracer.resolve.symbols.processes import Processes
    from tracer.resolve.symbols.symbolizer import Symbolizer
    from tracer.resolve.symbols.unwinder import Unwinder

_LONGEST_COPY = 65024
"""Bytes of a stack at most that come with a sample, or with a record of bcc."""


_CUT = "{} is too long: functions that its last 64 MiB do not name have no names"
_LACKING = "they were hit just as it began or ended, or their memory could not be read"

RECORDS_LOST = "{} of what processes map lost: addresses of those that have ended may have no names"


class Names:
    """Symbol tables are read when the first name is asked for; what processes map is taken note of from the start."""

    def __init__(self, plan: Plan, target: Target, hurries: Callable[[], bool] = lambda: False) -> None:
        self._hurries = hurries
        self._processes: Processes | None = None
        self._symbolizer: Symbolizer | None = None
        self._unwinder: Unwinder | None = None
        self._records: MappingRecords | None = None
        self.missed: int | None = None
        """Records of what processes mapped that found no room, as far as they are counted, None where there was always
        room: what ended before it was looked at has no names.
        """
        self._config = plan.program.config
        nodes = [node for probe in plan.probes for node in walk_clause(probe.clause)]
        wanted = {type(node) for node in nodes}
        self._copied = plan.program.config.stack_copy
        self._stacks = plan.walks_stacks
        self._symbols = USym in wanted
        self._interpreted = any(
            isinstance(node, UStack) and isinstance(node.type, StackType) and node.type.interpreted for node in nodes
        )
        self._interpreters: Interpreters | None = None
        self._kernel: KernelSymbols | None = None
        self._unnamed = ""
        if UStack in wanted or USym in wanted:
            # Now, and not when the first name is wanted: then there may be no descriptor for it.
            from tracer.resolve.symbols import symbolizer
            from tracer.resolve.unwind import unwind_tables

            self._needs = symbolizer, unwind_tables
            self._begin(plan, target)

    @property
    def kernel(self) -> KernelSymbols:
        """The object that names addresses of the kernel."""
        if self._kernel is None:
            from tracer.host.tables.kallsyms import KernelSymbols

            self._kernel = KernelSymbols()
        return self._kernel

    def symbol(self, pid: int, address: int) -> str:
        """The function alone."""
        if is_of_kernel(address):
            return self.kernel.symbol(address)
        return self._named(pid, address, offset=False)

    def place(self, pid: int, address: int, moment: int) -> Symbol:
        """See `backends.Places`."""
        return Symbol(self._current().space_at(pid, address, moment), address)

    def placed(self, pid: int, address: int, mapping: int) -> Symbol:
        """See `backends.Places`."""
        return Symbol(self._current().space_with(pid, address, mapping), address)

    @property
    def places(self) -> Names | None:
        """The object that keeps symbols as they were at the hit; None where no clause wants any."""
        return self if self._symbols else None

    def frame(self, pid: int, address: int, returned: bool = False) -> str:
        """The function and the distance from its start; of an interpreter's its file and line."""
        if self._interpreters is not None and is_interpreted(address):
            return self._interpreters.text(address)
        if is_of_kernel(address):
            return self.kernel.frame(address, returned)
        return self._named(pid, address, returned=returned)

    def _named(self, pid: int, address: int, offset: bool = True, returned: bool = False) -> str:
        try:
            return self._current().symbol(pid, address, offset, returned)
        except (OSError, ImportError, MemoryError) as error:
            from tracer.failed_calls import described  # `beside` has loaded it

            if not self._unnamed:
                self._unnamed = described(error) if isinstance(error, OSError) else str(error) or type(error).__name__
            return f"{address:#x}"

    def interrupts(self, pid: int, address: int) -> bool:
        """Whether a signal's handler returns there; frame pointers lead past the frame that it stopped."""
        if not self._stacks or is_interpreted(address) or is_of_kernel(address):
            return False
        return self._current().interrupts(pid, address)

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        """The functions that are inlined at an address, with lines, where that is asked for."""
        if not self._config.show_debug_info or is_interpreted(address) or is_of_kernel(address):
            return []
        return self._current().sources(pid, address, returned)

    def path(self, pid: int, address: int) -> str | None:
        """The file that is mapped there, or that of an interpreter's function."""
        if self._interpreters is not None and is_interpreted(address):
            function = self._interpreters.function(address)
            return None if function is None else function.file
        if is_of_kernel(address):
            return self.kernel.module(address)
        return self._current().path(pid, address)

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        """The build-id of the file at an address, and the offset in it."""
        if is_of_kernel(address):
            return None
        return self._current().build_id(pid, address)

    def mapping(self, pid: int, address: int) -> Mapping | None:
        if is_of_kernel(address):
            return None
        return self._current().mapping(pid, address)

    @property
    def interpreters(self) -> Interpreters | None:
        """The object that names the functions of interpreters; None where no clause wants them."""
        if self._interpreters is None and self._interpreted:
            from tracer.resolve.interpreters.frames import Interpreters

            self._interpreters = Interpreters(self.processes)
        return self._interpreters

    @property
    def unwinder(self) -> Unwinder | None:
        """The object that walks stacks by unwind tables; None where no clause wants it, or on unknown processors."""
        if self._unwinder is None and self._stacks:
            from tracer.kinds.arch import native
            from tracer.resolve.symbols.unwinder import Unwinder
            from tracer.resolve.unwind.registers import REGISTERS

            if (arch := native()) is not None:
                self._unwinder = Unwinder(self.processes, REGISTERS[arch.machine])
        return self._unwinder

    def closing(self, backend: str) -> Iterator[Notice]:
        """The notices at the end of stacks that are not whole and of missing names; for those who want to know
        more, of how all stacks ended.
        """
        yield from self._endings(backend)
        for line in self._lacking():
            yield StacksBroken(line)
        if self.missed is not None:
            yield StacksBroken(RECORDS_LOST.format(counted(self.missed, "record") if self.missed else "records"))

    def _endings(self, backend: str) -> Iterator[Notice]:
        if self._unwinder is None or not self._unwinder.endings:
            return
        from tracer.resolve.unwind.walker import LIMIT, WHOLE

        ended = self._unwinder.endings
        broken = {how: number for how, number in ended.items() if how not in (WHOLE, LIMIT)}
        if broken:
            words = ", ".join(f"{number}: {how}" for how, number in sorted(broken.items()))
            words += self._remedy(broken, backend)
            yield StacksBroken(f"stacks that do not reach the program's start: {words}")
        most_first = sorted(ended.items(), key=lambda ending: (-ending[1], ending))
        yield Detail(f"stacks: {', '.join(f'{number} {how}' for how, number in most_first)}")

    def _remedy(self, broken: Collection[str], backend: str) -> str:
        from tracer.resolve.unwind.walker import ELSEWHERE, SHORT

        if SHORT not in broken and ELSEWHERE not in broken:
            return ""
        if backend == "bcc":
            return "; later hits of such a stack are walked further"
        if self._unwinder is not None and self._copied < self._unwinder.enough <= _LONGEST_COPY:
            return f"; config = {{ stack_copy = {_LONGEST_COPY} }} copies more of each"
        return "; --backend bcc walks them further"

    def _lacking(self) -> tuple[str, ...]:
        """The notices of interpreters whose frames are not, or not always, in stacks, and of names that a
        compiler wrote and nobody read.
        """
        cut = tuple(_CUT.format(path) for path in sorted(self._symbolizer.cut if self._symbolizer is not None else ()))
        unnamed = (f"addresses left without a name: {self._unnamed}",) if self._unnamed else ()
        return (*cut, *unnamed, *self._hidden(), *self._uninterpreted())

    def _hidden(self) -> tuple[str, ...]:
        if self._kernel is None or not self._kernel.hidden:
            return ()
        from tracer.host.tables.kallsyms import WITH_NAMES

        return (f"addresses of the kernel have no names, for it hides them: {WITH_NAMES}",)

    def _uninterpreted(self) -> tuple[str, ...]:
        if self._interpreters is None:
            return ()
        refused = (f"no frames of {name}: {reason}" for name, reason in sorted(self._interpreters.refused.items()))
        lacking = (f"some stacks lack frames of {name}: {_LACKING}" for name in sorted(self._interpreters.unpaired))
        return (*refused, *lacking)

    def close(self) -> None:
        """Ends the recording and closes the files."""
        if self._records is not None:
            self._records.close()
        if self._processes is not None:
            self._processes.close()

    def _begin(self, plan: Plan, target: Target) -> None:
        from tracer.kernel.mapping_records import MappingRecords

        try:
            # Of a process that runs already not all descendants inherit what records them.
            everybody = target.follow and target.program is None
            self._records = MappingRecords(() if everybody else target.pids, prompt=self._interpreted)
        except OSError:
            # Names of running processes can still be read; those of ended ones stay addresses.
            self._records = None
        # What is mapped already comes with no record.
        processes = self._open()
        for pid in target.pids:
            processes.remember(pid)
        if target.pids:
            return
        from tracer.host.maps import users
        from tracer.kinds.site import files_of

        for pid in users({inode for _, inode in files_of(plan.places)}):
            if pid != os.getpid():
                processes.remember(pid)

    @property
    def wake(self) -> tuple[int, ...]:
        """The descriptors that become readable when a process maps a file, where that must be known at once."""
        return self._records.descriptors if self._records is not None and self._interpreted else ()

    def keep_up(self) -> None:
        """Called now and then: reads what the kernel tells of processes before there is no room for more."""
        if self._records is not None and self._records.pressing:
            self.processes()

    def processes(self) -> Processes:
        """The processes as they are known at the moment."""
        processes = self._open()
        if self._records is not None and self._records.has_any:
            from tracer.kernel.mapping_records import Executed, Forked, Mapped, Missed

            for record in self._records.take():
                if isinstance(record, Mapped):
                    processes.mapped(record.pid, record.mapping, record.at_ns)
                elif isinstance(record, Executed):
                    processes.executed(record.pid, record.at_ns)
                elif isinstance(record, Forked):
                    processes.forked(record.pid, record.parent)
                elif isinstance(record, Missed):
                    self.missed = (self.missed or 0) + record.count
                    processes.missed()
        return processes

    def _current(self) -> Symbolizer:
        processes = self.processes()
        if self._symbolizer is None:
            from tracer.resolve.symbols.symbolizer import Symbolizer

            self._symbolizer = Symbolizer(processes, self._config.cpp_demangle, self._hurries)
        return self._symbolizer

    def _open(self) -> Processes:
        if self._processes is None:
            from tracer.resolve.symbols.processes import Processes

            self._processes = Processes()
        return self._processes
