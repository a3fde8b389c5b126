"""Calling conventions give the values of a function's parameters their places at its entry.

The convention is asked and not the location that debug information states, which begins to hold after the prologue has
stored what it says. Only a compiler that changed how one of its own functions is called knows better, and says so by a
register at the first instruction.

Sources: System V ABI, AMD64 supplement, 3.2.3; Itanium C++ ABI, 3.1.2; AAPCS64, 6.8.2; Go's internal ABI specification
(abi-internal.md). `rust.py` has Rust's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracer.dataclass import NamedTuple
from tracer.kinds.arch import X86_64, Arch
from tracer.lang.types import ArrayType, BoolType, FloatType, IntType, StructType, Type, memory_size
from tracer.resolve.dwarf.calls.rustc_layout import Form
from tracer.resolve.dwarf.calls.shapes import Shape, shape_of_type

Pieces = tuple[tuple[int, int, int, int], ...]
"""The parts of a value in registers: offset in the value, size, number of the register among the arguments' registers,
lowest bit there.
"""

IN_FLOATS = "it is passed in a floating-point register, which no probe can read"
EMPTY = "it is empty"
_WIDE = "a vector of more than 16 bytes, of which the compiler's flags say where it is passed"


class ParameterPlace(NamedTuple):
    """The registers of a value or of its address, or bytes above the stack pointer; or why it cannot be read, with the
    registers of those parts that can.
    """

    pieces: Pieces = ()
    stack: int | None = None
    indirect: bool = False
    reason: str = ""


class _Leaf(NamedTuple):
    offset: int
    size: int
    real: bool


def _leaves(type: Type, offset: int = 0) -> Iterator[_Leaf]:
    """The scalars in a value."""
    match type:
        case StructType(fields=fields):
            for field in fields:
                yield from _leaves(field.type, offset + field.offset)
        case ArrayType(item=item, count=count):
            size = memory_size(item)
            for index in range(min(count, 17)):
                yield from _leaves(item, offset + index * size)
        case FloatType():
            yield _Leaf(offset, memory_size(type), True)
        case IntType() | BoolType():
            yield _Leaf(offset, memory_size(type), False)


def alignment(type: Type) -> int:
    """The alignment of a value in memory, by what it holds."""
    return max((leaf.size for leaf in _leaves(type)), default=1)


def words(size: int, first: int, start: int = 0) -> Pieces:
    """A value in consecutive registers. The last is read in parts where its size is not that of an integer."""
    pieces = []
    for offset in range(0, size, 8):
        remaining, shift = min(8, size - offset), 0
        while remaining:
            part = next(width for width in (8, 4, 2, 1) if width <= remaining)
            pieces.append((start + offset + shift // 8, part, first + offset // 8, shift))
            shift, remaining = shift + 8 * part, remaining - part
    return tuple(pieces)


def _shape(type: Type) -> Shape:
    return shape_of_type(type, _leaves(type))


class Convention:
    """Gives registers and stack to one parameter after the other."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.integers = self.reals = 0
        self.stack = arch.stack_arg
        self.lost = self.stack_lost = ""

    def hidden(self, type: Type | Shape | Form, by_reference: bool) -> None:
        """Takes the first register where the caller passes the address for the result in it."""
        assert not isinstance(type, Form)
        if self.arch is not X86_64:
            return  # aarch64 has a register of its own for it
        shape = type if isinstance(type, Shape) else _shape(type)
        if shape.wide:
            self.lost = f"what returns {_WIDE}"
        elif by_reference or shape.in_memory:
            self.integers += 1

    def place(self, type: Type | Shape | Form, by_reference: bool = False) -> ParameterPlace:
        """The place of the next parameter. On x86-64 its shape decides."""
        assert not isinstance(type, Form)
        if self.lost:
            return ParameterPlace(reason=self.lost)
        if by_reference:
            return self._indirect()
        if self.arch is X86_64:
            return self._system_v(type if isinstance(type, Shape) else _shape(type))
        assert not isinstance(type, Shape)
        return self._aapcs64(type)

    def _on_stack(self, size: int, align: int) -> ParameterPlace:
        if self.stack_lost:
            return ParameterPlace(reason=self.stack_lost)
        unit = max(8, align)
        offset = self.stack - self.arch.stack_arg
        offset = (offset + unit - 1) // unit * unit + self.arch.stack_arg
        self.stack = offset + (size + 7) // 8 * 8
        return ParameterPlace(stack=offset)

    def _register(self) -> int | None:
        if self.integers >= len(self.arch.args):
            return None
        self.integers += 1
        return self.integers - 1

    def _indirect(self) -> ParameterPlace:
        register = self._register()
        if register is None:
            return self._on_stack(8, 8)._replace(indirect=True)
        return ParameterPlace(((0, 8, register, 0),), indirect=True)

    def _system_v(self, shape: Shape) -> ParameterPlace:
        if shape.wide:
            self.stack_lost = f"it is on the stack behind {_WIDE}"
            return ParameterPlace(reason=_WIDE)
        classes = shape.classes if not shape.in_memory else ["x87"]
        integers, reals = classes.count("integer"), classes.count("real")
        if "x87" in classes:
            return self._on_stack(shape.size, shape.align)
        if not integers + reals:
            return ParameterPlace(reason=EMPTY)
        if self.integers + integers > len(self.arch.args) or self.reals + reals > 8:
            return self._on_stack(shape.size, shape.align)
        pieces: Pieces = ()
        for index, kind in enumerate(classes):
            if kind == "integer":
                pieces += words(min(8, shape.size - 8 * index), self.integers, 8 * index)
                self.integers += 1
        self.reals += reals
        if reals:
            return ParameterPlace(pieces, reason=IN_FLOATS if not integers else f"a part of it: {IN_FLOATS}")
        return ParameterPlace(pieces)

    def _aapcs64(self, type: Type) -> ParameterPlace:
        size = memory_size(type)
        leaves = list(_leaves(type))
        if leaves and all(leaf.real and leaf.size == leaves[0].size for leaf in leaves) and len(leaves) <= 4:
            if self.reals + len(leaves) <= 8:
                self.reals += len(leaves)
                return ParameterPlace(reason=IN_FLOATS)
            self.reals = 8
            return self._on_stack(size, alignment(type))
        if not size:
            return ParameterPlace(reason=EMPTY)
        if size > 16:
            return self._indirect()
        if self.integers + (size + 7) // 8 > len(self.arch.args):
            self.integers = len(self.arch.args)
            return self._on_stack(size, alignment(type))
        first = self.integers
        self.integers += (size + 7) // 8
        return ParameterPlace(words(size, first))


class GoConvention(Convention):
    """Go from 1.17 on: each scalar of a value in a register of its own, or the whole on the stack. On i386 all are."""

    def hidden(self, type: Type | Shape | Form, by_reference: bool) -> None:
        """Results have registers of their own."""

    def place(self, type: Type | Shape | Form, by_reference: bool = False) -> ParameterPlace:
        assert not isinstance(type, Shape | Form)
        integers, reals, pieces = self.integers, self.reals, []
        leaves = list(_leaves(type))
        if not memory_size(type):
            return ParameterPlace(reason=EMPTY)
        if _has_array(type, 2):
            return self._on_stack(memory_size(type), alignment(type))
        for leaf in leaves:
            if leaf.real:
                reals += 1
            else:
                pieces.append((leaf.offset, leaf.size, integers, 0))
                integers += 1
        if integers > len(self.arch.go_args) or reals > 15 or not self.arch.go_args:
            return self._on_stack(memory_size(type), alignment(type))
        self.integers, self.reals, with_reals = integers, reals, reals > self.reals
        if with_reals:
            return ParameterPlace(tuple(pieces), reason=IN_FLOATS if not pieces else f"a part of it: {IN_FLOATS}")
        return ParameterPlace(tuple(pieces))

    def _on_stack(self, size: int, align: int) -> ParameterPlace:
        align = min(align, self.arch.word)
        offset = (self.stack - self.arch.stack_arg + align - 1) // align * align + self.arch.stack_arg
        self.stack = offset + size
        return ParameterPlace(stack=offset)


def _has_array(type: Type, longest: int) -> bool:
    """Whether a value is, or holds, an array of so many items or more."""
    match type:
        case ArrayType(item=item, count=count):
            return count >= longest or _has_array(item, longest)
        case StructType(fields=fields):
            return any(_has_array(field.type, longest) for field in fields)
    return False
