"""All built-in values and functions by name, the aggregations among them."""

from __future__ import annotations

from typing import Final

from tracer.lang import typed
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.builtins import control, integers, maps, printing, probe, process, stacks, strings, time
from tracer.lang.builtins.model import Function, Lower, Value

_FAMILIES = (process, time, probe, stacks, strings, integers, maps, printing, control)

VALUES: Final[dict[str, Value]] = {
    value.name: value for family in _FAMILIES for value in getattr(family, "VALUES", ())
}
"""Built-in values but `arg0`, `arg1`, …, which are counted by the site."""

FUNCTIONS: Final[dict[str, Function]] = {
    name: function
    for functions in (AGGREGATIONS.values(), *(getattr(family, "FUNCTIONS", ()) for family in _FAMILIES))
    for function in functions
    for name in (function.name, *function.aliases)
}
"""All functions, by each of their names."""

_OBJECTS: Final[tuple[Value | Function, ...]] = (*VALUES.values(), *FUNCTIONS.values())
_NODES: Final[dict[type[typed.Expr], Lower]] = {
    each.node: each.lower
    for each in _OBJECTS
    if each.node is not None and each.lower is not None
}


def lower_of(node: typed.Expr) -> Lower | None:
    """How the node of a built-in value or function becomes steps; None for what is neither."""
    match node:
        case typed.Builtin(name=name):
            return VALUES[name].lower
        case typed.Call(name=name):
            return FUNCTIONS[name].lower
    return _NODES.get(type(node))
