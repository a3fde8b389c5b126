"""The description of an interpreter, and the words for its frames in a stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tracer.dataclass import dataclass
from tracer.resolve.elf.file import Elf

UNREADABLE = "[unreadable function]"
"""A frame of which no more is known."""

_INTERPRETED = 1 << 62
_GENERATOR, _ENTRY = 1 << 61, 1 << 60
_NUMBER_SHIFT, _NUMBERS, _INSTRUCTIONS = 20, (1 << 40) - 1, (1 << 20) - 1
_WHOLE = _INTERPRETED | 1


@dataclass(frozen=True, slots=True)
class Image:
    """An interpreter in a file. `runtime` and `code_type` are addresses in it, `layout` is its interpreter's own;
    `evaluates` are where its native functions that run code begin and end.
    """

    interpreter: Interpreter
    version: str
    layout: Any
    runtime: int
    code_type: int
    evaluates: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An interpreter whose frames cannot be read, by name, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class InterpretedFunction:
    """A function of a program. `line` turns an instruction, as a word has it, into the line that runs there, None where
    that is not known. `begun` is the first instruction at which the function counts as called. `identity` tells
    functions apart, but not the same function made twice.
    """

    name: str
    file: str
    line: Callable[[int], int | None]
    begun: int
    identity: object


class Interpreter(Protocol):
    """The interpreter of one language. Its frames pair with native ones: each native frame in `Image.evaluates` stands
    for those up to the next that `begins_evaluation`.
    """

    name: str

    def find(self, elf: Elf, path: str) -> Image | Refused | None:
        """The interpreter in a mapped file, where there is one."""

    def function(self, layout: Any, parts: Any) -> InterpretedFunction:
        """A function, of what a hit or the process's memory says of it."""


def number_of(word: int) -> int:
    """The number of the frame's function, as the hit gave it; 0 where it could not."""
    return word >> _NUMBER_SHIFT & _NUMBERS


def with_number(word: int, number: int) -> int:
    """The word with another number."""
    return word & ~(_NUMBERS << _NUMBER_SHIFT) | number << _NUMBER_SHIFT


def instruction_of(word: int) -> int | None:
    """The instruction, counted from 1; 0 where none has run, None where the word has no room for its number."""
    instruction = word & _INSTRUCTIONS
    return None if instruction == _INSTRUCTIONS else instruction


def begins_evaluation(word: int) -> bool:
    """Whether native code called the function, whose caller is then another evaluation's, rather than the function
    before.
    """
    return bool(word & _ENTRY)


def is_frame(word: int) -> bool:
    """Whether it stands for a frame, or only says where an evaluation began or how the stack ended."""
    return word & ~_ENTRY not in (_INTERPRETED, _WHOLE)


def is_resumed(word: int) -> bool:
    """Whether the frame is that of a generator or coroutine."""
    return bool(word & _GENERATOR)


def is_end(word: int) -> bool:
    """Whether all frames stand before this word."""
    return word == _WHOLE


def word(number: int, instruction: int, *, entry: bool = False, resumed: bool = False) -> int:
    """The word of a frame."""
    flags = _INTERPRETED | entry * _ENTRY | resumed * _GENERATOR
    return flags | number << _NUMBER_SHIFT | min(instruction, _INSTRUCTIONS)


WHOLE, BOUNDARY = _WHOLE, _INTERPRETED | _ENTRY
"""The word after the last frame, and between the frames of two evaluations if no frame has a flag."""
