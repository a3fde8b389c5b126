"""Quantiles: how many values, chosen quantiles of them, and the greatest.

Values are counted in buckets as wide as 1/32 of them at most (1/8 with "1/16"). A quantile is the middle of the bucket
that the value of its rank is in, so that it is off by 1/64 (1/16) of that value at most; where that is the last one of
the bucket it is exact, as each bucket keeps its own greatest. So are values below 64 (16), the count and the greatest
value. The rank of p% of n values is p/100 * n,
rounded up, and 1 at least (nearest rank).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tracer.lang.aggregations.aggregation import PEAKS, Aggregation, Buckets, copied, is_signed
from tracer.lang.aggregations.buckets import quantile_bounds, quantile_bucket, quantile_count
from tracer.lang.constructs import Call, Parameter
from tracer.lang.fixed_width import quotient
from tracer.lang.typed import MapDecl

_UNIT = 10**6
"""A percentage is kept in millionths of a per cent."""
_USUAL = tuple(int(percent * _UNIT) for percent in (50, 90, 99, 99.9))
_BITS = {"1/64": 5, "1/16": 3}
_MOST = 16
_NUMBER = re.compile(r"\d+(?:\.\d{1,6})?")

Held = dict[int, tuple[int, int]]
"""By bucket how many values, and the greatest of them."""


def _parameters(call: Call) -> tuple[int, ...] | None:
    """Bits of a bucket, then the percentages."""
    wanted: list[int] = []
    bits = _BITS["1/64"]
    for number, (arg, span) in enumerate(zip(call.args[1:], call.spans[1:], strict=True), 2):
        if arg is None:
            return None
        last = number == len(call.args)
        if last and arg in _BITS:
            bits = _BITS[arg]
        elif _NUMBER.fullmatch(arg) is None:
            hint = 'write 50, 99.9, with six places at most; and last, if wanted, "1/16": coarser, for many keys'
            call.error(f"this argument of quantiles() is no percentage: {arg}", span, hint)
            return None
        elif not 0 < (percent := _millionths(arg)) <= 100 * _UNIT:
            call.error(f"a percentage of quantiles() is more than 0 and at most 100, not {arg}", span)
            return None
        elif percent in wanted:
            call.error(f"quantiles() has {arg} twice", span)
            return None
        else:
            wanted.append(percent)
    if len(wanted) > _MOST:
        call.error(f"quantiles() takes at most {_MOST} percentages, not {len(wanted)}", call.span)
        return None
    return (bits, *(wanted or _USUAL))


def _millionths(text: str) -> int:
    whole, _, part = text.partition(".")
    return int(whole) * _UNIT + int(part.ljust(6, "0"))


def _coarse(decl: MapDecl) -> tuple[int, bool]:
    """The arguments of `quantile_bucket` behind a value."""
    return decl.parameters[0], is_signed(decl)


def _name(percent: int) -> str:
    """`p99.9`."""
    return f"p{percent // _UNIT}.{percent % _UNIT:06}".rstrip("0").rstrip(".")


def _update(decl: MapDecl, inner: Held | None, value: int) -> Held:
    held: Held = {} if inner is None else inner
    bucket = quantile_bucket(value, *_coarse(decl))
    count, most = held.get(bucket, (0, value))
    held[bucket] = count + 1, max(most, value)
    return held


def _merge(decl: MapDecl, held: Held, other: Mapping[int, tuple[int, int]]) -> Held:
    for bucket, (count, most) in other.items():
        before = held.get(bucket, (0, most))
        held[bucket] = before[0] + count, max(before[1], most)
    return held


def _shown(decl: MapDecl, held: Mapping[int, tuple[int, int]], div: int) -> dict[str, int]:
    """`count`, the quantiles by their names, and `max`; nothing of no value."""
    total = sum(count for count, _ in held.values())
    if not total:
        return {"count": 0}
    buckets, values = sorted(held), {"count": total}
    most = held[buckets[-1]][1]
    for percent in decl.parameters[1:]:
        rank = max(-(-percent * total // (100 * _UNIT)), 1)
        for bucket in buckets:
            rank -= held[bucket][0]
            if rank <= 0:
                break
        # The last of its bucket is the greatest there, which is known.
        low, after = quantile_bounds(bucket, *_coarse(decl))
        value = held[bucket][1] if rank == 0 else min((low + after - 1) // 2, held[bucket][1])
        values[_name(percent)] = quotient(value, div)
    return {**values, "max": quotient(most, div)}


_BUCKETS = Buckets(
    quantile_bucket, quantile_count, quantile_bounds, "quantile_bucket",
    lambda bits, signed: (bits, ((64 - bits) << bits) if signed else 0),
    of=_coarse, expected=32,
)  # fmt: skip


AGGREGATIONS = (
    Aggregation(
        "quantiles", "aggregation", 'quantiles(n[, percentage, ...][, "1/16"])',
        (
            Parameter("integer", "the argument of quantiles()"),
            Parameter("percentage", "a percentage of quantiles()"),
        ),
        None, "how many n, their quantiles (50, 90, 99 and 99.9 % where none are named) and the greatest; within 1/64",
        "@ = quantiles(arg0);", "set of quantiles", 1, variadic=True, ours=True,
        kept=PEAKS, buckets=_BUCKETS, parameters=_parameters, constants="percentages", update=_update, zero=dict,
        outer=copied, merge=_merge,
        rank=lambda held: sum(count for count, _ in held.values()), parts=_shown, json=b"quantiles", single=False,
    ),
)  # fmt: skip
