"""The frames of interpreters in the stacks of one trace: which processes have one, and what their functions are."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

from tracer.dataclass import dataclass
from tracer.host.maps import Mapping
from tracer.lang.types import is_interpreted
from tracer.resolve.interpreters.description import (
    BOUNDARY,
    UNREADABLE,
    Image,
    InterpretedFunction,
    Interpreter,
    Refused,
    begins_evaluation,
    instruction_of,
    is_frame,
    is_resumed,
    number_of,
    with_number,
)
from tracer.resolve.interpreters.pairing import merged
from tracer.resolve.interpreters.python.interpreter import INTERPRETER as PYTHON
from tracer.resolve.symbols.processes import Image as Held, Process, Processes

INTERPRETERS: tuple[Interpreter, ...] = (PYTHON,)

_MOST_FUNCTIONS, _MOST_NUMBERS = 1 << 16, 1 << 24
"""The most functions that are known. Those that were met first stay."""
_MOST_HELD = 64
_WITH_NAME = ("python",)


@dataclass(frozen=True, slots=True)
class Loaded:
    """An interpreter in a process. Addresses of its file are `bias` further on there."""

    image: Image
    bias: int


class Interpreters:
    """`processes` gives what is known of processes at the moment."""

    def __init__(self, processes: Callable[[], Processes]) -> None:
        self._processes = processes
        self._images: dict[tuple[str, int], Image | None] = {}
        self._functions: dict[int, InterpretedFunction] = {}
        self._numbers = array("I")
        self._first: dict[object, int] = {}
        self._loaded: dict[int, list[tuple[tuple[Mapping, ...], tuple[Loaded, ...]]]] = {}
        self.layouts: list[Image] = []
        """Each with its place in this list, by which a hit names it."""
        self.refused: dict[str, str] = {}
        self.unpaired: set[str] = set()
        """The interpreters whose frames some stack lacks."""

    def newly_mapped(self) -> Iterator[tuple[int, Loaded]]:
        """The processes that have mapped an interpreter since the last call."""
        processes = self._processes()
        fresh, processes.fresh = processes.fresh, set()
        for pid in fresh:
            process = processes.get(pid)
            if process is not None:
                yield from ((pid, interpreter) for interpreter in self._in(processes, pid, process.image(0)))

    def knows(self, number: int) -> bool:
        """Whether there is a function of that number."""
        return number < len(self._numbers) and self._numbers[number] != 0

    def learn(self, number: int, image: Image, parts: object) -> None:
        """The function of that number, from a hit or from the memory of the process."""
        function = image.interpreter.function(image.layout, parts)
        # A program that evaluates a text again and again makes the same function each time: of these a number is kept.
        first = self._first.get(function.identity)
        if first is None:
            if len(self._functions) >= _MOST_FUNCTIONS:
                return
            first = self._first[function.identity] = number
            self._functions[number] = function
        if number < _MOST_NUMBERS:
            self._numbers.extend([0] * (number + 1 - len(self._numbers)))
            self._numbers[number] = first

    def stack(self, pid: int, addresses: Sequence[int], native: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Merges one stack: native addresses, with zeros up to the most frames asked for, then words. `native` are
        the addresses where the hit did not have them yet.
        """
        most = next((position for position, address in enumerate(addresses) if is_interpreted(address)), len(addresses))
        native_stack = tuple(filter(None, addresses[:most])) if native is None else native
        words = self._complete(addresses[most:])
        processes = self._processes()
        process = processes.get(pid)
        ranges = [
            (start + interpreter.bias, end + interpreter.bias)
            for interpreter in (self._of(processes, pid, process) if process is not None else ())
            for start, end in interpreter.image.evaluates
        ]
        if not ranges:
            return native_stack
        # At the very start of the function its frames are still those of its caller.
        own_start = {start for start, _ in ranges} & set(native_stack[:1])
        stack, paired = merged(
            native_stack, words,
            lambda address: address not in own_start and any(start <= address < end for start, end in ranges),
            most if words else len(native_stack),
        )  # fmt: skip
        if not paired:
            self.unpaired.add(PYTHON.name)
        return stack

    def function(self, frame: int) -> InterpretedFunction | None:
        """The function of a frame's word; None where it is not known."""
        return self._functions.get(self._first_number(frame))

    def _first_number(self, frame: int) -> int:
        """The number of the same function as it was first met, 0 where it is not known."""
        number = number_of(frame)
        return self._numbers[number] if number < len(self._numbers) else 0

    def text(self, frame: int) -> str:
        """`file:function:line` of a frame's word, as far as it is known."""
        function = self.function(frame)
        if function is None:
            return UNREADABLE
        instruction = instruction_of(frame)
        line = None if instruction is None else function.line(instruction)
        return f"{function.file}:{function.name}" + ("" if line is None else f":{line}")

    def _complete(self, words: Sequence[int]) -> list[int]:
        """The stack without frames of functions that are not called yet. Equal functions get one number."""
        kept = []
        for word in words:
            first = self._first_number(word) if is_frame(word) else 0
            if not first:
                kept.append(word)
                continue
            function, instruction = self._functions[first], instruction_of(word)
            if instruction is None or instruction >= function.begun or is_resumed(word):
                kept.append(with_number(word, first))
            elif begins_evaluation(word):
                kept.append(BOUNDARY)
        return kept

    def _of(self, processes: Processes, pid: int, process: Process) -> list[Loaded]:
        """The interpreters that a process has, or had before."""
        interpreters: list[Loaded] = []
        for held in process.images:
            interpreters += [loaded for loaded in self._in(processes, pid, held) if loaded not in interpreters]
        return interpreters

    def _in(self, processes: Processes, pid: int, held: Held) -> tuple[Loaded, ...]:
        if len(self._loaded) >= _MOST_FUNCTIONS:
            self._loaded.clear()
        kept = self._loaded.setdefault(pid, [])
        for mappings, loaded in kept:
            if mappings is held.mappings:
                return loaded
        loaded = tuple(
            Loaded(image, bias)
            for mapping in held.mappings
            if mapping.file is not None and _may_hold(mapping, held.mappings)
            and (image := self._image(processes, pid, mapping)) is not None
            and (bias := self._bias(processes, pid, mapping)) is not None
        )  # fmt: skip
        kept.insert(0, (held.mappings, loaded))
        del kept[_MOST_HELD:]
        return loaded

    def _image(self, processes: Processes, pid: int, mapping: Mapping) -> Image | None:
        assert mapping.file is not None
        if mapping.file not in self._images:
            place = processes.place(pid, mapping, mapping.start)
            image = None
            for interpreter in INTERPRETERS if place is not None else ():
                image = interpreter.find(place[0].elf, mapping.path) if place is not None else None
                if image is not None:
                    break
            if isinstance(image, Refused):
                self.refused[image.name] = image.reason
                image = None
            self._images[mapping.file] = image
            if image is not None:
                self.layouts.append(image)
        return self._images[mapping.file]

    def _bias(self, processes: Processes, pid: int, mapping: Mapping) -> int | None:
        place = processes.place(pid, mapping, mapping.start)
        for segment in place[0].elf.loads if place is not None else ():
            first = segment.offset & -4096
            if segment.flags & 1 and first <= mapping.offset < segment.offset + segment.file_size:
                return mapping.start - mapping.offset - (segment.address - segment.offset)
        return None


def _may_hold(mapping: Mapping, every: Sequence[Mapping]) -> bool:
    """Whether a file is worth a look at its symbols: by its name, or as the program itself, which is mapped lowest."""
    name = mapping.path.rpartition("/")[2].lower()
    return any(part in name for part in _WITH_NAME) or mapping.file == every[0].file
