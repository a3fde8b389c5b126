"""The registries of the built-in values and functions by name, the aggregations among them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from tracer.lang import typed
from tracer.lang.aggregations import registry as aggregations
from tracer.lang.registry import Registry

if TYPE_CHECKING:
    from tracer.lang.constructs import BuiltinFunction, Value


def _families(attribute: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"tracer.lang.builtins.{name}", attribute) for name in names)


VALUES: Final[Registry[Value]] = Registry(
    *_families("VALUES", "hit.process", "hit.time", "hit.probe", "hit.stacks", "hit.kernel")
)
"""Built-in values but `arg0`, `arg1`, …, which are counted by the site."""

FUNCTIONS: Final[Registry[BuiltinFunction]] = Registry(
    *_families("FUNCTIONS", "control"),
    *aggregations.SOURCES,
    *_families(
        "FUNCTIONS", "printing", "signals", "joining", "hit.time", "hit.process", "hit.stacks", "data.strings",
        "data.integers", "maps", "hit.probe", "messages", "data.bytes", "data.types", "data.questions", "settings",
        "data.syscalls", "hit.kernel",
    ),
)
"""All functions, by each of their names."""


def built_in_of(node: typed.Expr) -> Value | BuiltinFunction:
    """The object of a node of a built-in value or function."""
    match node:
        case typed.Builtin(name=name):
            return VALUES[name]
        case typed.Call(name=name):
            return FUNCTIONS[name]
    return _nodes()[type(node)]


@cache
def _nodes() -> dict[type[typed.Expr], Value | BuiltinFunction]:
    """The first object of each class of nodes: those of one class say the same."""
    objects: tuple[Value | BuiltinFunction, ...] = (*VALUES.values(), *FUNCTIONS.values())
    lowered = [construct for construct in reversed(objects) if construct.lower is not None]
    return {construct.node: construct for construct in lowered if construct.node is not None}
