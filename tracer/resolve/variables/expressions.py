"""DWARF's location expressions → places: what a value is read from, as a tree over registers and memory.

pyelftools takes an expression apart; here it is run with symbols in place of numbers. What cannot be said that way is
refused with its reason. Source: DWARF 5, 2.5 and 2.6; GNU's operations before DWARF 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tracer.dataclass import NamedTuple
from tracer.kinds.arch import EM_386
from tracer.kinds.site import REGISTERS_32
from tracer.lang.types.outside import Piece, Tree
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.unit import Unit

REGISTERS = {
    EM_386: REGISTERS_32,
    62: ("ax", "dx", "cx", "bx", "si", "di", "bp", "sp", *(f"r{number}" for number in range(8, 16))),
    183: (*(f"x{number}" for number in range(31)), "sp"),
}
"""By the number of the ELF header's machine: the names of DWARF's registers from 0 on."""

_ALL = (1 << 64) - 1
_MOST = 48
"""Operations of one expression, and nodes of what it becomes."""

OPTIMISED_OUT = "optimised out"
NOT_UNDERSTOOD = "it is where an expression says that is not understood"
THREAD_LOCAL = "it is a thread-local variable"
IN_FLOATS = "it is in a floating-point register, which no probe can read"
SYNTHETIC = "the pointer is optimised out, and only what it leads to is kept"

_BINARY = {
    "and": "&", "minus": "-", "mul": "*", "or": "|", "plus": "+", "shl": "<<", "shr": ">>", "shra": ">>s", "xor": "^",
    "eq": "==", "ge": ">=s", "gt": ">s", "le": "<=s", "lt": "<s", "ne": "!=",
}  # fmt: skip
_OF_WHOLE_WORDS = frozenset(("shr", "shra", "eq", "ge", "gt", "le", "lt", "ne"))
"""The operations whose result depends on the highest bits of a word."""


class Refused(Exception):
    """A value has no place, for a `reason`; `pieces` are those of its parts that have one."""

    def __init__(self, reason: str, pieces: tuple[Piece, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.pieces = reason, pieces


class Around(NamedTuple):
    """The surroundings of an expression: the place in the code, the machine, the unit that the expression stands in,
    and what gives the frame's base and the CFA at the place.
    """

    address: int
    machine: int
    unit: Unit
    frame_base: Callable[[], Tree]
    cfa: Callable[[], Tree]


def plus(tree: Tree, number: int) -> Tree:
    """A tree and a constant, which joins one that is there."""
    if tree[0] == "const":
        return ("const", (tree[1] + number) & _ALL)
    if tree[0] == "here":
        return ("here", tree[1] + number)
    if tree[0] == "+" and tree[2][0] == "const":
        tree, number = tree[1], tree[2][1] + number
    number = (number + (1 << 63)) % (1 << 64) - (1 << 63)
    return ("+", tree, ("const", number)) if number else tree


@lru_cache(maxsize=8)
def _parser(offset_size: int, address_size: int, version: int) -> Any:
    from elftools.dwarf.dwarf_expr import DWARFExprParser
    from elftools.dwarf.structs import DWARFStructs

    return DWARFExprParser(
        DWARFStructs(
            little_endian=True, dwarf_format=8 * offset_size, address_size=address_size, dwarf_version=version
        )
    )


def operations(expression: bytes, unit: Unit) -> Sequence[Any]:
    """The operations of an expression, each with `op_name` and `args`. Raises `Refused`."""
    try:
        parsed: Sequence[Any] = _parser(unit.offset_size, unit.address_size, unit.version).parse_expr(list(expression))
    except Exception:  # pyelftools raises what its parts raise
        raise Refused(NOT_UNDERSTOOD) from None
    return parsed


def pieces_of(expression: bytes, around: Around, size: int) -> tuple[Piece, ...]:
    """The places of all parts of a value of so many bytes. Raises `Refused`, with the parts that are known."""
    run = _Run(around)
    pieces: list[Piece] = []
    lost = ""
    offset = 0
    split = False
    for operation in operations(expression, around.unit):
        name, args = operation.op_name.removeprefix("DW_OP_"), operation.args
        if name == "bit_piece":
            raise Refused("it is in pieces of bits")
        if name != "piece":
            run.step(name, args)
            continue
        split = True
        try:
            pieces += run.place(offset, args[0])
        except Refused as error:
            lost = lost or error.reason
        offset += args[0]
        run = _Run(around)
    if not split:
        return tuple(run.place(0, size))
    if lost or offset < size:
        raise Refused(lost or OPTIMISED_OUT, tuple(pieces))
    return tuple(pieces)


def value_of(expression: bytes, around: Around, first: Sequence[Tree] = ()) -> Tree:
    """The value that an expression leaves on its stack, where `first` stands already."""
    run = _Run(around)
    run.stack += first
    for operation in operations(expression, around.unit):
        run.step(operation.op_name.removeprefix("DW_OP_"), operation.args)
    if run.refused or run.register is not None:
        raise Refused(run.refused or NOT_UNDERSTOOD)
    return run.top()


class _Run:
    """The state of one simple expression."""

    def __init__(self, around: Around) -> None:
        self.around = around
        self.narrow = around.machine == EM_386
        self.stack: list[Tree] = []
        self.register: str | None = None
        self.implicit: bytes | None = None
        self.is_value = False
        self.refused = ""
        self._steps = 0

    def top(self) -> Tree:
        if not self.stack:
            raise Refused(OPTIMISED_OUT)
        return self.stack[-1]

    def place(self, offset: int, size: int) -> list[Piece]:
        """The place of a part of a value."""
        if self.refused:
            raise Refused(self.refused)
        if self.register is not None:
            return [Piece(offset, size, False, ("reg", self.register))]
        if self.implicit is not None:
            text = self.implicit.ljust(size, b"\0")
            parts = range(0, size, 8)
            words = [int.from_bytes(text[start : start + min(8, size - start)], "little") for start in parts]
            return [
                Piece(offset + start, min(8, size - start), False, ("const", word))
                for start, word in zip(parts, words, strict=True)
            ]
        top = self.top()
        if self.narrow and not self.is_value and not _is_plain(top):
            top = ("cast", 32, 0, top)
        if self.narrow and self.is_value and size > 4:
            raise Refused(NOT_UNDERSTOOD)
        return [Piece(offset, size, not self.is_value, top)]

    def step(self, name: str, args: Sequence[Any]) -> None:
        """Runs one operation."""
        self._steps += 1
        if self._steps > _MOST:
            raise Refused(NOT_UNDERSTOOD)
        if self.refused:
            return
        try:
            self._step(name.removeprefix("GNU_"), args)
        except IndexError:
            raise Refused(NOT_UNDERSTOOD) from None
        if self.stack and _is_large(self.stack[-1]):
            raise Refused(NOT_UNDERSTOOD)

    def _named(self, number: int) -> str:
        names = REGISTERS[self.around.machine]
        if number < len(names):
            return names[number]
        floats = {62: range(17, 33), EM_386: range(11, 37)}.get(self.around.machine, range(64, 96))
        in_floats = number in floats
        raise Refused(IN_FLOATS if in_floats else NOT_UNDERSTOOD)

    def _step(self, name: str, args: Sequence[Any]) -> None:
        stack, push = self.stack, self.stack.append
        if (name[:3] == "reg" and name[3:].isdigit()) or name == "regx":
            try:
                self.register = self._named(int(name[3:]) if name != "regx" else args[0])
            except Refused as error:
                self.refused = error.reason
        elif name[:4] == "breg":
            push(plus(("reg", self._named(int(name[4:]) if name != "bregx" else args[0])), args[-1]))
        elif name == "fbreg":
            push(plus(self.around.frame_base(), args[0]))
        elif name == "call_frame_cfa":
            push(self.around.cfa())
        elif name == "addr":
            push(("here", args[0] - self.around.address))
        elif name in ("addrx", "addr_index"):
            push(("here", self.around.unit.address(args[0]) - self.around.address))
        elif name in ("constx", "const_index"):
            push(("const", self.around.unit.address(args[0])))
        elif name[:3] == "lit":
            push(("const", int(name[3:])))
        elif name[:5] == "const" and name != "const_type":
            push(("const", args[0] & _ALL))
        elif name == "const_type":
            push(self._typed(args[0], ("const", int.from_bytes(bytes(args[1]), "little"))))
        elif name == "plus_uconst":
            stack[-1] = plus(stack[-1], args[0])
        elif name in _BINARY:
            right, left = stack.pop(), stack.pop()
            if self.narrow and name in _OF_WHOLE_WORDS:
                signed = int(_BINARY[name][-1] == "s")
                left, right = _cut(left, signed), _cut(right, signed)
            push(_binary(_BINARY[name], left, right))
        elif name == "deref":
            stack[-1] = ("read", 4 if self.narrow else 8, stack[-1])
        elif name == "deref_size":
            stack[-1] = ("read", args[0], stack[-1])
        elif name == "deref_type":
            stack[-1] = self._typed(args[1], ("read", args[0], stack[-1]))
        elif name == "regval_type":
            push(self._typed(args[1], ("reg", self._named(args[0]))))
        elif name in ("convert", "reinterpret"):
            stack[-1] = self._typed(args[0], stack[-1]) if args[0] else stack[-1]
        elif name == "dup":
            push(stack[-1])
        elif name == "drop":
            stack.pop()
        elif name == "over":
            push(stack[-2])
        elif name == "pick":
            push(stack[-1 - args[0]])
        elif name == "swap":
            stack[-2:] = stack[:-3:-1]
        elif name == "neg":
            stack[-1] = _binary("-", ("const", 0), stack[-1])
        elif name == "not":
            stack[-1] = _binary("^", stack[-1], ("const", _ALL))
        elif name == "stack_value":
            self.is_value = True
        elif name == "implicit_value":
            self.implicit = bytes(args[0])
        elif name == "entry_value":
            self.refused = self._entry_value(args[0])
        elif name == "implicit_pointer":
            self.refused = SYNTHETIC
        elif name in ("form_tls_address", "push_tls_address"):
            self.refused = THREAD_LOCAL
        elif name not in ("nop", "uninit"):
            self.refused = NOT_UNDERSTOOD

    def _entry_value(self, inner: Sequence[Any]) -> str:
        words = [operation.op_name.removeprefix("DW_OP_reg") for operation in inner]
        if len(words) == 1 and words[0].isdigit():
            try:
                return f"passed in {self._named(int(words[0]))} and overwritten"
            except Refused:
                return "passed in a floating-point register and overwritten"
        return "its value follows from what the function was called with, which is overwritten"

    def _typed(self, place: int, tree: Tree) -> Tree:
        """A value as the base type at an offset of the unit has it."""
        if self.narrow:
            raise Refused("it is computed from numbers of another size than the program's words")
        unit = self.around.unit
        kind = unit.entry(unit.offset + place)
        size, encoding = kind.number(dw.BYTE_SIZE) or 0, kind.number(dw.ENCODING)
        if size not in (1, 2, 4, 8) or encoding not in (
            dw.ADDRESS, dw.BOOLEAN, dw.SIGNED, dw.SIGNED_CHAR, dw.UNSIGNED, dw.UNSIGNED_CHAR, dw.UTF
        ):  # fmt: skip
            raise Refused("it is computed from floating-point numbers")
        return tree if size == 8 else ("cast", 8 * size, int(encoding in (dw.SIGNED, dw.SIGNED_CHAR)), tree)


def _binary(op: str, left: Tree, right: Tree) -> Tree:
    if op == "+" and right[0] == "const":
        return plus(left, right[1])
    if op == "+" and left[0] == "const":
        return plus(right, left[1])
    if op == "-" and right[0] == "const":
        return plus(left, -right[1])
    if op in ("<<", ">>", ">>s") and (right[0] != "const" or not 0 <= right[1] < 64):
        raise Refused(NOT_UNDERSTOOD)
    return (op, left, right)


def _cut(tree: Tree, signed: int) -> Tree:
    """A word of 32 bits, extended to 64: what is above them is of no account there."""
    return tree if tree[0] == "const" and not signed else ("cast", 32, signed, tree)


def _is_plain(tree: Tree) -> bool:
    """Whether an address is a register or a place of the file and a number, and so has no more bits than these."""
    return tree[0] in ("reg", "here", "const") or (tree[0] == "+" and tree[1][0] == "reg" and tree[2][0] == "const")


def _is_large(tree: Tree) -> bool:
    """Whether a tree has too many nodes: what is doubled again and again has more than can be counted."""
    waiting, count = [tree], 0
    while waiting and count <= _MOST:
        waiting += [node for node in waiting.pop() if isinstance(node, tuple)]
        count += 1
    return count > _MOST
