"""Series as bpftrace draws them, an interval a line, and as its JSON lists them."""

from __future__ import annotations

import struct

from tracer.host.clock import format_time
from tracer.lang.aggregations.aggregation import Series

_WIDTH = 53
"""Columns of the graph, its two bars among them."""
_LOW = 21
"""Columns of the scale that the least value has."""
_SECOND = 1_000_000_000
_UNITS = ((_SECOND, "", 0), (1_000_000, "ms", 3), (1_000, "μs", 6), (0, "ns", 9))
"""The shortest interval with each unit of time, and its digits behind the second."""
_FLOAT = struct.Struct("f")


def text_series(series: Series) -> bytes:
    """A scale, a line for each interval with a star where its value is on the scale, and the scale once more."""
    intervals = series.intervals
    if not intervals:
        return b"<no data>"
    values = [value for _, value in intervals if value is not None]
    low, high = _scale(values, series.signed)
    length = intervals[1][0] - intervals[0][0] if len(intervals) > 1 else 0
    _, unit, digits = next(scale_unit for scale_unit in _UNITS if length >= scale_unit[0])
    head = "hh:mm:ss" + (f".{unit}" if unit else "")
    indent = " " * (9 + digits + bool(digits))
    labels = (str(low), str(high)) if values else ("null", "null")
    scale = f"{indent}{labels[0]:<{_LOW}}{labels[1]:>{_WIDTH - _LOW}}\n"
    bars = "_" * (_WIDTH - 2)
    # bpftrace fills up by bytes, of which μ has two.
    lines = [scale, head + " " * (len(indent) - len(head.encode())) + f"|{bars}|\n"]
    graph = ["|", *" " * (_WIDTH - 2), "|"]
    if values and low < 0 < high:
        graph[int(_divided(_WIDTH * _single(-low), high - low))] = "."
    for start, value in intervals:
        seconds, rest = divmod(start, _SECOND)
        moment = format_time("%H:%M:%S", seconds * _SECOND).decode()
        moment += f".{rest:09d}"[: digits + 1] if digits else ""
        line = list(graph)
        if value is not None:
            column = int(_divided((_WIDTH - 1) * _single(value - low), high - low))
            line[min(column, _WIDTH - 1)] = "*"
        lines.append(f"{moment} {''.join(line)} {'-' if value is None else value}\n")
    return "".join([*lines, f"{indent}v{bars}v\n", scale]).encode()


def json_series(series: Series) -> bytes:
    """An array of objects, without the intervals that have no value."""
    return b"[%b]" % b",".join(
        b'{"interval_start":"%b.%09d","value":%d}' % (format_time("%Y-%m-%d %H:%M:%S", start), start % _SECOND, value)
        for start, value in series.intervals
        if value is not None
    )


def _scale(values: list[int], signed: bool) -> tuple[int, int]:
    """The ends of the scale; one value alone has room on both sides, where its type has numbers beyond it."""
    low, high = min(values, default=0), max(values, default=0)
    if low < high:
        return low, high
    least, most = (-(1 << 63), (1 << 63) - 1) if signed else (0, (1 << 64) - 1)
    return max(low - 1, least), min(high + 1, most)


def _divided(value: float, by: int) -> float:
    """The quotient as bpftrace computes it, in single precision."""
    return _single(_single(value) / _single(by))


def _single(value: float) -> float:
    rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    return rounded
