"""All built-in values and functions by name, the aggregations among them."""

from __future__ import annotations

from typing import Final

from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.builtins import control, integers, maps, printing, probe, process, stacks, strings, time
from tracer.lang.builtins.model import Function, Value

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
