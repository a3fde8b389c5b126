"""Histograms by powers of two and in equal steps."""

from __future__ import annotations

from tracer.lang.builtins.model import Argument, Call, Function
from tracer.lang.types import INT64, operations
from tracer.results.buckets import linear_count

HIST_BITS_MOST = 5
LHIST_BUCKETS_MOST = 1000


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


AGGREGATIONS = (
    Function(
        "hist", "aggregation", "hist(n[, bits])",
        (Argument("integer", "the argument of hist()"), Argument("constant", "the second argument of hist()")), None,
        "histogram of n by powers of two", "@ = hist(arg0);", "histogram", optional=1, parameters=_hist,
    ),
    Function(
        "lhist", "aggregation", "lhist(n, low, high, step)",
        (
            Argument("integer", "the argument of lhist()"),
            *(Argument("constant", f"the {word} of lhist()") for word in ("low end", "high end", "step")),
        ),
        None, "histogram of n in equal steps", "@ = lhist(arg0, 0, 100, 10);", "histogram", parameters=_lhist,
    ),
)  # fmt: skip
