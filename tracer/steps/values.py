"""Values of steps: constants, names, operations; and what is read at a hit."""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.lang.types import FloatType, IntType, Type
from tracer.lang.types.operations import Operation


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: an integer in the range of its type, a bool, or bytes without a closing NUL."""

    type: Type
    value: int | bool | bytes


@dataclass(frozen=True, slots=True)
class Name:
    """The result of the step that assigns this name."""

    type: Type
    id: int


@dataclass(frozen=True, slots=True)
class SiteText:
    """`probe`, `line` and their like (`SITE_VALUES`): a string or number, known of each site before attaching."""

    type: Type
    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """An operation on values."""

    type: Type
    op: Operation
    args: tuple[Value, ...]


Value = Const | Name | SiteText | Op


# --- what is read at a hit -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Argument:
    """`argN`, extended to `type`: int64, uint64, or the bits of a float."""

    index: int
    type: IntType | FloatType


@dataclass(frozen=True, slots=True)
class ReturnValue:
    """The whole return register: uint64."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register at the hit, by its name in the kernel's pt_regs: uint64."""

    name: str


@dataclass(frozen=True, slots=True)
class Zero:
    """The base of a constant address: 0. It is never fetched by itself."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """`pid tid uid gid cpu nsecs cpid cgroup ppid` (uint64), the clocks `monotonic` and `tai`, `comm`, `pcomm` and
    `leader_comm` (string[16]), or `started`: when the trace began, in the time of `nsecs`; `moment`: when the hit was,
    as far as a symbol needs to know (CLOCK_MONOTONIC, 0 for now).
    """

    name: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The integer of `type` at the address that `base` holds plus a signed constant. `base` is None where the address
    is computed: then only the step says it.
    """

    base: Source | None
    offset: int
    type: IntType


@dataclass(frozen=True, slots=True)
class Text:
    """The string there, in a buffer of `size` bytes. `sized`: the program gives the size, so a cut is what it asked
    for. `measured`: it gives a size that is known only at the hit: up to `size` it is as if it stood there, beyond that
    as if none did.
    """

    base: Source | None
    offset: int
    size: int
    sized: bool
    measured: bool


@dataclass(frozen=True, slots=True)
class Bytes:
    """The `size` bytes there, as a block (a struct, union or array): all of them can be read, or it fails. Where the
    fetch has a length, so many of them, and zeros behind.
    """

    base: Source | None
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class UserStack:
    """The user stack, at most so many frames. `interpreted`: with the functions of an interpreter."""

    frames: int
    interpreted: bool = False


@dataclass(frozen=True, slots=True)
class KernelStack:
    """The stack of the kernel, at most so many frames; empty where the hit is not in the kernel."""

    frames: int


Source = Argument | ReturnValue | Register | Zero | BuiltIn | Memory | Text | Bytes | UserStack | KernelStack
InMemory = Memory | Text | Bytes
