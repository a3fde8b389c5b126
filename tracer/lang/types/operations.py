"""The semantics of every operator on integers that are already wrapped to their type.

The constant folder uses these functions, and they are the reference for the interpreter and for the C that BCC
compiles. They follow BPF where C leaves things open: division by zero gives 0, remainder by zero gives the dividend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tracer.lang.types import BoolType, IntType

SHIFT_MASK = 63


def wrap(value: int, type: IntType) -> int:
    """Any integer, cut to the width of `type` and read with its sign."""
    value &= (1 << type.bits) - 1
    if type.signed and value >> (type.bits - 1):
        value -= 1 << type.bits
    return value


def add(left: int, right: int, type: IntType) -> int:
    """Sum, wrapped."""
    return wrap(left + right, type)


def sub(left: int, right: int, type: IntType) -> int:
    """Difference, wrapped."""
    return wrap(left - right, type)


def mul(left: int, right: int, type: IntType) -> int:
    """Product, wrapped."""
    return wrap(left * right, type)


def div(left: int, right: int, type: IntType) -> int:
    """Quotient, truncated towards zero; 0 where `right` is 0."""
    if right == 0:
        return 0
    quotient = abs(left) // abs(right)
    return wrap(quotient if (left < 0) == (right < 0) else -quotient, type)


def mod(left: int, right: int, type: IntType) -> int:
    """Remainder with the sign of `left`; `left` itself where `right` is 0."""
    if right == 0:
        return left
    remainder = abs(left) % abs(right)
    return wrap(-remainder if left < 0 else remainder, type)


def bit_and(left: int, right: int, type: IntType) -> int:
    """`&`."""
    return wrap(left & right, type)


def bit_or(left: int, right: int, type: IntType) -> int:
    """`|`."""
    return wrap(left | right, type)


def bit_xor(left: int, right: int, type: IntType) -> int:
    """`^`."""
    return wrap(left ^ right, type)


def shl(left: int, right: int, type: IntType) -> int:
    """`<<` by `right` modulo 64, wrapped."""
    return wrap(left << (right & SHIFT_MASK), type)


def shr(left: int, right: int, type: IntType) -> int:
    """`>>` by `right` modulo 64; keeps the sign of a signed value."""
    return wrap(left >> (right & SHIFT_MASK), type)


ARITHMETIC: Final[dict[str, Callable[[int, int, IntType], int]]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": div,
    "%": mod,
    "&": bit_and,
    "|": bit_or,
    "^": bit_xor,
    "<<": shl,
    ">>": shr,
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


def negate(value: int, type: IntType) -> int:
    """`-value`, wrapped."""
    return wrap(-value, type)


def invert(value: int, type: IntType) -> int:
    """`~value`."""
    return wrap(~value, type)


def cast(value: int, type: IntType | BoolType) -> int | bool:
    """`(type)value` of an integer or bool: cut or extended by the sign of the source; to bool: whether it is not 0."""
    if isinstance(type, BoolType):
        return value != 0
    return wrap(int(value), type)
