"""A series: a value for each interval of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracer.dataclass import NamedTuple
from tracer.host.clock import boot_time_ns
from tracer.lang.aggregations.aggregation import SERIES, Aggregation, Series, is_signed
from tracer.lang.constructs import Call, Parameter
from tracer.lang.fixed_width import quotient, wrap_int
from tracer.lang.typed import MapDecl

MOST_INTERVALS = 999_999


class _Reduction(NamedTuple):
    """The reduction of the values of one interval to one: `first` is what is kept of the first, made of its moment and
    itself; `join` puts two such together, in any order; `shown` is the value of the interval.
    """

    first: Callable[[int, int], Any]
    join: Callable[[Any, Any], Any]
    shown: Callable[[MapDecl, Any], int]


def _alone(moment: int, value: int) -> int:
    return value


def _wrapped(decl: MapDecl, total: int) -> int:
    return wrap_int(total, 64, is_signed(decl))


_REDUCTIONS = {
    "": _Reduction(
        lambda moment, value: (moment, value),
        lambda one, other: other if other[0] >= one[0] else one,
        lambda decl, last: int(last[1]),
    ),
    "avg": _Reduction(
        lambda moment, value: (1, value),
        lambda one, other: (one[0] + other[0], one[1] + other[1]),
        lambda decl, sums: quotient(_wrapped(decl, sums[1]), sums[0]),
    ),
    "max": _Reduction(_alone, max, lambda decl, value: int(value)),
    "min": _Reduction(_alone, min, lambda decl, value: int(value)),
    "sum": _Reduction(_alone, lambda one, other: one + other, _wrapped),
}
_NAMES = tuple(_REDUCTIONS)


def _parameters(call: Call) -> tuple[int, ...] | None:
    call.context.stable("tseries", "tseries()", call.span)
    if None in call.args[1:]:
        return None
    interval, count, name = (*call.args[1:], "")[:3]
    if interval < 1:
        what = f"the interval of tseries() must be at least 1 nanosecond, not {interval}"
        call.error(what, call.spans[1], "write 1s, 100ms or the like")
    elif not 1 <= count <= MOST_INTERVALS:
        what = f"the number of intervals of tseries() must be from 1 to {MOST_INTERVALS}, not {count}"
        call.error(what, call.spans[2])
    elif name not in _NAMES[1:] and len(call.args) > 3:
        choice = f"""one of {", ".join(f'"{word}"' for word in _NAMES[1:])}"""
        call.error(f"the last argument of tseries() must be {choice}", call.spans[3], "leave it out for the last value")
    else:
        return interval, count, _NAMES.index(name)
    return None


def _reduction(decl: MapDecl) -> _Reduction:
    return _REDUCTIONS[_NAMES[decl.parameters[2]]]


def _update(decl: MapDecl, inner: dict[int, Any] | None, sample: tuple[int, int]) -> dict[int, Any]:
    interval, count, _ = decl.parameters
    held = {} if inner is None else inner
    reduction = _reduction(decl)
    number = (boot_time_ns() + sample[0]) // interval
    first = reduction.first(*sample)
    if number in held:
        held[number] = reduction.join(held[number], first)
        return held
    held[number] = first
    # The oldest come first, but for what was late; so what is kept has a limit, and `_outer` leaves out the rest.
    while (oldest := next(iter(held))) <= number - count:
        del held[oldest]
    return held


def _outer(decl: MapDecl, inner: Mapping[int, Any]) -> dict[int, Any]:
    last = max(inner, default=0)
    return {number: value for number, value in inner.items() if number > last - decl.parameters[1]}


def _merge(decl: MapDecl, held: dict[int, Any], other: Mapping[int, Any]) -> dict[int, Any]:
    join = _reduction(decl).join
    for number, value in other.items():
        held[number] = join(held[number], value) if number in held else value
    return _outer(decl, held)


def _together(decl: MapDecl, values: Sequence[Mapping[int, Any]]) -> list[Series]:
    """Extends each series from its own first interval to the last of all."""
    interval, count, _ = decl.parameters
    shown = _reduction(decl).shown
    last = max((number for value in values for number in value), default=0)

    def series(value: Mapping[int, Any]) -> Series:
        if not value:
            return Series((), is_signed(decl))
        first = min((number for number in value if number > last - count), default=last)
        return Series(
            tuple(
                (number * interval, shown(decl, value[number]) if number in value else None)
                for number in range(first, last + 1)
            ),
            is_signed(decl),
        )

    return [series(value) for value in values]


AGGREGATIONS = (
    Aggregation(
        "tseries", "aggregation", 'tseries(n, interval, count[, "avg|max|min|sum"])',
        (
            Parameter("integer", "the argument of tseries()"),
            Parameter("constant", "the interval of tseries()"),
            Parameter("constant", "the number of intervals of tseries()"),
            Parameter("text", "the last argument of tseries()"),
        ),
        None, "the last n of each interval, or the avg, max, min or sum of all of them, for the newest intervals",
        "@ = tseries(arg0, 1s, 20);", "time series", 1,
        kept=SERIES, parameters=_parameters, update=_update, zero=dict, outer=_outer, merge=_merge, rank=None,
        together=_together, json=b"tseries", single=False,
    ),
)  # fmt: skip
