"""The types of the language and how a value of each looks in Python.

| type | Python value |
|---|---|
| IntType | int, already wrapped to `bits` and sign |
| BoolType | bool |
| StringType | bytes without the closing NUL, at most size - 1 of them |
| TupleType | tuple of the items' values |
| StackType | `Stack(pid, addresses)`, innermost frame first |
| SymbolType | `Symbol(pid, address)` |
| UsernameType | int, the uid; the name is looked up when it is rendered |
| TimestampType | int, nanoseconds since boot; formatted when it is rendered |
| FloatType | int, the bits without sign; a number when it is rendered |

Bytes, not str: what a target holds need not be UTF-8, and keys must compare as the kernel compares them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tracer.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class IntType:
    """An integer of 8, 16, 32 or 64 bits."""

    bits: int = 64
    signed: bool = True

    def __str__(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}"


@dataclass(frozen=True, slots=True)
class BoolType:
    """`true` or `false`; counts as 1 or 0 in arithmetic and for `%d`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class StringType:
    """A string in a buffer of `size` bytes, the closing NUL included."""

    size: int

    def __str__(self) -> str:
        return f"string[{self.size}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """`(a, b, …)`."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class StackType:
    """A user stack of at most `frames` return addresses."""

    frames: int

    def __str__(self) -> str:
        return f"ustack[{self.frames}]"


@dataclass(frozen=True, slots=True)
class SymbolType:
    """An address in the hit process, shown as the symbol that holds it (`usym`)."""

    def __str__(self) -> str:
        return "usym"


@dataclass(frozen=True, slots=True)
class UsernameType:
    """A uid, shown as the user's name."""

    def __str__(self) -> str:
        return "username"


@dataclass(frozen=True, slots=True)
class TimestampType:
    """Nanoseconds since boot, shown through strftime(3)'s `format` in local time."""

    format: str

    def __str__(self) -> str:
        return "timestamp"


@dataclass(frozen=True, slots=True)
class FloatType:
    """A USDT argument that is a float or a double: it can be shown, and nothing is computed with it."""

    bits: int

    def __str__(self) -> str:
        return f"float{self.bits}"


Type = (
    IntType
    | BoolType
    | StringType
    | TupleType
    | StackType
    | SymbolType
    | UsernameType
    | TimestampType
    | FloatType
)

INT64 = IntType(64, True)
UINT64 = IntType(64, False)
BOOL = BoolType()

INTEGER_TYPES: Final[dict[str, IntType | BoolType]] = {
    "bool": BOOL,
    **{
        f"{'' if signed else 'u'}int{bits}{suffix}": IntType(bits, signed)
        for suffix in ("", "_t")
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    },
    "char": IntType(8, True),
    "short": IntType(16, True),
    "int": IntType(32, True),
    "long": IntType(64, True),
    "unsigned int": IntType(32, False),
    "unsigned long": IntType(64, False),
    "size_t": IntType(64, False),
    "uintptr_t": IntType(64, False),
}
"""Types of casts, with C's names for them."""


class Stack(NamedTuple):
    """A user stack as it was read: process and return addresses, innermost first."""

    pid: int
    addresses: tuple[int, ...]


class Symbol(NamedTuple):
    """An address in a process, to be shown as a symbol."""

    pid: int
    address: int


Value = int | bool | bytes | tuple["Value", ...] | Stack | Symbol
