"""Values of steps: constants, names, operations; and what is read at a hit.

Integers are exact: `add` of two int32 may need 33 bits, and `wrap` says where they are cut. A printer may compute
modulo 2^64, since every result that could leave its type is wrapped before it is used. `quot` and `rem` truncate
towards zero and are never asked for a divisor of 0; a shift's count is between 0 and 63.

| op | operands → result |
|---|---|
| add sub mul and or xor | integers of one type → integer, not wrapped |
| neg inv | integer → integer, not wrapped |
| shl shr | integer, count → integer, not wrapped; shr keeps the sign |
| quot rem | integers of one type, the second not 0 → integer |
| wrap | integer → integer of `type`: its bits, read with the type's sign |
| int | bool → 0 or 1 |
| eq ne lt le gt ge | integers of one type → bool |
| same | strings, tuples or blocks → bool |
| not both either | bools → bool; the second operand of the last two has no effect, and may be left out |
| select | bool, a, b → a where it is true, else b |
| as | any value → the same value under another type (a wider string, a uid as a user's name) |
| tuple | values → a tuple |
| item | tuple, constant index → one of its values |
| part | block, offset → the integer, bool, block or string at that byte; 0 behind the end |
| buffer | block or string, length up to the room of the type → a buffer: the length, the bytes, zeros |
| pad | buffer → the same in a type with more room |
| memcmp | strings or blocks, uint64 n → int32: the difference, as signed chars, of the first of n bytes that differ |
| pack | integers → their bytes one behind the other, as a block |
| strlen | string → uint64 |
| starts | string, string, constant n → bool: whether strncmp(3) of n bytes gives 0 |
| find | string, string → int64: where the second first stands in the first, -1 where it does not |
| glob | string, constant pattern → bool: whether the string is as the pattern says (glob(7)) |
| concat | strings of n and m bytes → a string of n + m - 1 |
| frames | stack → uint64: how many addresses it has |
| symbol | pid, address, moment → an address to be shown as the symbol that holds it then |
"""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.lang.types import FloatType, IntType, Type


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
    """`probe` or `func`: a string that is known for each site before attaching."""

    type: Type
    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """An operation of the table above."""

    type: Type
    op: str
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


Source = Argument | ReturnValue | Register | BuiltIn | Memory | Text | Bytes | UserStack
InMemory = Memory | Text | Bytes
