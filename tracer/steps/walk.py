"""Walking steps: what a step uses, what it defines, and the steps below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tracer.dataclass import names, replace
from tracer.steps.model import Attempt, Block, Each, If, Range, Step, While
from tracer.steps.values import Const, Name, Op, SiteText, Value

LOOPS = (While, Range, Each)
_VALUES = (Const, Name, SiteText, Op)
_DEFINES = ("name", "result", "before")


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
