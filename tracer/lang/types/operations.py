"""The semantics of the language's operators, and the operations that steps are made of.

The operators are those on integers that are already wrapped to their type. The constant folder uses these functions,
and they are the reference for what steps become. They follow BPF where C leaves things open, and bpftrace where BPF
says nothing of it: division and remainder by zero give 1.

There is one object for each operation, which lowering names and both printers read. Integers are exact there: `ADD` of
two int32 may need 33 bits, and `WRAP` says where they are cut. A printer may compute modulo 2^64, since every result
that could leave its type is wrapped before it is used. `QUOT` and `REM` truncate towards zero and are never asked for a
divisor of 0; a shift's count is between 0 and 63.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Final

from tracer.lang.types import BoolType, IntType

SHIFT_MASK = 63


def wrap(value: int, type: IntType) -> int:
    """Any integer, cut to the width of `type` and read with its sign."""
    value &= (1 << type.bits) - 1
    if type.signed and value >> (type.bits - 1):
        value -= 1 << type.bits
    return value


def div(left: int, right: int, type: IntType) -> int:
    """Quotient, truncated towards zero; 1 where `right` is 0."""
    if right == 0:
        return 1
    quotient = abs(left) // abs(right)
    return wrap(quotient if (left < 0) == (right < 0) else -quotient, type)


def mod(left: int, right: int, type: IntType) -> int:
    """Remainder with the sign of `left`; 1 where `right` is 0."""
    if right == 0:
        return 1
    remainder = abs(left) % abs(right)
    return wrap(-remainder if left < 0 else remainder, type)


ARITHMETIC: Final[dict[str, Callable[[int, int, IntType], int]]] = {
    "+": lambda left, right, type: wrap(left + right, type),
    "-": lambda left, right, type: wrap(left - right, type),
    "*": lambda left, right, type: wrap(left * right, type),
    "/": div,
    "%": mod,
    "&": lambda left, right, type: wrap(left & right, type),
    "|": lambda left, right, type: wrap(left | right, type),
    "^": lambda left, right, type: wrap(left ^ right, type),
    "<<": lambda left, right, type: wrap(left << (right & SHIFT_MASK), type),
    ">>": lambda left, right, type: wrap(left >> (right & SHIFT_MASK), type),
}
"""Operators whose operands and result have one integer type."""

COMPARISON: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
"""Operators on two integers of one type that give a bool."""


def cast(value: int, type: IntType | BoolType) -> int | bool:
    """`(type)value` of an integer or bool: cut or extended by the sign of the source; to bool: whether it is not 0."""
    if isinstance(type, BoolType):
        return value != 0
    return wrap(int(value), type)


# --- the operations of steps -----------------------------------------------------------------------------------------

Bounds = tuple[int, int]
"""The least and the greatest number."""


class Operation:
    """An operation on values, without effect; `types` are those of its operands, and of its result.

    `sign`: how people write it, and C where it has no function. `python`: a Python expression of the texts of its
    operands, or a function of their values. `c`: a function of the prelude (`…_signed` for a signed result). It takes
    of a string the address and the size in words; one that makes a string takes where to first, sizes in bytes, and
    gives the length. What these do not say, a printer has a function of its own for. `bounds`: between which numbers
    the result lies, or that of the bounds of `type` and of the operands (None: of `type` alone).
    """

    __slots__ = ("bounds", "c", "name", "python", "sign", "types")

    def __init__(
        self, name: str, types: str, sign: str = "", python: str | Callable[..., object] = "", c: str = "",
        bounds: Bounds | Callable[..., Bounds | None] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.types = types
        self.sign = sign
        self.python = python
        self.c = c
        self.bounds = bounds

    def __repr__(self) -> str:
        return self.name


def compared(left: bytes, right: bytes, count: int) -> int:
    """memcmp(3), as signed chars."""
    for one, other in zip_longest(left[:count], right[:count], fillvalue=0):
        if one != other:
            return (one ^ 128) - (other ^ 128)
    return 0


def _wrapped(type: Bounds, of: Bounds) -> Bounds:
    return of if type[0] <= of[0] and of[1] <= type[1] else type


def _product(type: Bounds, left: Bounds, right: Bounds) -> Bounds:
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


def _common_bits(type: Bounds, left: Bounds, right: Bounds) -> Bounds | None:
    # An operand that is not negative bounds the result from above and makes it not negative.
    positive = [high for low, high in (left, right) if low >= 0]
    return (0, min(positive)) if positive else None


def _all_bits(type: Bounds, left: Bounds, right: Bounds) -> Bounds | None:
    # Not negative, it has no bit above those of both.
    return (0, (1 << max(left[1], right[1]).bit_length()) - 1) if left[0] >= 0 and right[0] >= 0 else None


def _shifted_left(type: Bounds, number: Bounds, count: Bounds) -> Bounds:
    return number[0] << count[number[0] < 0], number[1] << count[number[1] > 0]


def _shifted_right(type: Bounds, number: Bounds, count: Bounds) -> Bounds:
    return number[0] >> count[number[0] >= 0], number[1] >> count[number[1] < 0]


def _quotient(type: Bounds, left: Bounds, right: Bounds) -> Bounds:
    if left[0] >= 0 and right[0] >= 0:
        return left[0] // max(right[1], 1), left[1] // max(right[0], 1)
    most = max(abs(left[0]), abs(left[1]))
    return -most, most


def _remainder(type: Bounds, left: Bounds, right: Bounds) -> Bounds:
    most = max(abs(right[0]), abs(right[1]), 1) - 1
    return max(min(left[0], 0), -most), min(max(left[1], 0), most)


_TWO = "integers of one type → integer, not wrapped"
_ONE = "integer → integer, not wrapped"
_SHIFT = "integer, count → integer, not wrapped"
_TEST = "integers of one type → bool"
_BOOLS = "bools → bool; the second has no effect, and may be left out"

ADD = Operation("add", _TWO, "+", "({0} + {1})", bounds=lambda type, a, b: (a[0] + b[0], a[1] + b[1]))
SUB = Operation("sub", _TWO, "-", "({0} - {1})", bounds=lambda type, a, b: (a[0] - b[1], a[1] - b[0]))
MUL = Operation("mul", _TWO, "*", "({0} * {1})", bounds=_product)
AND = Operation("and", _TWO, "&", "({0} & {1})", bounds=_common_bits)
OR = Operation("or", _TWO, "|", "({0} | {1})", bounds=_all_bits)
XOR = Operation("xor", _TWO, "^", "({0} ^ {1})", bounds=_all_bits)
NEG = Operation("neg", _ONE, "-", "(-{0})", bounds=lambda type, a: (-a[1], -a[0]))
INV = Operation("inv", _ONE, "~", "(~{0})", bounds=lambda type, a: (~a[1], ~a[0]))
SHL = Operation("shl", _SHIFT, "<<", "({0} << {1})", bounds=_shifted_left)
SHR = Operation("shr", f"{_SHIFT}; it keeps the sign", ">>", "({0} >> {1})", bounds=_shifted_right)
QUOT = Operation("quot", "integers of one type, the second not 0 → integer", "/", c="divide", bounds=_quotient)
REM = Operation("rem", "integers of one type, the second not 0 → integer", "%", c="remainder", bounds=_remainder)
WRAP = Operation("wrap", "integer → integer of the type: its bits, read with the type's sign", bounds=_wrapped)
INT = Operation("int", "bool → 0 or 1", python="(+{0})", bounds=lambda type, a: a)
EQ = Operation("eq", _TEST, "==", "({0} == {1})")
NE = Operation("ne", _TEST, "!=", "({0} != {1})")
LT = Operation("lt", _TEST, "<", "({0} < {1})")
LE = Operation("le", _TEST, "<=", "({0} <= {1})")
GT = Operation("gt", _TEST, ">", "({0} > {1})")
GE = Operation("ge", _TEST, ">=", "({0} >= {1})")
SAME = Operation("same", "strings, tuples or blocks → bool", "==", "({0} == {1})")
NOT = Operation("not", "bool → bool", "!", "(not {0})")
BOTH = Operation("both", _BOOLS, "&&", "({0} and {1})")
EITHER = Operation("either", _BOOLS, "||", "({0} or {1})")
SELECT = Operation(
    "select", "bool, a, b → a where it is true, else b",
    bounds=lambda type, test, a, b: (min(a[0], b[0]), max(a[1], b[1])),
)  # fmt: skip
AS = Operation("as", "value → the same under another type (a wider string, a uid as a user's name)", python="{0}")
TUPLE = Operation("tuple", "values → a tuple")
ITEM = Operation("item", "tuple, constant index → one of its values", python="{0}[{1}]")
PART = Operation("part", "block, offset → the integer, bool, block or string at that byte; 0 behind the end")
BUFFER = Operation("buffer", "block or string, length up to the type's room → a buffer: the length, the bytes, zeros")
PAD = Operation("pad", "buffer → the same in a type with more room")
PACK = Operation("pack", "integers → their bytes one behind the other, as a block")
MEMCMP = Operation(
    "memcmp", "strings or blocks, uint64 n → int32: the difference, as signed chars, of the first of n that differ",
    python=compared, bounds=(-255, 255),
)  # fmt: skip
STRLEN = Operation("strlen", "string → uint64", python="len({0})", c="text_length", bounds=(0, (1 << 32) - 1))
STARTS = Operation(
    "starts", "string, string, constant n → bool: whether strncmp(3) of n bytes gives 0",
    python="({0}[:{2}] == {1}[:{2}])",
)  # fmt: skip
FIND = Operation(
    "find", "string, string → int64: where the second first stands in the first, -1 where it does not",
    python="{0}.find({1})", bounds=(-1, (1 << 31) - 1),
)  # fmt: skip
GLOB = Operation("glob", "string, constant pattern → bool: whether the string is as the pattern says (glob(7))")
CONCAT = Operation("concat", "strings of n and m bytes → one of n + m - 1", python="({0} + {1})", c="join_texts")
FRAMES = Operation("frames", "stack → uint64: how many addresses it has", python="len({0}.addresses)")
OF_KERNEL = Operation("kptr", "address → the same, of memory of the kernel", python="{0}", c="of_kernel")
TRACED = Operation("traced", "thread → bool: whether it is one of those that are traced", c="thread_is_traced")
SYMBOL = Operation("symbol", "pid, address, moment → an address to be shown as the symbol that holds it then")

OPERATIONS: Final = tuple(operation for operation in tuple(globals().values()) if isinstance(operation, Operation))
"""All of this table; a built-in may bring one of its own."""
COMPARISONS: Final = {operation.sign: operation for operation in (EQ, NE, LT, LE, GT, GE)}
BINARY: Final = {operation.sign: operation for operation in (ADD, SUB, MUL, QUOT, REM, AND, OR, XOR, SHL, SHR)}
"""By how people write them."""
