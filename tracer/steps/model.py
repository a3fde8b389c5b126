"""Steps: what one hit of a clause does, with every meaning written out.

A clause becomes a nested list of steps. What a step reads or computes has a *name* with one assignment; a *value* is a
constant, a name, or an operation on values. Values have no effect and do not change, so that they may be computed
wherever they are used; what has an effect, or may be different the next time (a fetch, a variable, a map), is a step.

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
| memcmp | strings or blocks, constant n → int32: the difference, as signed chars, of the first of n bytes that differ |
| pack | integers → their bytes one behind the other, as a block |
| strlen | string → uint64 |
| starts | string, string, constant n → bool: whether strncmp(3) of n bytes gives 0 |
| find | string, string → int64: where the second first stands in the first, -1 where it does not |
| concat | strings of n and m bytes → a string of n + m - 1 |
| frames | stack → uint64: how many addresses it has |
| symbol | pid, address → an address to be shown as a symbol |
"""

from __future__ import annotations

from tracer.dataclass import dataclass, field
from tracer.errors import NOWHERE, Span
from tracer.lang.types import FloatType, IntType, Type

# --- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Const:
    """A constant: an integer in the range of its type, a bool, or bytes without a closing NUL."""

    type: Type
    value: int | bool | bytes


@dataclass(frozen=True, slots=True)
class Name:
    """What the step that assigns this name gave."""

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
    """`pid tid uid gid cpu nsecs cpid cgroup` (uint64), the clocks `monotonic` and `tai`, `comm` (string[16]), or
    `started`: when the trace began, in the time of `nsecs`.
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
    """The user stack, at most so many frames."""

    frames: int


Source = Argument | ReturnValue | Register | BuiltIn | Memory | Text | Bytes | UserStack
InMemory = Memory | Text | Bytes


# --- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Let:
    """Computes a value once."""

    name: Name
    value: Value


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads `source`. What cannot be read ends the clause and is counted in `Loss.unreadable`; but a stack that cannot
    be walked is empty, and counted in `Loss.stacks`.

    `address` is where what is `InMemory` is read: the base plus the offset. `length` is the size of a `Text` that is
    `measured`, or how many of some `Bytes`. A string that is cut without being `sized` is counted in `Loss.truncated`:
    each time, or where `once` is given, if the flag of that number is not set yet at this hit. `unused`: nobody needs
    the value but the address of another fetch that has this one for its base.
    """

    name: Name
    source: Source
    address: Value | None = None
    length: Value | None = None
    once: int | None = None
    unused: bool = False
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Random:
    """A random number of 32 bits."""

    name: Name


@dataclass(frozen=True, slots=True)
class Signal:
    """Sends the process that hit a signal of a number from 1 to 64, or only its thread; 0, or the negative number of an
    error: int64. In a probe only.
    """

    name: Name
    number: Value
    thread: bool


@dataclass(frozen=True, slots=True)
class GetSlot:
    """Reads a scratch variable."""

    name: Name
    slot: int


@dataclass(frozen=True, slots=True)
class SetSlot:
    """Assigns a scratch variable; the value has the type of the slot, or is a narrower string."""

    slot: int
    value: Value


@dataclass(frozen=True, slots=True)
class MapGet:
    """The value of a key, 0 or empty where it is not there; of avg and stats the average."""

    name: Name
    map: str
    key: tuple[Value, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class MapHas:
    """Whether a key is there: bool."""

    name: Name
    map: str
    key: tuple[Value, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class MapLength:
    """How many keys there are: uint64."""

    name: Name
    map: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class MapSet:
    """Assigns a scalar. Values have the types of the map's declaration, or are narrower strings: so all below."""

    map: str
    key: tuple[Value, ...]
    value: Value


@dataclass(frozen=True, slots=True)
class MapAdd:
    """Adds to a scalar integer, atomically, and wraps it; `before` is its value until then, where anybody needs it."""

    map: str
    key: tuple[Value, ...]
    value: Value
    before: Name | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """One more value for an aggregation (none for count)."""

    map: str
    key: tuple[Value, ...]
    value: Value | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One more value for a series, and its moment in the time of `nsecs`."""

    map: str
    key: tuple[Value, ...]
    when: Value
    value: Value


@dataclass(frozen=True, slots=True)
class MapDelete:
    """Removes a key; `result` is whether it was there, where anybody needs that."""

    map: str
    key: tuple[Value, ...]
    span: Span = NOWHERE
    result: Name | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment at which the map is cleared, or zeroed, by the later `Empty` that names it: prints in between show
    what was there until then.
    """

    name: Name
    map: str
    zero: bool


@dataclass(frozen=True, slots=True)
class Empty:
    """Removes all keys, or sets all values to 0 (`zero`), as of a moment."""

    map: str
    zero: bool
    moment: Name


@dataclass(frozen=True, slots=True)
class PrintMap:
    """`print(@x, top, div)`: the map as it is, or as it was until `moment`."""

    map: str
    top: int
    div: int
    moment: Name | None = None


@dataclass(frozen=True, slots=True)
class Printf:
    """`printf`: index into `Program.formats`, and the values with their types."""

    format: int
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class PrintValue:
    """`print(expr)`: index into `Program.shapes`."""

    shape: int
    value: Value


@dataclass(frozen=True, slots=True)
class Time:
    """`time(fmt)`: index into `Program.formats`."""

    format: int


@dataclass(frozen=True, slots=True)
class Exit:
    """No hit of any clause after it counts; ends the clause."""

    code: int


@dataclass(frozen=True, slots=True)
class Require:
    """Ends the clause unless the condition holds: a part of the predicate. They come first, with what they need."""

    condition: Value
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class If:
    """A choice. Where it has a value, `result` names it: `results` are its two values, each known in its branch."""

    condition: Value
    then: Block
    otherwise: Block
    result: Name | None = None
    results: tuple[Value, Value] | None = None


@dataclass(frozen=True, slots=True)
class While:
    """Runs `head` and tests the condition before each round of the body. Where it still holds after LOOP_LIMIT rounds
    the loop ends all the same and is counted (`Loss.loops`). `Break` and `Continue` stand in the body alone.
    """

    head: Block
    condition: Value
    body: Block


@dataclass(frozen=True, slots=True)
class Range:
    """For `name` from `start` to `stop` less one, at most LOOP_LIMIT rounds: where more were left, that is counted."""

    name: Name
    start: Value
    stop: Value
    body: Block


@dataclass(frozen=True, slots=True)
class Each:
    """For each (key, value) of a map in the order of the keys: in user space only."""

    name: Name
    map: str
    body: Block


@dataclass(frozen=True, slots=True)
class Break:
    """Ends the innermost loop."""


@dataclass(frozen=True, slots=True)
class Continue:
    """The next round of the innermost loop."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Ends the clause."""


Step = (
    Let | Fetch | Random | Signal | GetSlot | SetSlot | MapGet | MapHas | MapLength | MapSet | MapAdd | Update | Sample
    | MapDelete
    | Moment | Empty | PrintMap | Printf | PrintValue | Time | Exit | Require | If | While | Range | Each | Break
    | Continue | Leave
)  # fmt: skip
Block = tuple[Step, ...]


# --- a clause --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """Something that not every backend can do, the construct that asks for it, and where that stands."""

    feature: str
    construct: str
    span: Span


@dataclass(frozen=True, slots=True)
class Steps:
    """A clause. `slots` are the types of its scratch variables, 0 or empty at first; `flags` is how many flags fetches
    have; `names` is how many names there are.
    """

    body: Block
    slots: tuple[Type, ...] = ()
    flags: int = 0
    names: int = 0
    asks: tuple[Ask, ...] = field(default=())
