"""printf formats: C's conversions, as far as there are values for them.

A format is text; bytes that are not UTF-8 stand in it as Python's surrogate escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracer.dataclass import dataclass
from tracer.lang.types import BoolType, BufferType, FloatType, IntType, Type

_CONVERSION = (
    r"%(?P<flags>[-+ #0']*)(?P<width>\*|[0-9]*)(?P<precision>\.(?:\*|[0-9]*))?"
    r"(?:(?P<length>hh|h|ll|l|j|z|t|q|L)(?=[a-zA-Z]))?(?P<kind>r[xh]?|.|\Z)"
)
_LENGTHS = ("", "hh", "h", "l", "ll", "j", "z", "t")
MOST_WIDTH = 4096

INTEGERS = "diuxXoc"
"""Conversions of an int or bool; `p` takes an int too."""

BUFFERS = ("r", "rx", "rh")
"""Conversions of a buffer: its bytes as text, as escapes, as pairs of digits."""

FLOATS = "fFeEgG"
"""Conversions of a floating-point number."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """One `%…` of a format, from `start` to `end` in its text; `kind` is its letter, `%` for `%%`."""

    text: str
    kind: str
    flags: str
    width: str
    precision: str | None
    length: str
    start: int
    end: int

    @property
    def stars(self) -> int:
        """The numbers that it takes before its value: one for a `*` width, one for a `*` precision."""
        return (self.width, self.precision).count("*")


def conversions(format: str, valid: bool = True) -> Iterator[Conversion]:
    """The conversions of a format in order, `%%` included; else those that are none, which mean themselves, as in
    bpftrace: `date +%H`.
    """
    for match in re.finditer(_CONVERSION, format, re.S):
        kinds, length = (*INTEGERS, *FLOATS, *BUFFERS, "p", "s", "%"), match["length"] or ""
        if (match["kind"] in kinds and length in _LENGTHS) != valid:
            continue
        precision = match["precision"]
        yield Conversion(
            match.group(),
            match["kind"],
            match["flags"],
            match["width"],
            None if precision is None else precision[1:],
            length,
            match.start(),
            match.end(),
        )


def fault(conversion: Conversion) -> tuple[str, str | None] | None:
    """The fault of a conversion by itself, if any: message and hint."""
    text = conversion.text.encode("unicode_escape").decode()
    written = [part for part in (conversion.width, conversion.precision) if part and part != "*"]
    if any(len(part) > 4 or int(part) > MOST_WIDTH for part in written):
        return f"the width of '{text}' is too large", f"at most {MOST_WIDTH}"
    return None


def accepts(kind: str, type: Type) -> bool:
    """Whether a conversion can show a value of this type."""
    if kind == "s":
        return True
    if kind in BUFFERS:
        return isinstance(type, BufferType)
    if kind in FLOATS:
        return isinstance(type, FloatType)
    return isinstance(type, (IntType, BoolType))


def fitting(type: Type) -> str:
    """The conversions to write instead of one that cannot show this type."""
    if isinstance(type, FloatType):
        return "use %f"
    return "use %d" if isinstance(type, (IntType, BoolType)) else "use %s"
