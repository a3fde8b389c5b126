"""Histograms as bpftrace draws them, and as its JSON lists them: from the first bucket in use to the last."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tracer.lang.typed import MapDecl
from tracer.render.values import json_number
from tracer.results.buckets import linear_bounds, log2_bounds
from tracer.results.integers import quotient

_BAR = 52  # columns
_FLOAT = struct.Struct("f")
_SUFFIXES = ("", "K", "M", "G", "T", "P", "E")


class Row(NamedTuple):
    """One bucket: its first value and the first value after it, None where it is open, and its count of hits."""

    low: int | None
    high: int | None
    hits: int


def rows(decl: MapDecl, counts: Mapping[int, int], div: int = 1) -> list[Row]:
    """The buckets between the first and the last that hold anything. As in bpftrace `div` scales hist and not lhist."""
    used = [bucket for bucket, count in counts.items() if count > 0]
    if not used:
        return []
    buckets = range(min(used), max(used) + 1)
    if decl.kind == "hist":
        return [Row(*log2_bounds(bucket, decl.bits), counts.get(bucket, 0) // (div or 1)) for bucket in buckets]
    return [Row(*linear_bounds(bucket, decl.low, decl.high, decl.step), counts.get(bucket, 0)) for bucket in buckets]


def text_histogram(decl: MapDecl, rows: list[Row]) -> bytes:
    """One line for each bucket: its bounds, its count, and a bar as long as its share of the greatest count."""
    greatest = max((row.hits for row in rows), default=0)
    lines = []
    for row in rows:
        bar = "@" * _bar_length(row.hits, greatest)
        lines.append(f"{_bounds(decl, row):<16}{row.hits:>8} |{bar:<{_BAR}}|\n")
    return "".join(lines).encode()


def json_histogram(rows: list[Row]) -> bytes:
    """An array of objects; `min` and `max` are the first and the last value of a bucket, left out where it is open."""
    return b"[%b]" % b",".join(b"{%b}" % b", ".join(_members(row)) for row in rows)


def _members(row: Row) -> Iterator[bytes]:
    if row.low is not None:
        yield b'"min": ' + json_number(row.low)
    if row.high is not None:
        yield b'"max": ' + json_number(row.high - 1)
    yield b'"count": %d' % row.hits


def _bounds(decl: MapDecl, row: Row) -> str:
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


def _bar_length(count: int, greatest: int) -> int:
    """The bar's length, with bpftrace's rounding: it divides and multiplies in single precision and cuts off."""
    if greatest == 0:
        return 0
    return int(_single(_single(_single(count) / _single(greatest)) * _BAR))


def _single(value: float) -> float:
    rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    return rounded
