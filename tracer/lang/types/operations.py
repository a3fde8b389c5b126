"""The semantics of every operator on integers that are already wrapped to their type.

The constant folder uses these functions, and they are the reference for what steps become. They follow BPF where C
leaves things open, and bpftrace where BPF says nothing of it: division and remainder by zero give 1.
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
