"""Histograms by powers of two and in equal steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracer.lang.aggregations.aggregation import BUCKETS, Aggregation, Buckets, Row, copied
from tracer.lang.aggregations.buckets import linear_bounds, linear_bucket, linear_count, log2_bounds, log2_bucket
from tracer.lang.constructs import Call, Parameter
from tracer.lang.fixed_width import quotient
from tracer.lang.typed import MapDecl
from tracer.lang.types import INT64, operations

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


def _rows(buckets: Buckets, decl: MapDecl, counts: Mapping[int, int], div: int) -> list[Row]:
    """The buckets between the first and the last that hold anything."""
    used = [bucket for bucket, count in counts.items() if count > 0]
    if not used:
        return []
    div = (div or 1) if buckets.divides else 1
    numbers = range(min(used), max(used) + 1)
    return [Row(*buckets.bounds(number, *decl.parameters), counts.get(number, 0) // div) for number in numbers]


def _log2_label(value: int, bits: int) -> str:
    """A bound of hist: the width of its buckets decides the unit, so that 9216 is `9K` where they are 1024 wide."""
    if value < 2 << bits:
        return str(value)
    unit = (value.bit_length() - 1 - bits) // 10
    return f"{value >> (10 * unit)}{_SUFFIXES[unit]}"


def _linear_label(value: int, low: int, high: int, step: int) -> str:
    """A bound of lhist: with a unit only where the step is a whole number of KiB."""
    if step % 1024 == 0 and value:
        for unit, suffix in ((1 << 20, "M"), (1 << 10, "K")):
            if value % unit == 0:
                return f"{quotient(value, unit)}{suffix}"
    return str(value)


def _log2_text(value: str, bits: int) -> str | None:
    # With 0 bits the bucket is one more than the number of bits (`log2_bucket`).
    return f"(({value}).bit_length() + 1 if {value} >= 0 else 0)" if bits == 0 else None


def _linear_text(value: str, low: int, high: int, step: int) -> str:
    last = linear_count(low, high, step) - 1
    return f"(0 if {value} < {low} else {last} if {value} >= {high} else ({value} - ({low})) // {step} + 1)"


_POWERS = Buckets(
    log2_bucket, lambda bits: ((64 - bits) << bits) + 1, log2_bounds, "log2_bucket", lambda bits: (bits,), _log2_text,
    doubles=lambda bits: bits == 0, label=_log2_label, divides=True,
)  # fmt: skip
_STEPS = Buckets(
    linear_bucket, linear_count, linear_bounds, "linear_bucket",
    lambda low, high, step: (low, high, step, linear_count(low, high, step) - 1), _linear_text,
    even=lambda low, high, step: (low, high, step), label=_linear_label,
    alone=lambda low, high, step: step % 1024 != 0,
)  # fmt: skip


def _histogram(
    name: str, call: str, arguments: tuple[Parameter, ...], help: str, example: str,
    parameters: Callable[[Call], tuple[int, ...] | None], buckets: Buckets, optional: int = 0,
) -> Aggregation:
    def update(decl: MapDecl, inner: dict[int, int] | None, value: int) -> dict[int, int]:
        counts: dict[int, int] = {} if inner is None else inner
        bucket = buckets.number(value, *decl.parameters)
        counts[bucket] = counts.get(bucket, 0) + 1
        return counts

    return Aggregation(
        name, "aggregation", call, arguments, None, help, example, "histogram", optional, kept=BUCKETS,
        buckets=buckets, parameters=parameters, constants="buckets", update=update, zero=dict, outer=copied,
        merge=_merge,
        rank=lambda counts: sum(counts.values()), json=b"hist", single=False,
        parts=lambda decl, counts, div: _rows(buckets, decl, counts, div),
    )


AGGREGATIONS = (
    _histogram(
        "hist", "hist(n[, bits])",
        (Parameter("integer", "the argument of hist()"), Parameter("constant", "the second argument of hist()")),
        "histogram of n by powers of two", "@ = hist(arg0);", _hist, _POWERS, optional=1,
    ),
    _histogram(
        "lhist", "lhist(n, low, high, step)",
        (
            Parameter("integer", "the argument of lhist()"),
            *(Parameter("constant", f"the {word} of lhist()") for word in ("low end", "high end", "step")),
        ),
        "histogram of n in steps of equal width", "@ = lhist(arg0, 0, 100, 10);", _lhist, _STEPS,
    ),
)  # fmt: skip
