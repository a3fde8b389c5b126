"""Histograms as bpftrace draws them, and as its JSON lists them: from the first bucket in use to the last."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.lang.aggregations.aggregation import Row
from tracer.lang.aggregations.registry import buckets_of
from tracer.lang.typed import MapDecl
from tracer.render.value_text import json_number

_BAR = 52  # columns
_FLOAT = struct.Struct("f")


def text_histogram(decl: MapDecl, rows: list[Row]) -> bytes:
    """One line for each bucket: its bounds, its count, and a bar as long as its share of the greatest count."""
    greatest = max((row.hits for row in rows), default=0)
    lines = []
    for row in rows:
        bar = "@" * _bar_length(row.hits, greatest)
        lines.append(f"{_bounds(decl, row):<16}{row.hits:>8} |{bar:<{_BAR}}|\n")
    return "".join(lines).encode()


def _bounds(decl: MapDecl, row: Row) -> str:
    """The label of a bucket: `[0]`, `[2, 4)`, `[1K, ...)`."""
    low, high, buckets = row.low, row.high, buckets_of(decl)
    assert buckets is not None
    parameters = buckets.of(decl)
    if low is None:
        return f"(..., {buckets.label(high or 0, *parameters)})"
    if high is None:
        return f"[{buckets.label(low, *parameters)}, ...)"
    if high - low == 1 and buckets.alone(*parameters):
        return f"[{low}]"
    return f"[{buckets.label(low, *parameters)}, {buckets.label(high, *parameters)})"


def json_histogram(rows: list[Row]) -> bytes:
    """An array of objects; `min` and `max` are the first and the last value of a bucket, left out where it is open."""
    return b"[%b]" % b",".join(b"{%b}" % b", ".join(_members(row)) for row in rows)


def _members(row: Row) -> Iterator[bytes]:
    if row.low is not None:
        yield b'"min": ' + json_number(row.low)
    if row.high is not None:
        yield b'"max": ' + json_number(row.high - 1)
    yield b'"count": %d' % row.hits


def _bar_length(count: int, greatest: int) -> int:
    """The bar's length, with bpftrace's rounding: it divides and multiplies in single precision and cuts off."""
    if greatest == 0:
        return 0
    return int(_single(_single(_single(count) / _single(greatest)) * _BAR))


def _single(value: float) -> float:
    rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    return rounded
