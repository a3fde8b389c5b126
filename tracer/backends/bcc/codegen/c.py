"""C expressions as objects: a text, how tightly it binds, and its type in C.

They have no side effect and may be written wherever they are needed, as often as they are.
"""

from __future__ import annotations

from tracer.backends.bcc.maps.element_bytes import wrap
from tracer.dataclass import dataclass
from tracer.lang.types import IntType, Type

_CHOICE, _OR, _AND, _BITS, _COMPARISON, _SHIFT, _SUM, _PRODUCT, _UNARY, ATOM = range(10)
_BINARY = {
    "||": (_OR, _BITS), "&&": (_AND, _BITS),
    "|": (_BITS, _UNARY), "^": (_BITS, _UNARY), "&": (_BITS, _UNARY),
    "==": (_COMPARISON, _SHIFT), "!=": (_COMPARISON, _SHIFT), "<": (_COMPARISON, _SHIFT),
    "<=": (_COMPARISON, _SHIFT), ">": (_COMPARISON, _SHIFT), ">=": (_COMPARISON, _SHIFT),
    "<<": (_SHIFT, _UNARY), ">>": (_SHIFT, _UNARY),
    "+": (_SUM, _SUM), "-": (_SUM, _PRODUCT), "*": (_PRODUCT, _UNARY),
}  # fmt: skip
"""The precedence of each operator, and the one that its operands need. Bitwise operators get parentheses, since few
know C's precedence for them.
"""


@dataclass(frozen=True, slots=True)
class C:
    """An expression. `type` is its type in C (`s32`, `u64`, …), or "bool" for 0 or 1."""

    text: str
    type: str = "u64"
    level: int = ATOM

    def within(self, level: int) -> str:
        """The text as an operand of an operator of this precedence."""
        return self.text if self.level >= level else f"({self.text})"

    def __str__(self) -> str:
        return self.text


def c_type(kind: Type) -> str:
    """The C type of a scalar value."""
    if isinstance(kind, IntType):
        return f"{'s' if kind.signed else 'u'}{kind.bits}"
    return "u64"


def word_type(kind: Type) -> str:
    """The C type of 64 bits in which one computes with values of a type."""
    return "s64" if isinstance(kind, IntType) and kind.signed else "u64"


_WORD = (1 << 64) - 1
_TAGS = range(0xFEED_FAC8, 0xFEED_FAD0)
"""High halves of the constants that the loader replaces, and each minus one, since compilers may write a constant as
another one minus one.
"""


def plain(number: int) -> str:
    """64 bits."""
    high, low = divmod(number & _WORD, 1 << 32)
    return f"PLAIN({high:#x}, {low:#x})" if high in _TAGS else f"{number & _WORD:#x}ULL"


def literal(number: int, kind: Type) -> C:
    """An integer constant of a type."""
    number = wrap(kind, number)
    if (number & _WORD) >> 32 in _TAGS:
        return cast(word_type(kind), C(plain(number)))
    if word_type(kind) == "u64":
        return C(f"{number}ULL", "u64")
    if number == -(1 << 63):
        return C("(-9223372036854775807LL - 1)", "s64")
    return C(f"({number}LL)" if number < 0 else f"{number}LL", "s64")


def cast(type: str, value: C) -> C:
    """The value as another type."""
    return value if value.type == type else C(f"({type}){value.within(_UNARY)}", type, _UNARY)


def unary(op: str, value: C, type: str) -> C:
    """`-x`, `~x`, `!x`; `-(-x)` is not `--x`."""
    return C(f"{op}{value.within(ATOM if op == '-' else _UNARY)}", type, _UNARY)


def binary(op: str, left: C, right: C, type: str) -> C:
    """`a op b`; chains of `&&` and of `||` need no parentheses."""
    level, inside = _BINARY[op]
    return C(f"{left.within(inside if level > _AND else level)} {op} {right.within(inside)}", type, level)


def choice(condition: C, then: C, otherwise: C, type: str) -> C:
    """`condition ? then : otherwise`."""
    parts = (part.within(_OR) for part in (condition, then, otherwise))
    return C("{} ? {} : {}".format(*parts), type, _CHOICE)


def call(function: str, *arguments: C | str | int, type: str = "u64") -> C:
    """`function(arguments)`: of the prelude, without side effect."""
    return C(f"{function}({', '.join(map(str, arguments))})", type)
