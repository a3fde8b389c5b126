"""Unwinds stacks of any number of processes, each distinct address looked up once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tracer.lang.types import Stack
from tracer.resolve.symbols.processes import Image, Process, Processes, space_of
from tracer.resolve.unwind.registers import I386, Registers
from tracer.resolve.unwind.walker import BROKEN, ENTRY, LAST, NOTHING, POINTER, Short, Step, step_of, walk

UNKNOWN = "the process ended before its memory map was read"

_MOST_STEPS = 1 << 16
"""The most steps that are kept of one state of a process."""

_LOW = (1 << 32) - 1
_NOTHING, _ENTRY, _POINTER, _LAST, _BROKEN = map(Step, (NOTHING, ENTRY, POINTER, LAST, BROKEN))


class Unwinder:
    """A `backends.Unwinder`. `processes` gives what is known of processes at the moment, and `endings` counts how
    stacks ended. `enough` is the length in bytes of the shortest copy that would have led one of them further.
    """

    wanted = 0

    def __init__(self, processes: Callable[[], Processes], registers: Registers) -> None:
        self._processes = processes
        self._registers = registers
        self.endings: Counter[str] = Counter()
        self.enough = 1 << 64

    def altered(self) -> set[int]:
        processes = self._processes()
        altered, processes.altered = processes.altered, set()
        return altered

    def state(self, pid: int) -> int:
        """The number of what a process has mapped now; 0 where that is not known."""
        process = self._processes().get(pid)
        return process.images[0].state if process is not None and process.images else 0

    def space(self, pid: int, state: int, addresses: tuple[int, ...]) -> int:
        """The address space of a stack that was walked elsewhere, in that state of the process."""
        process = self._processes().get(pid)
        for image in process.images if process is not None else ():
            if image.state == state and process is not None:
                return space_of(pid, process.oldest(image, addresses))
        return space_of(pid, state)

    def unwind(
        self, pid: int, registers: Sequence[int | None], stack: memoryview, most: int,
        met: list[tuple[int, bool, Step]] | None = None, at_ns: int = 0, here: bool = True,
    ) -> Stack:  # fmt: skip
        """The addresses of a thread's callers, its own first, `most` at most; see `walker.walk`. Each step, with the
        address and whether a thread is there, goes to `met`, if it still holds. `at_ns` is when the thread was there
        (CLOCK_MONOTONIC), 0 for now. `here`: it is at the first of the addresses.
        """
        processes = self._processes()
        process = processes.get(pid)
        if process is None:
            self.endings[UNKNOWN] += 1
            return Stack(pid, (registers[self._registers.numbers.index(self._registers.ip)] or 0,))
        image = process.image(at_ns)
        exactly, after = image.here, image.after
        machine = self._registers
        if machine.word == 8 and processes.is_narrow(pid, image):
            machine, stack, met = I386, stack.cast("B").cast("I"), None
            registers = [None if value is None else value & _LOW for value in registers]
        if process.images and image is not process.images[0]:
            met = None

        def find(address: int, exact: bool) -> Step:
            steps = exactly if exact else after
            step: Step | None = steps.get(address)
            if step is None:
                if len(steps) >= _MOST_STEPS:
                    steps.clear()
                step = steps[address] = self._look_up(machine, processes, pid, process, image, address, exact)
            if met is not None:
                met.append((address, exact, step))
            return step

        addresses, ending = walk(registers, stack, machine, find, most, here)
        self.endings[ending] += 1
        if isinstance(ending, Short):
            self.wanted = max(self.wanted, ending.wanted)
            self.enough = min(self.enough, ending.wanted)
        return Stack(space_of(pid, process.oldest(image, addresses)), addresses)

    def _look_up(
        self, machine: Registers, processes: Processes, pid: int, process: Process, image: Image, address: int,
        exact: bool,
    ) -> Step:  # fmt: skip
        # A call at a function's very end returns to what follows it.
        met, address = address, address if exact else address - 1
        mapping = processes.find(pid, process, address, image, image.state)
        if mapping is None or mapping.path == "[uprobes]":
            return _NOTHING
        for probed in {met, address}:
            if mapping.start <= probed < mapping.end:
                process.see(probed, mapping, image.state)
        place = processes.place(pid, mapping, address)
        if place is None:
            return _BROKEN if mapping.path == "[vdso]" else _POINTER
        module, offset = place
        rule = module.rule(offset)
        if rule is not None and exact and machine.link is None and module.returns(offset):
            # Its registers are the caller's again. The tables need not say so: of what was popped they may still say
            # where it lay, below the stack pointer.
            return _ENTRY
        if rule is not None:
            return step_of(rule, machine)
        if not exact and module.begins(offset + 1):
            return _LAST  # no call leads back to where a function begins: makecontext(3) has put it below a coroutine
        name = module.name(offset) if exact else None
        if name is not None and name[1] == 0:
            return _ENTRY
        if machine.link is not None:
            return _POINTER
        from tracer.resolve.symbols.untabled import step_in  # most programs have no such code

        return step_in(module, offset, exact)
