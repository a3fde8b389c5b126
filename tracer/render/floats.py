"""Floating-point arguments, whose values are bits until they are shown."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import isfinite
from typing import Any

_WORDS = {32: (struct.Struct("=I"), struct.Struct("=f")), 64: (struct.Struct("=Q"), struct.Struct("=d"))}


def number(bits: int, size: int) -> float:
    """The number that an integer's `size` bits, 32 or 64, are in IEEE 754."""
    integer, real = _WORDS[size]
    value: float = real.unpack(integer.pack(bits))[0]
    return value


def text(bits: int, size: int) -> bytes:
    """The shortest decimal that is this number and no other of its size: `0.1`, `1e+16`, `inf`, `-inf`, `nan`."""
    value = number(bits, size)
    if size == 32 and isfinite(value):
        value = _shortest(value)
    return repr(value).encode()


def json(bits: int, size: int) -> bytes:
    """A float as a number of JSON, or as a string where JSON has no number for it."""
    shown = text(bits, size)
    return shown if isfinite(number(bits, size)) else b'"%b"' % shown


def conversion(flags: str, width: str, precision: str, kind: str, size: int) -> Callable[[Any], bytes]:
    """C's `%f`, `%e`, `%g` and their capitals; `width` and `precision` (with its dot) may be empty."""
    finite = f"%{flags}{width}{precision}{kind}".encode()
    other = f"%{flags.replace('0', '')}{width}{kind}".encode()  # C pads these with blanks

    def show(bits: int) -> bytes:
        value = number(bits, size)
        return (finite if isfinite(value) else other) % value

    return show


def _shortest(value: float) -> float:
    """The double with the fewest digits that is this float once it is cut to 32 bits."""
    real = _WORDS[32][1]
    for digits in range(1, 9):
        candidate = float(f"{value:.{digits}g}")
        try:
            if real.unpack(real.pack(candidate))[0] == value:
                return candidate
        except OverflowError:
            continue  # rounded up beyond the largest float
    return float(f"{value:.9g}")
