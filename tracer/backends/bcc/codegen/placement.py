"""Where the wide values of a clause live: strings, tuples, stacks, symbols.

A value that becomes a part of a map's key in the same block is made right in that key's buffer, and a string or a stack
that nothing but one record needs is read right into the record; everything else has a buffer of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tracer.backends.bcc.events.records import bytes_behind, words_of
from tracer.backends.bcc.maps.layout import SHORT_TEXT, size_of
from tracer.backends.bcc.maps.tables import Table
from tracer.dataclass import dataclass
from tracer.lang.types import UINT64, StringType, TupleType, Type
from tracer.steps.model import (
    Block,
    Const,
    Fetch,
    GetSlot,
    If,
    Let,
    MapAdd,
    MapDelete,
    MapGet,
    MapHas,
    MapSet,
    Name,
    Op,
    Printf,
    PrintValue,
    Require,
    SetSlot,
    Step,
    Steps,
    Text,
    Update,
    UserStack,
    Value,
)
from tracer.steps.walk import blocks, defined, parts, used, walk

KeyStep = MapGet | MapHas | MapSet | MapAdd | Update | MapDelete
RecordStep = Printf | PrintValue


@dataclass(frozen=True, slots=True)
class Part:
    """In the buffer of a later step, from a word on, where a value of `kind` stands: in its key, or in its value (that
    which a map is assigned, or that which a name is given).
    """

    step: Step
    of: Literal["key", "value"]
    word: int
    kind: Type


@dataclass(frozen=True, slots=True)
class RecordLeaf:
    """One of the `leaves` of a later record."""

    step: RecordStep
    index: int


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value of a record below its tuples; `word` is where it stands in the record's head."""

    value: Value
    word: int


@dataclass(frozen=True, slots=True)
class Placement:
    """`homes` are the places of names that have no buffer of their own. `defined` are the steps that assign each name,
    `used` the names that any value needs. `aliases` gives the names that may stand for the variable which they were
    read from, and its slot. `slots` are the variables that there are.
    """

    homes: Mapping[int, Part | RecordLeaf]
    defined: Mapping[int, Step]
    used: frozenset[int]
    aliases: Mapping[int, int]
    slots: frozenset[int]


def scalar(kind: Type) -> bool:
    """Whether a value of this type is one C number."""
    return size_of(kind) == 8 and not isinstance(kind, StringType | TupleType)


def bare(value: Value) -> Value:
    """The value without the types that it is given on the way."""
    while isinstance(value, Op) and value.op == "as":
        value = value.args[0]
    return value


def item(value: Value, index: int) -> Value:
    """One of the values of a tuple."""
    value, kind = bare(value), value.type
    assert isinstance(kind, TupleType)
    match value:
        case Op(op="tuple", args=args):
            return args[index]
        case Op(op="select", args=(condition, then, otherwise)):
            return Op(kind.items[index], "select", (condition, item(then, index), item(otherwise, index)))
        case _:
            return Op(kind.items[index], "item", (value, Const(UINT64, index)))


def record_values(step: RecordStep) -> tuple[Value, ...]:
    """The values that a record carries."""
    return step.args if isinstance(step, Printf) else (step.value,)


def leaves(values: Sequence[Value]) -> list[Leaf]:
    """The values of a record, tuples spread out."""
    found: list[Leaf] = []
    word = 1
    for value in _spread(values):
        found.append(Leaf(value, word))
        word += words_of(value.type)
    return found


def _spread(values: Sequence[Value]) -> Iterator[Value]:
    for value in values:
        if isinstance(value.type, TupleType):
            yield from _spread([item(value, index) for index in range(len(value.type.items))])
        else:
            yield value


def place(steps: Steps, tables: Mapping[str, Table]) -> Placement:
    """The placement of a clause."""
    everything = list(walk(steps.body))
    uses = Counter(
        part.id for step in everything for value in used(step) for part in parts(value) if isinstance(part, Name)
    )
    names = {name.id: step for step in everything if (name := defined(step)) is not None}
    homes: dict[int, Part | RecordLeaf] = {}
    aliases: dict[int, int] = {}
    for block, whole, value in _all_blocks(steps.body):
        result = iter(()) if whole is None or value is None else _names(value, whole)
        _place_block(block, result, tables, uses, homes)
        aliases |= _aliases(block)
    slots = frozenset(step.slot for step in everything if isinstance(step, GetSlot | SetSlot))
    return Placement(homes, names, frozenset(uses), aliases, slots)


def lead(body: Block) -> int:
    """How many steps belong to the predicate."""
    return max((index + 1 for index, step in enumerate(body) if isinstance(step, Require)), default=0)


def _all_blocks(block: Block) -> Iterator[tuple[Block, Part | None, Value | None]]:
    """Each block, and of a branch with a value where that goes."""
    yield block, None, None
    for step in block:
        if isinstance(step, If) and step.result is not None and step.results is not None:
            whole = Part(step, "value", 0, step.result.type)
            for below, value in zip(blocks(step), step.results, strict=True):
                first, *others = _all_blocks(below)
                yield first[0], whole, value
                yield from others
        else:
            for below in blocks(step):
                yield from _all_blocks(below)


def _place_block(
    block: Block,
    result: Iterator[tuple[Name, Part]],
    tables: Mapping[str, Table],
    uses: Mapping[int, int],
    homes: dict[int, Part | RecordLeaf],
) -> None:
    made: dict[int, int] = {}

    def settle(candidates: Iterator[tuple[Name, Part]]) -> None:
        for name, part in candidates:
            # One that others read too must look to them as in a buffer of its own.
            if name.id in made and (uses[name.id] == 1 or name.type == part.kind):
                homes.setdefault(name.id, part)

    first = lead(block)
    for index, step in enumerate(block):
        settle(_parts_of(step, tables))
        if isinstance(step, RecordStep):
            _place_record(block, index, step, made, uses, homes)
        name = defined(step)
        # Before the end of the predicate no short value takes a scratch slot, which the hit may not need.
        late = index >= first or (name is not None and size_of(name.type) > SHORT_TEXT)
        if late and name is not None and not scalar(name.type) and not isinstance(step, GetSlot):
            made[name.id] = index
    settle(result)


def _parts_of(step: Step, tables: Mapping[str, Table]) -> Iterator[tuple[Name, Part]]:
    """The names that a step puts into buffers of its own."""
    if isinstance(step, KeyStep) and (layout := tables[step.map].key) is not None:
        for value, kind, offset in zip(step.key, layout.parts, layout.offsets, strict=True):
            yield from _names(value, Part(step, "key", offset // 8, kind))
    if isinstance(step, MapSet):
        yield from _names(step.value, Part(step, "value", 0, tables[step.map].decl.value))
    elif isinstance(step, Let):
        yield from _names(step.value, Part(step, "value", 0, step.name.type))


def _names(value: Value, part: Part) -> Iterator[tuple[Name, Part]]:
    value = bare(value)
    if isinstance(value, Name):
        yield value, part
    elif isinstance(value, Op) and value.op == "tuple" and isinstance(part.kind, TupleType):
        word = part.word
        for arg, kind in zip(value.args, part.kind.items, strict=True):
            yield from _names(arg, Part(part.step, part.of, word, kind))
            word += size_of(kind) // 8


def _place_record(
    block: Block,
    index: int,
    step: RecordStep,
    made: Mapping[int, int],
    uses: Mapping[int, int],
    homes: dict[int, Part | RecordLeaf],
) -> None:
    """Those that can be read into a record in their turn: no other record is made meanwhile, and whatever stands before
    them in this one is there by then.
    """
    begin = next((at + 1 for at in range(index - 1, -1, -1) if any(map(_sends_bytes, walk((block[at],))))), 0)
    ready = begin
    names = {name.id: at for at, each in enumerate(block[:index]) if (name := defined(each)) is not None}
    for number, leaf in enumerate(leaves(record_values(step))):
        if not bytes_behind(leaf.value.type):
            continue
        at = max((names.get(part.id, 0) for part in parts(leaf.value) if isinstance(part, Name)), default=0)
        own = leaf.value
        if isinstance(own, Name) and uses[own.id] == 1 and made.get(own.id, -1) >= ready:
            source = block[at]
            if isinstance(source, Fetch) and isinstance(source.source, Text | UserStack):
                homes[own.id] = RecordLeaf(step, number)
        ready = max(ready, at)


def _sends_bytes(step: Step) -> bool:
    return isinstance(step, RecordStep) and any(bytes_behind(value.type) for value in record_values(step))


def _aliases(block: Block) -> dict[int, int]:
    """The names of wide variables that are not assigned until the last use of what was read."""
    found: dict[int, int] = {}
    for index, step in enumerate(block):
        if not isinstance(step, GetSlot) or scalar(step.name.type):
            continue
        assigned = False
        for later in block[index + 1 :]:
            needed = any(step.name in parts(value) for each in walk((later,)) for value in used(each))
            assigns = any(isinstance(each, SetSlot) and each.slot == step.slot for each in walk((later,)))
            if needed and (assigned or (assigns and not isinstance(later, SetSlot))):
                break
            assigned = assigned or assigns
        else:
            found[step.name.id] = step.slot
    return found
