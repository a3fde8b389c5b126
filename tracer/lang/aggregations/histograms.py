"""Histograms by powers of two and in equal steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tracer.lang.aggregations.model import Aggregation, Row
from tracer.lang.builtins.model import Argument, Call
from tracer.lang.typed import MapDecl
from tracer.lang.types import INT64, operations
from tracer.results.buckets import linear_bounds, linear_bucket, linear_count, log2_bounds, log2_bucket
from tracer.results.integers import quotient

HIST_BITS_MOST = 5
LHIST_BUCKETS_MOST = 1000
_SUFFIXES = ("", "K", "M", "G", "T", "P", "E")


def _hist(call: Call) -> tuple[int, ...] | None:
    bits = call.args[1] if len(call.args) > 1 else 0
    if bits is None or 0 <= bits <= HIST_BITS_MOST:
        return None if bits is None else (bits,)
    call.error(f"the second argument of hist() must be from 0 to {HIST_BITS_MOST}, not {bits}", call.spans[1])
    return None


def _lhist(call: Call) -> tuple[int, ...] | None:
    if None in call.args[1:]:
        return None
    low, high, step = (operations.wrap(value, INT64) for value in call.args[1:])
    if step <= 0:
        call.error(f"the step of lhist() must be greater than 0, not {step}", call.spans[3])
    elif high <= low:
        what = f"the high end of lhist() must be above the low end: {low} to {high} is empty"
        call.error(what, call.spans[2])
    elif (buckets := linear_count(low, high, step) - 2) > LHIST_BUCKETS_MOST:
        call.error(f"lhist() makes {buckets} buckets, at most {LHIST_BUCKETS_MOST}", call.span, "use a larger step")
    else:
        return low, high, step
    return None


# --- what a key holds: counts by bucket


def _merge(decl: MapDecl, held: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    for bucket, count in other.items():
        held[bucket] = held.get(bucket, 0) + count
    return held


def rows(decl: MapDecl, counts: Mapping[int, int], div: int = 1) -> list[Row]:
    """The buckets between the first and the last that hold anything. As in bpftrace `div` scales hist and not lhist."""
    used = [bucket for bucket, count in counts.items() if count > 0]
    if not used:
        return []
    buckets = range(min(used), max(used) + 1)
    if decl.kind == "hist":
        return [Row(*log2_bounds(bucket, decl.bits), counts.get(bucket, 0) // (div or 1)) for bucket in buckets]
    return [Row(*linear_bounds(bucket, decl.low, decl.high, decl.step), counts.get(bucket, 0)) for bucket in buckets]


def bounds(decl: MapDecl, row: Row) -> str:
    """How a bucket is labelled: `[0]`, `[2, 4)`, `[1K, ...)`."""
    low, high = row.low, row.high
    if low is None:
        return f"(..., {_label(decl, high or 0)})"
    if high is None:
        return f"[{_label(decl, low)}, ...)"
    if high - low == 1 and (decl.kind == "hist" or decl.step % 1024):
        return f"[{low}]"
    return f"[{_label(decl, low)}, {_label(decl, high)})"


def _label(decl: MapDecl, value: int) -> str:
    return _log2_label(value, decl.bits) if decl.kind == "hist" else _linear_label(value, decl.step)


def _log2_label(value: int, bits: int) -> str:
    """A bound of hist: the width of its buckets decides the unit, so that 9216 is `9K` where they are 1024 wide."""
    if value < 2 << bits:
        return str(value)
    unit = (value.bit_length() - 1 - bits) // 10
    return f"{value >> (10 * unit)}{_SUFFIXES[unit]}"


def _linear_label(value: int, step: int) -> str:
    """A bound of lhist: with a unit only where the step is a whole number of KiB."""
    if step % 1024 == 0 and value:
        for unit, suffix in ((1 << 20, "M"), (1 << 10, "K")):
            if value % unit == 0:
                return f"{quotient(value, unit)}{suffix}"
    return str(value)


def _histogram(
    name: str, call: str, arguments: tuple[Argument, ...], help: str, example: str,
    parameters: Callable[[Call], tuple[int, ...] | None], bucket_of: Callable[[MapDecl, int], int], optional: int = 0,
) -> Aggregation:
    def update(decl: MapDecl, inner: dict[int, int] | None, value: int) -> dict[int, int]:
        counts: dict[int, int] = {} if inner is None else inner
        bucket = bucket_of(decl, value)
        counts[bucket] = counts.get(bucket, 0) + 1
        return counts

    def outer(decl: MapDecl, inner: Any) -> Any:
        return dict(inner)

    return Aggregation(
        name, "aggregation", call, arguments, None, help, example, "histogram", optional, parameters=parameters,
        update=update, zero=dict, outer=outer, merge=_merge, rank=lambda counts: sum(counts.values()), parts=rows,
        json=b"hist", single=False,
    )


AGGREGATIONS = (
    _histogram(
        "hist", "hist(n[, bits])",
        (Argument("integer", "the argument of hist()"), Argument("constant", "the second argument of hist()")),
        "histogram of n by powers of two", "@ = hist(arg0);", _hist,
        lambda decl, value: log2_bucket(value, decl.bits), optional=1,
    ),
    _histogram(
        "lhist", "lhist(n, low, high, step)",
        (
            Argument("integer", "the argument of lhist()"),
            *(Argument("constant", f"the {word} of lhist()") for word in ("low end", "high end", "step")),
        ),
        "histogram of n in equal steps", "@ = lhist(arg0, 0, 100, 10);", _lhist,
        lambda decl, value: linear_bucket(value, decl.low, decl.high, decl.step),
    ),
)  # fmt: skip
