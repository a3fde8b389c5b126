"""The code of one file: which function an address belongs to, and where its instructions begin."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass
from tracer.resolve.dwarf.unwind_entries import Frames
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import PF_X
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.safety.disassembly import MAX_FUNCTION, Instruction, decode
from tracer.resolve.safety.restartable import BEGIN, sequences

if TYPE_CHECKING:
    from tracer.resolve.unwind.rules import Rule

_RELATIVE = re.compile(r"\[rip ([+-]) (0x[0-9a-f]+|\d)\]")
_ABSOLUTE = re.compile(r"\[(0x[0-9a-f]+)\]")

_AT_LEAST, _TIMES = 1 << 20, 4
"""The most bytes of code that are read: this number, plus this many times all code of the file."""


@dataclass(frozen=True, slots=True)
class Range:
    """A function's code, half-open; `name` is "" where only the unwind tables know it."""

    start: int
    end: int
    name: str

    def holds(self, address: int) -> bool:
        """Whether the address lies in it."""
        return self.start <= address < self.end


class Code:
    """Functions and instructions of one file; what was decoded is kept."""

    def __init__(self, elf: Elf, symbols: Symbols) -> None:
        self.elf = elf
        self.symbols = symbols
        self._looked_at = 0
        self._decoded: dict[tuple[int, int], tuple[Instruction, ...]] = {}
        self._starts: dict[tuple[int, int], tuple[tuple[int, ...], int | None]] = {}
        self._accessed: dict[int, frozenset[int]] = {}

    @cached_property
    def frames(self) -> Frames:
        """The unwind tables."""
        return Frames(self.elf)

    @cached_property
    def sequences(self) -> list[range]:
        """The restartable sequences. Most files have none."""
        return sequences(self.elf)

    def restartable(self, address: int) -> bool:
        """Whether the address lies in one of them."""
        index = bisect_right(self.sequences, address, key=BEGIN) - 1
        return index >= 0 and address in self.sequences[index]

    def executable(self, address: int) -> bool:
        """Whether the file holds code there."""
        segment = self.elf.segment_at(address)
        return segment is not None and bool(segment.flags & PF_X)

    def spend(self, size: int) -> None:
        """Counts bytes of code that are read. Raises `ElfError` where they become some times the code that there is:
        functions that lie over each other, which no compiler makes.
        """
        self._looked_at += size
        if self._looked_at > _AT_LEAST + _TIMES * self._size:
            raise self.elf.error(f"unusable ELF file: its functions are more than {_TIMES} times as large as its code")

    @cached_property
    def _size(self) -> int:
        return sum(min(load.file_size, self.elf.size) for load in self.elf.loads if load.flags & PF_X)

    def range_at(self, address: int) -> Range | None:
        """The function that holds the address, by its symbol or else by the unwind tables."""
        function = self.symbols.function_at(address)
        if function is not None:
            return self.range_of(function)
        frame = self.frames.frame_at(address)
        if frame is None or frame.size == 0:
            return None
        return Range(frame.start, frame.start + frame.size, "")

    def row(self, address: int) -> Rule | None:
        """The unwind rule of the frame at an instruction."""
        from tracer.resolve.unwind.rules import rule_at

        frame = self.frames.frame_at(address)
        return None if frame is None else rule_at(frame.common, frame.program, frame.start, address)

    def frame_is_there(self, start: int) -> bool:
        """Whether code that begins there finds more than the return address on the stack, unlike a function."""
        from tracer.resolve.unwind.rules import rule_at

        frame = self.frames.frame_at(start)
        return frame is not None and self.row(start) != rule_at(frame.common, b"", start, start)

    def range_of(self, function: Function) -> Range:
        """A function's range; one of unknown size ends with its unwind entry, or where the next function begins."""
        if function.size:
            return Range(function.address, function.address + function.size, function.name)
        frame = self.frames.frame_at(function.address)
        if frame is not None and frame.start == function.address:
            return Range(function.address, frame.start + frame.size, function.name)
        segment = self.elf.segment_at(function.address)
        end = segment.address + segment.file_size if segment is not None else function.address
        following = self.symbols.next_start(function.address)
        return Range(function.address, end if following is None else min(end, following), function.name)

    def instructions(self, of: Range) -> tuple[Instruction, ...]:
        """The instructions of a function, up to its end or to the first bytes that are none."""
        key = (of.start, of.end)
        if key not in self._decoded:
            self.spend(min(of.end - of.start, MAX_FUNCTION))
            data = self.elf.memory(of.start, of.end - of.start, "the function's code") or b""
            self._decoded[key] = decode(data, of.start, self.elf.machine)
        return self._decoded[key]

    def starts(self, of: Range) -> tuple[int, ...]:
        """The addresses at which the instructions of a function begin."""
        return self._judged(of)[0]

    def astray(self, of: Range) -> int | None:
        """The first jump that lands inside an instruction of the function: the decoding is then wrong somewhere."""
        return self._judged(of)[1]

    def _judged(self, of: Range) -> tuple[tuple[int, ...], int | None]:
        key = (of.start, of.end)
        if key not in self._starts:
            instructions = self.instructions(of)
            starts = tuple([instruction.address for instruction in instructions])
            inside = range(of.start, min(of.end, starts[-1] if starts else of.start))
            whole = set(starts)
            jumps = ((instruction.address, instruction.target) for instruction in instructions if instruction.jumps)
            astray = (jump for jump, target in jumps if target is not None and target in inside and target not in whole)
            self._starts[key] = starts, next(astray, None)
        return self._starts[key]

    def accessed(self, address: int) -> frozenset[int]:
        """The fixed addresses that the instructions of the function around an address read or write. One that is only
        computed may be the end of an array, where another variable begins.
        """
        around = self.range_at(address)
        if around is None:
            return frozenset()
        if around.start not in self._accessed:
            self._accessed[around.start] = frozenset(_accesses(self.instructions(around)))
        return self._accessed[around.start]


def _accesses(instructions: Iterable[Instruction]) -> Iterator[int]:
    for instruction in instructions:
        if instruction.mnemonic == "lea":
            continue
        if (relative := _RELATIVE.search(instruction.operands)) is not None:
            yield instruction.address + instruction.size + int(relative[1] + relative[2], 16)
        elif (absolute := _ABSOLUTE.search(instruction.operands)) is not None:
            yield int(absolute[1], 16)
