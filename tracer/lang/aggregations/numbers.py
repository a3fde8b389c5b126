"""Aggregations that are a number or two."""

from __future__ import annotations

from tracer.lang.builtins.model import Argument, Function


def _of_numbers(name: str, help: str) -> Function:
    kind = Argument("integer", f"the argument of {name}()")
    return Function(name, "aggregation", f"{name}(n)", (kind,), None, help, f"@ = {name}(arg0);", "type of n")


AGGREGATIONS = (
    Function("count", "aggregation", "count()", (), None, "counts how often it is called", "@ = count();", "int64"),
    _of_numbers("sum", "adds up n"),
    _of_numbers("avg", "average of n"),
    _of_numbers("min", "smallest n"),
    _of_numbers("max", "largest n"),
    _of_numbers("stats", "count, average and total of n"),
)
