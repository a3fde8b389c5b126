"""Steps: the operations of one hit of a clause, with all semantics explicit.

A clause becomes a nested list of steps. What a step reads or computes has a *name* with one assignment; a *value* is a
constant, a name, or an operation on values. Values have no effect and do not change, so that they may be computed
wherever they are used; what has an effect, or may be different the next time (a fetch, a variable, a map), is a step.
"""

from __future__ import annotations

from tracer.dataclass import dataclass, field
from tracer.errors import NOWHERE, Span
from tracer.lang.features import Feature
from tracer.lang.types import Type
from tracer.steps.values import Name, Source, Value


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
    """The number of keys of a map: uint64."""

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
    """Adds a value to an aggregation (none for count)."""

    map: str
    key: tuple[Value, ...]
    value: Value | None


@dataclass(frozen=True, slots=True)
class Sample:
    """Adds a value to a series, with its moment in the time of `nsecs`."""

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
    """No hit of any clause after it counts; ends the clause. The code is a uint8."""

    code: Value


@dataclass(frozen=True, slots=True)
class Require:
    """Ends the clause unless the condition holds: a part of the predicate. They come first, with what they need."""

    condition: Value
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Within:
    """Ends the innermost `Attempt`, or else the clause, unless the condition holds, and counts that in
    `Loss.unreadable`: an index is that of an element.
    """

    condition: Value


@dataclass(frozen=True, slots=True)
class Attempt:
    """A statement of BEGIN, END or an interval that a `Within` in it can end."""

    body: Block


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
    """Runs `head` and tests the condition before each round of the body. `Break`, `Continue` and `Round` stand in the
    body alone.
    """

    head: Block
    condition: Value
    body: Block


@dataclass(frozen=True, slots=True)
class Range:
    """A loop with `name` from `start` to `stop` less one."""

    name: Name
    start: Value
    stop: Value
    body: Block


@dataclass(frozen=True, slots=True)
class Each:
    """A loop over each (key, value) of a map: in the order of the keys, but in BPF as the kernel keeps them."""

    name: Name
    map: str
    body: Block
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Round:
    """Takes `rounds` of the `limit` that the loops of a hit have together (`steps.rounds`). Where so many are not left,
    the innermost loop ends, no other has a round left, and the hit is counted once (`Loss.loops`).
    """

    limit: int
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Break:
    """Ends the innermost loop."""


@dataclass(frozen=True, slots=True)
class Continue:
    """The next round of the innermost loop."""


@dataclass(frozen=True, slots=True)
class DividedByZero:
    """A divisor was 0: the result is 1, and it is counted (`Loss.divisions`)."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Ends the clause."""


Step = (
    Let | Fetch | Random | Signal | GetSlot | SetSlot | MapGet | MapHas | MapLength | MapSet | MapAdd | Update | Sample
    | MapDelete
    | Moment | Empty | PrintMap | Printf | PrintValue | Time | Exit | Require | Within | Attempt | If | While | Range
    | Each | Round | Break | Continue | DividedByZero | Leave
)  # fmt: skip
Block = tuple[Step, ...]


# --- a clause --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """Something that not every backend can do, the construct that asks for it, and where that stands."""

    feature: Feature
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
