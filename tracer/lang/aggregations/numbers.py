"""Aggregations that are a number or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.lang.aggregations.aggregation import (
    COUNT,
    GREATEST,
    LEAST,
    MEAN,
    SUM,
    UNSET,
    Aggregation,
    Average,
    Kept,
    is_signed,
)
from tracer.lang.constructs import Parameter
from tracer.lang.fixed_width import quotient, wrap_int
from tracer.lang.typed import MapDecl


def _wrapped(decl: MapDecl, total: int) -> int:
    return wrap_int(int(total), 64, is_signed(decl))


def _divided(decl: MapDecl, value: int, div: int) -> int:
    return quotient(value, div)


def _of_numbers(name: str, help: str, kept: Kept, **says: Any) -> Aggregation:
    arguments = (Parameter("integer", f"the argument of {name}()"),)
    return Aggregation(
        name, "aggregation", f"{name}(n)", arguments, None, help, f"@ = {name}(arg0);", "type of n",
        kept=kept, **says,
    )


def _extreme(name: str, help: str, kept: Kept, better: Callable[[int, int], int]) -> Aggregation:
    def update(decl: MapDecl, inner: int | None, value: int) -> int:
        return value if inner is None or inner is UNSET else better(inner, value)

    def merge(decl: MapDecl, held: int, other: int) -> int:
        return other if held is UNSET else held if other is UNSET else better(held, other)

    return _of_numbers(
        name, help, kept, update=update, zero=lambda: UNSET, outer=_wrapped, merge=merge, parts=_divided
    )


def _averaged(name: str, help: str, parts: Callable[[MapDecl, Average, int], int | dict[str, int]]) -> Aggregation:
    def update(decl: MapDecl, inner: list[int] | None, value: int) -> list[int]:
        if inner is None:
            return [1, value]
        inner[0] += 1
        inner[1] += value
        return inner

    def merge(decl: MapDecl, held: Average, other: Average) -> Average:
        return Average(held.hits + other.hits, _wrapped(decl, held.total + other.total))

    return _of_numbers(
        name, help, MEAN, update=update, zero=lambda: [0, 0], merge=merge, parts=parts, json=b"stats",
        outer=lambda decl, inner: Average(inner[0], _wrapped(decl, inner[1])), rank=lambda average: average.mean,
    )  # fmt: skip


def _stats(decl: MapDecl, value: Average, div: int) -> dict[str, int]:
    return {"count": value.hits, "average": quotient(value.mean, div), "total": value.total}


AGGREGATIONS = (
    Aggregation(
        "count", "aggregation", "count()", (), None, "number of calls", "@ = count();", "int64",
        kept=COUNT, update=lambda decl, inner, value: (inner or 0) + 1, parts=_divided,
        outer=lambda decl, inner: int(inner), merge=lambda decl, held, other: held + other,
    ),
    _of_numbers(
        "sum", "adds up n", SUM, update=lambda decl, inner, value: (inner or 0) + value, outer=_wrapped,
        merge=lambda decl, held, other: _wrapped(decl, held + other), parts=_divided,
    ),
    _averaged("avg", "average of n", lambda decl, value, div: quotient(value.mean, div)),
    _extreme("min", "smallest n", LEAST, min),
    _extreme("max", "largest n", GREATEST, max),
    _averaged("stats", "count, average and total of n", _stats),
)  # fmt: skip
