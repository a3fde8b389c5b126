"""Fixed-width integer arithmetic on Python's unbounded integers, with the rules that `lang.typed` states."""

from __future__ import annotations


def wrap_int(value: int, bits: int, signed: bool) -> int:
    """The value that an integer of that width and sign holds after an operation gave `value`."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def quotient(dividend: int, divisor: int) -> int:
    """Division that truncates towards zero; 0 where the divisor is 0."""
    if divisor == 0:
        return 0
    if (dividend < 0) == (divisor < 0):
        return abs(dividend) // abs(divisor)
    return -(abs(dividend) // abs(divisor))


def remainder(dividend: int, divisor: int) -> int:
    """The remainder of `quotient`, with the dividend's sign; the dividend itself where the divisor is 0."""
    if divisor == 0:
        return dividend
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest
