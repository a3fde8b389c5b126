"""Hist triggers for the buckets of a histogram: they find them by parts, each a trigger with a condition, of which
every value meets exactly one.

`.buckets=N` of a trigger counts by the multiples of N below a value, which is what lhist() does between its ends. Its
`.log2` counts a value v under the least n with v <= 2^n, where hist() asks for the greatest with 2^n <= v. Both differ
for the powers of two alone: these have a trigger in which each is a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer.dataclass import NamedTuple
from tracer.lang.aggregations.buckets import linear_count

_AT_ONCE = 4
"""Values that are compared one after the other; more are halved first."""


class Part(NamedTuple):
    """A trigger: its condition ("" for none), what its key ends with (None: nothing, all its values are in `bucket`),
    and how many rows it needs for one key.
    """

    condition: str
    column: str | None
    bucket: int
    rows: int


def linear(field: str, type: str, low: int, high: int, step: int) -> Iterator[Part]:
    """The parts of lhist() from `low`, a multiple of `step` that is not negative; `type` is the field's, as `s32`."""
    inside, below, above = _ranges(field, type, low, high)
    buckets = linear_count(low, high, step)
    if inside is not None:
        yield Part(inside, f"{field}.buckets={step}", 0, buckets)
    if below is not None:
        yield Part(below, None, 0, 1)
    if above is not None:
        yield Part(above, None, buckets - 1, 1)


def doubling(field: str, type: str) -> Iterator[Part]:
    """The parts of hist()."""
    inside, below, _ = _ranges(field, type, 0, 1 << 63)
    values = [0, *(1 << bit for bit in range(min(int(type[1:]) - (type[0] == "s"), 63)))]
    alone = _one_of(field, values)
    yield Part(alone, field, 0, len(values))
    yield Part(f"{inside} && !{alone}" if inside else f"!{alone}", f"{field}.log2", 0, len(values) - 2)
    if below is not None:
        yield Part(below, None, 0, 1)


def _one_of(field: str, values: Sequence[int]) -> str:
    """Whether a field is one of these ascending values, none of them negative."""
    if len(values) <= _AT_ONCE:
        return f"({' || '.join(f'{field} == {value}' for value in values)})"
    half = len(values) // 2
    least, lower, upper = values[half], _one_of(field, values[:half]), _one_of(field, values[half:])
    return f"(({field} < {least} && {lower}) || ({field} >= {least} && {upper}))"


def _ranges(field: str, type: str, low: int, high: int) -> tuple[str | None, str | None, str | None]:
    """The conditions under which a field, read as signed 64 bits, is between, below `low`, and from `high` on; None for
    what cannot be, "" for what is always so. `low` is not negative; each constant fits the field.
    """
    signed, bits = type[0] == "s", int(type[1:])
    if bits == 64 and not signed:
        below = f"({field} < {low} || {field} >= {1 << 63})" if low else f"{field} >= {1 << 63}"
        inside = f"{field} >= {low} && {field} < {high}" if low else f"{field} < {high}"
        return inside, below, f"{field} >= {high} && {field} < {1 << 63}"
    most = (1 << bits - signed) - 1
    if low > most:
        return None, "", None
    ends = [f"{field} >= {low}"] if low or signed else []
    if high <= most:
        ends.append(f"{field} < {high}")
    under = f"{field} < {low}" if low or signed else None
    return " && ".join(ends), under, f"{field} >= {high}" if high <= most else None
