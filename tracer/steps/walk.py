"""Walking steps: what a step uses, what it defines, the steps below it, and what of the hit a clause reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracer.dataclass import names, replace
from tracer.steps.model import Attempt, Block, Each, Fetch, If, Range, Step, Steps, While
from tracer.steps.values import BuiltIn, Const, InMemory, Name, Op, SiteText, Source, Value

LOOPS = (While, Range, Each)
_VALUES = (Const, Name, SiteText, Op)
_DEFINES = ("name", "result", "before")
_STARTED = BuiltIn("started")


def defined(step: Step) -> Name | None:
    """The name that a step assigns, if any."""
    for field in _DEFINES:
        name = getattr(step, field, None)
        if isinstance(name, Name):
            return name
    return None


def used(step: Step) -> Iterator[Value]:
    """The values that a step itself uses, those of the steps below it aside."""
    for field in names(step):
        if field in _DEFINES:
            continue
        value = getattr(step, field)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, _VALUES):
                yield one


def blocks(step: Step) -> tuple[Block, ...]:
    """The blocks below a step."""
    match step:
        case If(then=then, otherwise=otherwise):
            return then, otherwise
        case While(head=head, body=body):
            return head, body
        case Range(body=body) | Each(body=body) | Attempt(body=body):
            return (body,)
    return ()


def walk(block: Block) -> Iterator[Step]:
    """Every step, outer ones first, in the order of the text."""
    for step in block:
        yield step
        for below in blocks(step):
            yield from walk(below)


def parts(value: Value) -> Iterator[Value]:
    """A value and every value that it is made of."""
    yield value
    if isinstance(value, Op):
        for arg in value.args:
            yield from parts(arg)


def with_values(step: Step, change: Callable[[Value], Value]) -> Step:
    """The step with each value it uses changed; blocks below are left alone."""
    changes: dict[str, Any] = {}
    for field in names(step):
        if field in _DEFINES:
            continue
        value = getattr(step, field)
        if isinstance(value, _VALUES):
            changes[field] = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], _VALUES):
            changes[field] = tuple(map(change, value))
    return replace(step, **changes) if changes else step


def with_blocks(step: Step, change: Callable[[Block], Block]) -> Step:
    """The step with each block below it changed."""
    match step:
        case If(then=then, otherwise=otherwise):
            return replace(step, then=change(then), otherwise=change(otherwise))
        case While(head=head, body=body):
            return replace(step, head=change(head), body=change(body))
        case Range(body=body) | Each(body=body) | Attempt(body=body):
            return replace(step, body=change(body))
    return step


def leaves(steps: Steps) -> tuple[Fetch, ...]:
    """The first fetch of each source that is a part of the hit, in the order of the program: what a backend delivers
    and Python computes with.

    A hit reaches the Python of a clause as one flat tuple with a value for each of them, in that order, in the Python
    form of `lang.types`; None where it could not be read (which ends the clause when, and only when, the value is
    needed). Strings are delivered uncut; the steps cut them. A string whose size is known only at the hit
    (`Text.measured`) is delivered as a `Reach`: whether it can be read depends on that size.
    """
    first: dict[Source, Fetch] = {}
    for step in walk(steps.body):
        if isinstance(step, Fetch) and not step.unused and is_leaf(step.source):
            first.setdefault(step.source, step)
    return tuple(first.values())


def is_leaf(source: Source) -> bool:
    """Whether a source is a part of the hit, and not memory at a computed address."""
    return source != _STARTED and (is_based(source) or not isinstance(source, InMemory))


def is_based(source: Source) -> bool:
    """Whether a source is memory at another source plus a constant."""
    return isinstance(source, InMemory) and source.base is not None
