"""CPython 3.8 to 3.14: how it is recognised in a mapped file, and what a code object says."""

from __future__ import annotations

import re
import struct
from functools import partial

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.resolve.elf.debug_file import find_debug_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.interpreters.description import Image, InterpretedFunction, Refused
from tracer.resolve.interpreters.python.layouts import COOKIE, KNOWN, TABLE_SIZE, Layout, described
from tracer.resolve.interpreters.python.lines import line_of
from tracer.resolve.safety.code import Code as MachineCode, Range

_EVALUATE = "_PyEval_EvalFrameDefault"
_NAMED = re.compile(r"python(\d+)\.(\d+)")
_KNOWN_VERSIONS = "tracer knows 3.8 to 3.14"
_KINDS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}


@dataclass(frozen=True, slots=True)
class Text:
    """A `str` in memory: its state, how many characters it has, and those that are known, as they lie there. No state:
    it could not be read.
    """

    state: int
    length: int
    data: bytes

    def __str__(self) -> str:
        kind = self.state >> 2 & 7
        if kind not in _KINDS:
            return "?"
        text = self.data[: self.length * kind].decode(_KINDS[kind], "replace")
        shown = text if len(text) >= self.length else text + "…"
        # A program names its code as it likes, and what is shown is a line for each frame.
        return shown if shown.isprintable() else "".join(map(_printable, shown))


@dataclass(frozen=True, slots=True)
class Code:
    """A code object. `table` is None where it is not known."""

    name: Text
    file: Text
    first: int
    traceable: int
    table: bytes | None


class Python:
    """See `description.Interpreter`."""

    name = "Python"

    def find(self, elf: Elf, path: str) -> Image | Refused | None:
        """The interpreter in a file: libpython, or a program that holds it."""
        symbols = Symbols(elf, find_debug_file)
        try:
            runtime, code_type = symbols.variables("_PyRuntime"), symbols.variables("PyCode_Type")
            if not code_type or not symbols.variables("PyFrame_Type"):
                return None
            version = _version(elf, symbols, path)
            layout = _layout(elf, runtime[0].address, version) if runtime else _KNOWN_VERSIONS
        except TracerError:
            return None
        shown = "an unknown version" if version is None else f"{version[0]}.{version[1]}"
        if elf.word != 8:
            return Refused(f"{path} (Python {shown})", "it is a 32-bit program")
        if isinstance(layout, str):
            return Refused(f"{path} (Python {shown})", layout)
        functions = (*symbols.named(_EVALUATE), *symbols.named(f"{_EVALUATE}.cold"))
        places = {(function.address, function.address + function.size) for function in functions}
        if not places:
            return Refused(f"{path} (Python {shown})", f"it has no symbol {_EVALUATE}")
        if len(places) == 1:
            places |= _outlined(elf, symbols, *places)
        return Image(self, shown, layout, runtime[0].address, code_type[0].address, tuple(sorted(places)))

    def function(self, layout: Layout, parts: Code) -> InterpretedFunction:
        """The function of a code object."""
        line = partial(_line, layout.minor, parts)
        begun = parts.traceable + 1 if layout.traceable else 0
        name, file = str(parts.name), str(parts.file)
        return InterpretedFunction(name, file, line, begun, (name, file, parts.first, parts.table))


INTERPRETER = Python()


def _printable(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def _outlined(elf: Elf, symbols: Symbols, place: tuple[int, int]) -> set[tuple[int, int]]:
    """The parts of a function that the compiler has put elsewhere, as it does with what it thinks is seldom run: in
    Debian's 3.14 most of this one, and the symbol of that part is stripped. Jumps out of the function lead into the
    middle of it.
    """
    code = MachineCode(elf, symbols)
    parts = set()
    try:
        for instruction in code.instructions(Range(*place, _EVALUATE)):
            target = instruction.target if instruction.jumps else None
            if target is None or place[0] <= target < place[1] or symbols.function_at(target) is not None:
                continue
            frame = code.frames.frame_at(target)
            if frame is not None and frame.start < target:
                parts.add((frame.start, frame.start + frame.size))
    except TracerError:
        pass  # there is no disassembler, or the file is damaged: then frames stand behind the native ones
    return parts


def _line(minor: int, code: Code, instruction: int) -> int | None:
    return None if code.table is None else line_of(minor, code.table, code.first, instruction - 1)


def _version(elf: Elf, symbols: Symbols, path: str) -> tuple[int, int] | None:
    """Major and minor: from 3.11 on the library has it, before that its name."""
    for variable in symbols.variables("Py_Version"):
        data = elf.memory(variable.address, 8, "the version of Python")
        if data is not None and len(data) == 8:
            number = struct.unpack("=Q", data)[0]
            return number >> 24 & 255, number >> 16 & 255
    named = _NAMED.search(path.rpartition("/")[2])
    return None if named is None else (int(named[1]), int(named[2]))


def _layout(elf: Elf, runtime: int, version: tuple[int, int] | None) -> Layout | str:
    table = elf.memory(runtime, TABLE_SIZE, "Python's table of offsets")
    if table is not None and table.startswith(COOKIE):
        return described(table)
    if version is None:
        return "its version stands neither in it nor in its name"
    return KNOWN.get(version[1], _KNOWN_VERSIONS) if version[0] == 3 else _KNOWN_VERSIONS
