"""A line of uprobe_events as a tree: the kernel's Documentation/trace/uprobetracer.rst and kprobetrace.rst."""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.errors import Span


@dataclass(frozen=True, slots=True)
class Register:
    """`%REG`, by its name in pt_regs."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """`@ADDR`: what lies at an address of the program's memory."""

    value: int


@dataclass(frozen=True, slots=True)
class InFile:
    """`@+OFFSET`: what the program has in memory of that place in the probe's file."""

    offset: int


@dataclass(frozen=True, slots=True)
class Stack:
    """`$stack`, the address (`entry` is None), or `$stackN`, the word there."""

    entry: int | None


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """`$retval`."""


@dataclass(frozen=True, slots=True)
class ThreadName:
    """`$comm`."""


@dataclass(frozen=True, slots=True)
class Immediate:
    """An immediate value, a number behind a backslash: unsigned in 64 bits."""

    value: int


@dataclass(frozen=True, slots=True)
class Memory:
    """`+|-[u]OFFSET(…)`: what lies at what is in the brackets plus a signed offset."""

    offset: int
    base: Value


Value = Register | Address | InFile | Stack | ReturnValue | ThreadName | Immediate | Memory


@dataclass(frozen=True, slots=True)
class Type:
    """`sort`: u, s, x (a number of `bits`), char, string or ustring. A bit field has `width` bits from bit `low` on, of
    an unsigned container of `bits`. `count`: an array of so many.
    """

    sort: str
    bits: int = 64
    width: int = 0
    low: int = 0
    count: int | None = None

    @property
    def is_string(self) -> bool:
        return self.sort in ("string", "ustring")

    @property
    def is_signed(self) -> bool:
        return self.sort == "s"

    @property
    def text(self) -> str:
        """The type as the kernel's format file has it."""
        one = "char[]" if self.is_string else "u8" if self.sort == "char" else f"{self.sort}{self.bits}"
        return one.replace("x", "u") + ("" if self.count is None else f"[{self.count}]")


@dataclass(frozen=True, slots=True)
class Argument:
    """`NAME=VALUE:TYPE`; the span is that of the whole word."""

    name: str
    value: Value
    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class Definition:
    """The whole line. `place` is a function, a USDT probe, or what an `offset` in the file was written as; `semaphore`
    is the file offset between brackets behind it. `file_span` and `place_span` are theirs in the line.
    """

    returns: bool
    event: str
    file: str
    place: str
    offset: int | None
    semaphore: int | None
    arguments: tuple[Argument, ...]
    file_span: Span
    place_span: Span
