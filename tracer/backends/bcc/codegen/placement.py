"""Places for the wide values of a clause: strings, tuples, stacks, symbols.

A value that becomes a part of a later step's key or value in the same block is made right in that step's buffer, and a
string or a stack that nothing but one record needs is read right into the record; everything else has a buffer of its
own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from tracer.backends.bcc.events.records import bytes_behind, words_of
from tracer.backends.bcc.maps.element_bytes import SHORT_TEXT, size_of
from tracer.backends.bcc.maps.tables import Table
from tracer.dataclass import dataclass
from tracer.lang.types import UINT64, StringType, TupleType, Type, is_block, operations
from tracer.steps import model, values
from tracer.steps.model import Block, Step
from tracer.steps.values import Const, Name, Op, Value
from tracer.steps.walk import blocks, defined, parts, used, walk

KeyStep = model.MapGet | model.MapHas | model.MapSet | model.MapAdd | model.Update | model.MapDelete
RecordStep = model.Printf | model.PrintValue | model.Sample

_BYTES = values.Text | values.UserStack | values.KernelStack


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the buffer of a later step, from a word on, in which a value of `kind` stands: in its key, or in its
    value (that which a map is assigned, or that which a name is given).
    """

    step: Step
    of: Literal["key", "value"]
    word: int
    kind: Type


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value of a record below its tuples; `word` is where it stands in the record's head."""

    step: RecordStep
    index: int
    value: Value
    word: int


@dataclass(frozen=True, slots=True)
class Placement:
    """`homes` are the places of names that have no buffer of their own. `defined` are the steps that assign each name,
    `used` the names that any value needs. `aliases` gives the names that may stand for the variable which they were
    read from, and its slot.
    """

    homes: Mapping[int, Part | Leaf]
    defined: Mapping[int, Step]
    used: frozenset[int]
    aliases: Mapping[int, int]


def scalar(kind: Type) -> bool:
    """Whether a value of this type is one C number."""
    return size_of(kind) == 8 and not isinstance(kind, StringType | TupleType) and not is_block(kind)


def bare(value: Value) -> Value:
    """The value without the types that it is given on the way."""
    while isinstance(value, Op) and value.op is operations.AS:
        value = value.args[0]
    return value


def item(value: Value, index: int) -> Value:
    """The value of a tuple's item."""
    value, kind = bare(value), value.type
    assert isinstance(kind, TupleType)
    match value:
        case Op(op=operations.TUPLE, args=args):
            return args[index]
        case Op(op=operations.SELECT, args=(condition, then, otherwise)):
            return Op(kind.items[index], operations.SELECT, (condition, item(then, index), item(otherwise, index)))
        case _:
            return Op(kind.items[index], operations.ITEM, (value, Const(UINT64, index)))


def record_values(step: RecordStep) -> tuple[Value, ...]:
    """The values that a record carries."""
    match step:
        case model.Printf(args=args):
            return args
        case model.Sample(key=key, when=when, value=value):
            return (*key, when, value)
        case model.PrintValue(value=value):
            return (value,)


def leaves(step: RecordStep) -> list[Leaf]:
    """The values of a record, tuples spread out."""
    result: list[Leaf] = []
    word = 1
    for value in _spread(record_values(step)):
        result.append(Leaf(step, len(result), value, word))
        word += words_of(value.type)
    return result


def _spread(values: Iterable[Value]) -> Iterator[Value]:
    for value in values:
        if isinstance(value.type, TupleType):
            yield from _spread(item(value, index) for index in range(len(value.type.items)))
        else:
            yield value


def lead(body: Block) -> int:
    """The number of steps that belong to the predicate."""
    return max((index + 1 for index, step in enumerate(body) if isinstance(step, model.Require)), default=0)


def place(steps: model.Steps, tables: Mapping[str, Table]) -> Placement:
    """The placement of a clause."""
    everything = list(walk(steps.body))
    uses = Counter(
        part.id for step in everything for value in used(step) for part in parts(value) if isinstance(part, Name)
    )
    placer = _Placer(tables, uses)
    placer.block(steps.body)
    return Placement(
        placer.homes,
        {name.id: step for step in everything if (name := defined(step)) is not None},
        frozenset(uses),
        placer.aliases,
    )


class _Placer:
    def __init__(self, tables: Mapping[str, Table], uses: Mapping[int, int]) -> None:
        self.tables = tables
        self.uses = uses
        self.homes: dict[int, Part | Leaf] = {}
        self.aliases: dict[int, int] = {}

    def block(self, block: Block, given: Iterable[tuple[Name, Part]] = ()) -> None:
        """`given` is what a branch gives as its value."""
        read: dict[int, int] = {}
        first = lead(block)
        for index, step in enumerate(block):
            self._settle(read, _parts_of(step, self.tables))
            if isinstance(step, RecordStep):
                self._record(block, index, step, read)
            elif isinstance(step, model.GetSlot) and not scalar(step.name.type) and _is_kept(step, block[index + 1 :]):
                self.aliases[step.name.id] = step.slot
            name = defined(step)
            # Before the end of the predicate no short value takes a scratch slot, which the hit may not need.
            late = index >= first or (name is not None and size_of(name.type) > SHORT_TEXT)
            if late and name is not None and not scalar(name.type) and not isinstance(step, model.GetSlot):
                read[name.id] = index
            results: tuple[Iterable[tuple[Name, Part]], ...] = ((), ())
            if isinstance(step, model.If) and step.result is not None and step.results is not None:
                whole = Part(step, "value", 0, step.result.type)
                results = tuple(_names(value, whole) for value in step.results)
            for below, result in zip(blocks(step), results, strict=False):
                self.block(below, result)
        self._settle(read, given)

    def _settle(self, read: Mapping[int, int], candidates: Iterable[tuple[Name, Part]]) -> None:
        for name, part in candidates:
            # One that others read too must look to them as in a buffer of its own.
            if name.id in read and (self.uses[name.id] == 1 or name.type == part.kind):
                self.homes.setdefault(name.id, part)

    def _record(self, block: Block, index: int, step: RecordStep, read: Mapping[int, int]) -> None:
        """The leaves that can be read into a record in their turn: no other record is made meanwhile, and whatever
        stands before them in this one is there by then.
        """
        names = {name.id: place for place, other in enumerate(block[:index]) if (name := defined(other)) is not None}
        ready = max((place + 1 for place in range(index) if any(map(_sends_bytes, walk((block[place],))))), default=0)
        for leaf in leaves(step):
            if not bytes_behind(leaf.value.type):
                continue
            value = leaf.value
            place = max((names.get(part.id, 0) for part in parts(value) if isinstance(part, Name)), default=0)
            if isinstance(value, Name) and self.uses[value.id] == 1 and read.get(value.id, -1) >= ready:
                source = block[place]
                if isinstance(source, model.Fetch) and isinstance(source.source, _BYTES):
                    self.homes[value.id] = leaf
            ready = max(ready, place)


def _parts_of(step: Step, tables: Mapping[str, Table]) -> Iterator[tuple[Name, Part]]:
    """The names that a step puts into buffers of its own."""
    if isinstance(step, KeyStep) and (layout := tables[step.map].key) is not None:
        for value, kind, offset in zip(step.key, layout.parts, layout.offsets, strict=True):
            yield from _names(value, Part(step, "key", offset // 8, kind))
    if isinstance(step, model.MapSet):
        yield from _names(step.value, Part(step, "value", 0, tables[step.map].decl.value))
    elif isinstance(step, model.Let):
        yield from _names(step.value, Part(step, "value", 0, step.name.type))


def _names(value: Value, part: Part) -> Iterator[tuple[Name, Part]]:
    value = bare(value)
    if isinstance(value, Name):
        yield value, part
    elif isinstance(value, Op) and value.op is operations.TUPLE and isinstance(part.kind, TupleType):
        word = part.word
        for arg, kind in zip(value.args, part.kind.items, strict=True):
            yield from _names(arg, Part(part.step, part.of, word, kind))
            word += size_of(kind) // 8


def _sends_bytes(step: Step) -> bool:
    return isinstance(step, RecordStep) and any(bytes_behind(value.type) for value in record_values(step))


def _is_kept(step: model.GetSlot, later: Block) -> bool:
    """Whether a variable is not assigned until the last use of what has been read from it."""
    assigned = False
    for following in later:
        inside = list(walk((following,)))
        needed = any(step.name in parts(value) for one in inside for value in used(one))
        assigns = any(isinstance(one, model.SetSlot) and one.slot == step.slot for one in inside)
        if needed and (assigned or (assigns and not isinstance(following, model.SetSlot))):
            return False
        assigned = assigned or assigns
    return True
