"""Removes steps without effect, and moves values that are used once to their use."""

from __future__ import annotations

from collections import Counter

from tracer.dataclass import replace
from tracer.steps.arithmetic import depth
from tracer.steps.model import (
    Block,
    Exit,
    Fetch,
    GetSlot,
    If,
    Leave,
    Let,
    MapAdd,
    MapDelete,
    MapGet,
    MapHas,
    MapLength,
    Random,
    SetSlot,
    Step,
    Steps,
    While,
)
from tracer.steps.values import BuiltIn, Name, Op, Text, UserStack, Value
from tracer.steps.walk import LOOPS, blocks, defined, is_based, parts, used, walk, with_blocks, with_values

_DEEPEST_INLINED = 12  # operations inside each other


def simplified(steps: Steps, fixed: set[Name], always: set[Name]) -> Steps:
    """The steps without what has no effect. `fixed` are the names that are the same throughout a hit, `always` the
    fetches that cannot fail.
    """
    body = steps.body
    while True:
        uses = _uses(body)
        read = {step.slot for step in walk(body) if isinstance(step, GetSlot)}
        lean = _without(body, uses, read)
        lean = _inlined(lean, _uses(lean), {})
        if lean == body:
            break
        body = lean
    return _flagged(replace(steps, body=body), fixed, always)


def _uses(body: Block) -> Counter[Name]:
    """The number of uses of each name; a use in a loop that the name is not of counts twice."""
    uses: Counter[Name] = Counter()
    depths: dict[Name, int] = {}

    def count(block: Block, loops: int) -> None:
        for step in block:
            name = defined(step)
            if name is not None:
                depths[name] = loops
            loops_here = loops + isinstance(step, While)  # its condition is tested in each round
            for value in used(step):
                for part in parts(value):
                    if isinstance(part, Name):
                        uses[part] += 1 if depths.get(part, 0) == loops_here else 2
            for below in blocks(step):
                count(below, loops + isinstance(step, LOOPS))

    count(body, 0)
    return uses


def _without(block: Block, uses: Counter[Name], read: set[int]) -> Block:
    kept: list[Step] = []
    for step in block:
        if isinstance(step, SetSlot) and step.slot not in read:
            continue
        name = defined(step)
        if name is not None and not uses[name] and _is_pure(step):
            continue
        if isinstance(step, MapAdd) and step.before is not None and not uses[step.before]:
            step = replace(step, before=None)
        if isinstance(step, MapDelete) and step.result is not None and not uses[step.result]:
            step = replace(step, result=None)
        step = with_blocks(step, lambda below: _without(below, uses, read))
        if isinstance(step, If):
            if step.result is not None and not uses[step.result]:
                step = replace(step, result=None, results=None)
            if step.result is None and not step.then and not step.otherwise:
                continue
        kept.append(step)
        if isinstance(step, (Leave, Exit)):
            break
    return tuple(kept)


def _is_pure(step: Step) -> bool:
    """Whether a step has no effect but its name."""
    if isinstance(step, Fetch):
        return isinstance(step.source, BuiltIn) and step.source.name != "comm"
    return isinstance(step, (Let, GetSlot, MapGet, MapHas, MapLength, Random))


def _inlined(block: Block, uses: Counter[Name], values: dict[Name, Value]) -> Block:
    """`values` are those of names that are used once."""

    def put(value: Value) -> Value:
        if isinstance(value, Name):
            return values.get(value, value)
        if isinstance(value, Op):
            args = tuple(map(put, value.args))
            return value if args == value.args else replace(value, args=args)
        return value

    kept: list[Step] = []
    for step in block:
        # First what is below: a choice gives values that are made in its branches, a loop tests what its head makes.
        step = with_values(with_blocks(step, lambda below: _inlined(below, uses, values)), put)
        if isinstance(step, Let) and (
            not isinstance(step.value, Op) or (uses[step.name] == 1 and depth(step.value) <= _DEEPEST_INLINED)
        ):
            values[step.name] = step.value
            continue
        kept.append(step)
    return tuple(kept)


def _flagged(steps: Steps, fixed: set[Name], always: set[Name]) -> Steps:
    """The steps with a flag for each string that may be read more than once at a hit, and with the fetches marked whose
    value nobody needs but for the address of another.
    """
    needed: set[Name] = set()
    bases: set[Name] = set()
    times: Counter[object] = Counter()
    identities = _Identities(steps.body)

    def look(block: Block, loops: int) -> None:
        for step in block:
            if isinstance(step, Fetch) and is_based(step.source) and step.address is not None:
                bases.update(_names(step.address))
                needed.update(() if step.length is None else _names(step.length))
            else:
                needed.update(name for value in used(step) for name in _names(value))
            if isinstance(step, Fetch) and isinstance(step.source, Text):
                times[identities.of(step)] += 2 if loops else 1
            for below in blocks(step):
                look(below, loops + isinstance(step, LOOPS))

    look(steps.body, 0)
    flags: dict[object, int] = {}

    def mark(block: Block) -> Block:
        marked: list[Step] = []
        for place, step in enumerate(block):
            if isinstance(step, Fetch):
                if step.name in bases - needed and (step.name in always or _is_next(step.name, block[place + 1 :])):
                    step = replace(step, unused=True)
                text = step.source
                if isinstance(text, Text) and not text.sized and step.name in fixed and times[identities.of(step)] > 1:
                    step = replace(step, once=flags.setdefault(identities.of(step), len(flags)))
            marked.append(with_blocks(step, mark))
        return tuple(marked)

    return replace(steps, body=mark(steps.body), flags=len(flags))


def _is_next(base: Name, following: Block) -> bool:
    """Whether what is read at a base follows before anything that has an effect: then a base that cannot be read ends
    the clause there as well as where it stands.
    """
    for step in following:
        if not isinstance(step, (Fetch, Let)):
            return False
        if isinstance(step, Fetch):
            if is_based(step.source) and step.address is not None and base in _names(step.address):
                return True
            if isinstance(step.source, (Text, UserStack)):
                return False  # what it loses is counted
    return False


def _names(value: Value) -> set[Name]:
    return {part for part in parts(value) if isinstance(part, Name)}


class _Identities:
    """The identity of a string: not its name, which differs between branches, but what the name stands for."""

    def __init__(self, body: Block) -> None:
        self._steps = {name: step for step in walk(body) if (name := defined(step)) is not None}

    def of(self, step: Fetch) -> object:
        """The identity of what a step reads."""
        address = None if is_based(step.source) or step.address is None else self._value(step.address)
        return step.source, address, None if step.length is None else self._value(step.length)

    def _value(self, value: Value) -> object:
        if isinstance(value, Op):
            return value.op, value.type, tuple(map(self._value, value.args))
        step = self._steps.get(value) if isinstance(value, Name) else None
        if isinstance(step, Fetch):
            return self.of(step)
        return self._value(step.value) if isinstance(step, Let) else value
