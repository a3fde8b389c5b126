"""Where the values of a function's parameters are when it is entered, by the calling convention.

The convention is asked and not the location that debug information states, which begins to hold after the prologue has
stored what it says. Only a compiler that changed how one of its own functions is called knows better, and says so by a
register at the first instruction.

Sources: System V ABI, AMD64 supplement, 3.2.3; Itanium C++ ABI, 3.1.2; AAPCS64, 6.8.2; Go's internal ABI specification
(abi-internal.md); rustc, compiler/rustc_target/src/callconv.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tracer.lang.types import ArrayType, BoolType, FloatType, IntType, StructType, Type, memory_size
from tracer.resolve.arch import X86_64, Arch

Pieces = tuple[tuple[int, int, int, int], ...]
"""(offset in the value, size, number of the register among the arguments, lowest bit there) each."""

IN_FLOATS = "it is passed in a floating-point register, which no probe can read"
_NO_RULE = "it is passed in a way of Rust's own"


class Place(NamedTuple):
    """Registers, or bytes above the stack pointer, of a value or of its address; or why there is nothing to read."""

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
    """Of a value in memory, by what it holds."""
    return max((leaf.size for leaf in _leaves(type)), default=1)


def _words(size: int, first: int) -> Pieces:
    """A value in whole registers, one behind the other; of the last in parts, where it is no integer's size."""
    found = []
    for at in range(0, size, 8):
        left, shift = min(8, size - at), 0
        while left:
            part = next(each for each in (8, 4, 2, 1) if each <= left)
            found.append((at + shift // 8, part, first + at // 8, shift))
            shift, left = shift + 8 * part, left - part
    return tuple(found)


class Convention:
    """Gives out the registers and the stack to one parameter after the other."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.integers = self.reals = 0
        self.stack = arch.stack_arg

    def hidden(self, type: Type | None, by_reference: bool) -> None:
        """Where the result goes, the caller may say in a register before all others."""
        if type is None or self.arch is not X86_64:
            return  # aarch64 has a register of its own for it
        if by_reference or self._in_memory(type):
            self.integers += 1

    def place(self, type: Type, by_reference: bool = False) -> Place:
        """Where the next parameter is."""
        if by_reference:
            return self._indirect()
        return self._system_v(type) if self.arch is X86_64 else self._aapcs64(type)

    def _on_stack(self, size: int, align: int) -> Place:
        unit = 8 if align <= 8 else 16
        offset = self.stack - self.arch.stack_arg
        offset = (offset + unit - 1) // unit * unit + self.arch.stack_arg
        self.stack = offset + (size + 7) // 8 * 8
        return Place(stack=offset)

    def _register(self) -> int | None:
        if self.integers >= len(self.arch.args):
            return None
        self.integers += 1
        return self.integers - 1

    def _indirect(self) -> Place:
        register = self._register()
        if register is None:
            return self._on_stack(8, 8)._replace(indirect=True)
        return Place(((0, 8, register, 0),), indirect=True)

    def _in_memory(self, type: Type) -> bool:
        size = memory_size(type)
        return isinstance(type, StructType | ArrayType) and (
            size > 16 or any(leaf.offset % max(leaf.size, 1) for leaf in _leaves(type))
        )

    def _system_v(self, type: Type) -> Place:
        size = memory_size(type)
        if not size or (isinstance(type, StructType) and not list(_leaves(type))):
            return Place(reason="it is empty")
        if self._in_memory(type):
            return self._on_stack(size, alignment(type))
        classes = ["real"] * ((size + 7) // 8)
        for leaf in _leaves(type):
            if not leaf.real:
                classes[leaf.offset // 8] = "integer"
        integers = classes.count("integer")
        reals = len(classes) - integers
        if self.integers + integers > len(self.arch.args) or self.reals + reals > 8:
            return self._on_stack(size, alignment(type))
        first = self.integers
        self.integers += integers
        self.reals += reals
        if reals:
            return Place(reason=IN_FLOATS if not integers else f"a part of it: {IN_FLOATS}")
        return Place(_words(size, first))

    def _aapcs64(self, type: Type) -> Place:
        size = memory_size(type)
        leaves = list(_leaves(type))
        if leaves and all(leaf.real and leaf.size == leaves[0].size for leaf in leaves) and len(leaves) <= 4:
            if self.reals + len(leaves) <= 8:
                self.reals += len(leaves)
                return Place(reason=IN_FLOATS)
            self.reals = 8
            return self._on_stack(size, alignment(type))
        if not size:
            return Place(reason="it is empty")
        if size > 16:
            return self._indirect()
        if self.integers + (size + 7) // 8 > len(self.arch.args):
            self.integers = len(self.arch.args)
            return self._on_stack(size, alignment(type))
        first = self.integers
        self.integers += (size + 7) // 8
        return Place(_words(size, first))


class GoConvention(Convention):
    """Go from 1.17 on: each scalar of a value in a register of its own, or the whole on the stack."""

    def hidden(self, type: Type | None, by_reference: bool) -> None:
        """Results have registers of their own."""

    def place(self, type: Type, by_reference: bool = False) -> Place:
        """See `Convention`."""
        integers, reals, pieces = self.integers, self.reals, []
        leaves = list(_leaves(type))
        if not memory_size(type):
            return Place(reason="it is empty")
        if _has_longer_array(type):
            return self._on_stack(memory_size(type), alignment(type))
        for leaf in leaves:
            if leaf.real:
                reals += 1
            else:
                pieces.append((leaf.offset, leaf.size, integers, 0))
                integers += 1
        if integers > len(self.arch.go_args) or reals > 15:
            return self._on_stack(memory_size(type), alignment(type))
        self.integers, self.reals, with_reals = integers, reals, reals > self.reals
        if with_reals:
            return Place(reason=IN_FLOATS if not pieces else f"a part of it: {IN_FLOATS}")
        return Place(tuple(pieces))

    def _on_stack(self, size: int, align: int) -> Place:
        offset = (self.stack - self.arch.stack_arg + align - 1) // align * align + self.arch.stack_arg
        self.stack = offset + size
        return Place(stack=offset)


def _has_longer_array(type: Type) -> bool:
    match type:
        case ArrayType(item=item, count=count):
            return count > 1 or _has_longer_array(item)
        case StructType(fields=fields):
            return any(_has_longer_array(field.type) for field in fields)
    return False


class RustConvention(Convention):
    """Rust's own: one or two scalars in registers, what is larger than two words by its address."""

    def __init__(self, arch: Arch) -> None:
        super().__init__(arch)
        self._lost = ""

    def place(self, type: Type, by_reference: bool = False) -> Place:
        """See `Convention`."""
        if self._lost:
            return Place(reason=self._lost)
        size, leaves = memory_size(type), list(_leaves(type))
        if not size or not leaves:
            return Place(reason="it is empty")
        if not isinstance(type, StructType | ArrayType) or size > 16:
            return super().place(type, size > 16)
        if len({leaf.offset for leaf in leaves}) == len(leaves) <= 2 and isinstance(type, StructType):
            return self._scalars(leaves)
        if size <= 8 and size in (1, 2, 4, 8):
            return super().place(IntType(8 * size, False))
        self._lost = _NO_RULE
        return Place(reason=_NO_RULE)

    def _scalars(self, leaves: list[_Leaf]) -> Place:
        reals = sum(leaf.real for leaf in leaves)
        needed = len(leaves) - reals
        if self.integers + needed > len(self.arch.args):
            self._lost = _NO_RULE
            return Place(reason=_NO_RULE)
        pieces = []
        for leaf in leaves:
            if not leaf.real:
                pieces.append((leaf.offset, leaf.size, self.integers, 0))
                self.integers += 1
        self.reals += reals
        if reals:
            return Place(reason=IN_FLOATS if not pieces else f"a part of it: {IN_FLOATS}")
        return Place(tuple(pieces))
