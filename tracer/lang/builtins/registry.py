"""All built-in values and functions by name, the aggregations among them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from tracer.lang import typed
from tracer.lang.aggregations import registry as aggregations
from tracer.lang.registry import Registry

if TYPE_CHECKING:
    from tracer.lang.constructs import Function, Lower, Value


def _families(attribute: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"tracer.lang.builtins.{name}", attribute) for name in names)


VALUES: Final[Registry[Value]] = Registry(*_families("VALUES", "hit.process", "hit.time", "hit.probe", "hit.stacks"))
"""Built-in values but `arg0`, `arg1`, …, which are counted by the site."""

FUNCTIONS: Final[Registry[Function]] = Registry(
    *_families("FUNCTIONS", "control"),
    *aggregations.SOURCES,
    *_families(
        "FUNCTIONS", "printing", "signals", "joining", "hit.time", "hit.process", "hit.stacks", "data.strings",
        "data.integers", "maps", "hit.probe", "messages", "data.bytes", "data.types", "data.questions", "settings",
        "data.syscalls",
    ),
)
"""All functions, by each of their names."""


def lower_of(node: typed.Expr) -> Lower | None:
    """How the node of a built-in value or function becomes steps; None for what is neither."""
    match node:
        case typed.Builtin(name=name):
            return VALUES[name].lower
        case typed.Call(name=name):
            return FUNCTIONS[name].lower
    return _nodes().get(type(node))


@cache
def _nodes() -> dict[type[typed.Expr], Lower]:
    objects: tuple[Value | Function, ...] = (*VALUES.values(), *FUNCTIONS.values())
    return {each.node: each.lower for each in objects if each.node is not None and each.lower is not None}
