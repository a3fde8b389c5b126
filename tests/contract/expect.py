"""What an answer looks like, said independently of the product: text and JSON of printf, values and maps.

The functions take plain Python values (int, bool, str, bytes, tuples of them) and know bpftrace's formats; nothing
of `tracer` is imported. A few cases spell their output out by hand, so that this file is itself held to account.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from time import localtime, strftime
from typing import Any, Union

Plain = Union[int, bool, str, bytes, tuple["Plain", ...]]  # noqa: UP007 - recursive
Bounds = tuple[int | None, int | None]  # first value of a bucket, first value after it; None where it is open

BAR_WIDTH = 52


@dataclass(frozen=True)
class Out:
    """A piece of output: its text, and its lines of JSON."""

    text: bytes
    json: tuple[bytes, ...]

    def __add__(self, other: Out) -> Out:
        return Out(self.text + other.text, self.json + other.json)


NOTHING = Out(b"", ())


def together(pieces: Iterable[Out]) -> Out:
    """The pieces one after the other."""
    whole = NOTHING
    for piece in pieces:
        whole += piece
    return whole


def printf(text: str | bytes) -> Out:
    """What one printf puts out."""
    return Out(as_bytes(text), (_line("printf", quoted(as_bytes(text))),))


def time(text: str) -> Out:
    """What time(fmt) puts out."""
    return Out(text.encode(), (_line("time", quoted(text.encode())),))


def value(item: Plain) -> Out:
    """What print(expression) puts out."""
    return Out(text_of(item) + b"\n", (_line("value", json_of(item)),))


def scalar(name: str, item: Plain, kind: str = "map") -> Out:
    """A map without key. `kind` is "stats" for avg."""
    head = name.encode()
    return Out(head + b": " + text_of(item) + b"\n", (_line(kind, _named(head, json_of(item))),))


def keyed(name: str, items: Mapping[Any, Plain], kind: str = "map", order: Callable[[Plain], int] | None = None) -> Out:
    """A map with keys, sorted by value and then by key; `order` gives what to sort by instead of the value."""
    if not items:
        return NOTHING
    rank = order or (lambda item: item if isinstance(item, int) else 0)
    rows = sorted(items.items(), key=lambda row: (rank(row[1]), _key_rank(row[0])))
    text = b"".join(name.encode() + b"[" + key_text(key) + b"]: " + text_of(item) + b"\n" for key, item in rows)
    members = b", ".join(quoted(key_text(key, b",")) + b": " + json_of(item) for key, item in rows)
    return Out(text, (_line(kind, _named(name.encode(), b"{" + members + b"}")),))


def no_averages(name: str) -> Out:
    """A map of avg() or stats() that is empty at the end: JSON has it all the same, as bpftrace's does."""
    return Out(b"", (_line("stats", _named(name.encode(), b"{}")),))


ONE_INTERVAL = 1 << 62
"""Nanoseconds of an interval that began in 1970 and ends in 2116: the time of day is then the same in every run."""


def series(name: str, items: int | Mapping[Any, int]) -> Out:
    """tseries() with ONE_INTERVAL, of one value or by key; values that fit 63 bits."""
    many = items if isinstance(items, Mapping) else {}
    ordered = sorted(many.items(), key=lambda row: _key_rank(row[0]))
    lines: list[bytes] = []
    for key, item in ordered if isinstance(items, Mapping) else ((None, items),):
        scale = f"{'':19}{item - 1:<21}{item + 1:>32}"
        rows = (
            scale,
            f"{'hh:mm:ss.ns':<19}|{'_' * 51}|",
            strftime("%H:%M:%S.000000000", localtime(0)) + f" |{'*':^51}| {item}",
            f"{'':19}v{'_' * 51}v",
            scale,
        )
        head = name.encode() + (b"" if key is None else b"[" + key_text(key) + b"]")
        lines += [head + b":\n", *(row.encode() + b"\n" for row in rows), b"\n"]
    start = strftime("%Y-%m-%d %H:%M:%S.000000000", localtime(0))

    def member(item: int) -> bytes:
        return b'[{"interval_start":"%b","value":%d}]' % (start.encode(), item)

    if isinstance(items, Mapping):
        data = b"{" + b", ".join(quoted(key_text(key, b",")) + b": " + member(item) for key, item in ordered) + b"}"
    else:
        data = member(items)
    return Out(b"".join(lines), (_line("tseries", _named(name.encode(), data)),))


def average(name: str, values: list[int] | Mapping[Any, list[int]]) -> Out:
    """avg() over the values, of the whole or by key."""
    if isinstance(values, list):
        return scalar(name, mean(values), "stats")
    return keyed(name, {key: mean(each) for key, each in values.items()}, "stats")


def stats(name: str, values: list[int] | Mapping[Any, list[int]]) -> Out:
    """stats() over the values, of the whole or by key; sorted by average."""
    if isinstance(values, list):
        text, data = _stats(values)
        return Out(name.encode() + b": " + text + b"\n", (_line("stats", _named(name.encode(), data)),))
    rows = sorted(values.items(), key=lambda row: (mean(row[1]), _key_rank(row[0])))
    lines = b"".join(name.encode() + b"[" + key_text(key) + b"]: " + _stats(each)[0] + b"\n" for key, each in rows)
    members = b", ".join(quoted(key_text(key, b",")) + b": " + _stats(each)[1] for key, each in rows)
    return Out(lines, (_line("stats", _named(name.encode(), b"{" + members + b"}")),))


def hist(name: str, values: list[int] | Mapping[Any, list[int]], bits: int = 0) -> Out:
    """hist(value, bits); values are signed."""
    return _histogram(name, values, lambda each: log2_buckets(each, bits))


def lhist(name: str, values: list[int] | Mapping[Any, list[int]], low: int, high: int, step: int) -> Out:
    """lhist(value, low, high, step); values are signed."""
    return _histogram(name, values, lambda each: linear_buckets(each, low, high, step))


def quantiles(
    name: str, values: list[int] | Mapping[Any, list[int]], *percentages: float, bits: int = 5
) -> Out:  # fmt: skip
    """quantiles(value, …): from the sorted values; sorted by how many there are."""

    def shown(held: list[int]) -> dict[str, int]:
        held = sorted(held)
        found = {"count": len(held)}
        for percent in percentages or (50, 90, 99, 99.9):
            rank = max(ceil(Fraction(str(percent)) * len(held) / 100), 1)
            low, after = _around(held[rank - 1], bits)
            inside = [each for each in held if low <= each < after]
            last = rank == len(held) or held[rank] >= after
            found[f"p{percent}"] = inside[-1] if last else min((low + after - 1) // 2, inside[-1])
        return {**found, "max": held[-1]}

    if isinstance(values, list):
        items: dict[Any, dict[str, int]] = {None: shown(values)}
    else:
        items = {key: shown(each) for key, each in sorted(values.items(), key=lambda row: (len(row[1]), row[0]))}
    lines, members = [], []
    for key, found in items.items():
        head = name.encode() + (b"" if key is None else b"[" + key_text(key) + b"]")
        lines.append(head + b": { %b }\n" % b", ".join(b".%b = %d" % (k.encode(), v) for k, v in found.items()))
        data = b"{%b}" % b", ".join(b'"%b": %b' % (k.encode(), json_of(v)) for k, v in found.items())
        members.append(data if key is None else quoted(key_text(key, b",")) + b": " + data)
    data = members[0] if isinstance(values, list) else b"{" + b", ".join(members) + b"}"
    return Out(b"".join(lines), (_line("quantiles", _named(name.encode(), data)),))


def _around(value: int, bits: int) -> tuple[int, int]:
    """The values that are counted together with this one: its leading bits are theirs."""
    if value < 0:
        low, after = _around(-1 - value, bits)
        return -after, -low
    width = 1 << max(value.bit_length() - 1 - bits, 0)
    return value // width * width, value // width * width + width


# --- buckets ---------------------------------------------------------------------------------------------------------

Row = tuple[Bounds, int, Callable[[int], bytes]]


def log2_buckets(values: list[int], bits: int) -> list[Row]:
    """From the first bucket that holds a value to the last: bounds, count, and how a bound is written."""
    edges = list(range(2 << bits))
    power = 1
    while edges[-1] < 1 << 63:
        edges += [(part << power) for part in range(1 << bits, 2 << bits)]
        power += 1
    edges = sorted(set(edges))

    def label(edge: int) -> bytes:
        # An edge of 2^power * part is written with the largest suffix that 2^power holds.
        power = max(edge.bit_length() - 1 - bits, 0) if edge >= 2 << bits else 0
        suffix = ["", "K", "M", "G", "T", "P", "E"][power // 10]
        return f"{edge >> (power // 10 * 10)}{suffix}".encode()

    bounds: list[Bounds] = [(None, 0), *pairwise(edges)]
    return _between(bounds, values, label)


def linear_buckets(values: list[int], low: int, high: int, step: int) -> list[Row]:
    """The same for lhist."""
    # Where step does not divide the range, the last full step ends it: bpftrace puts all that is above in one bucket.
    edges = list(range(low, high + 1, step))
    bounds: list[Bounds] = [(None, low), *pairwise(edges), (edges[-1], None)]

    def label(edge: int) -> bytes:
        if step % 1024 or edge == 0:
            return str(edge).encode()
        return (f"{edge >> 20}M" if edge % (1 << 20) == 0 else f"{edge >> 10}K").encode()

    return _between(bounds, values, label)


def _between(bounds: list[Bounds], values: list[int], label: Callable[[int], bytes]) -> list[Row]:
    counts = [
        sum((first is None or v >= first) and (after is None or v < after) for v in values) for first, after in bounds
    ]
    used = [i for i, count in enumerate(counts) if count]
    return [(bounds[i], counts[i], label) for i in range(used[0], used[-1] + 1)] if used else []


def _histogram(name: str, values: list[int] | Mapping[Any, list[int]], split: Callable[[list[int]], list[Row]]) -> Out:
    if isinstance(values, list):
        rows = split(values)
        return Out(
            name.encode() + b":\n" + _bars(rows) + b"\n", (_line("hist", _named(name.encode(), _bars_json(rows))),)
        )
    keys = sorted(values, key=lambda key: (len(values[key]), _key_rank(key)))
    text = b"".join(name.encode() + b"[" + key_text(key) + b"]:\n" + _bars(split(values[key])) + b"\n" for key in keys)
    members = b", ".join(quoted(key_text(key, b",")) + b": " + _bars_json(split(values[key])) for key in keys)
    return Out(text, (_line("hist", _named(name.encode(), b"{" + members + b"}")),))


def _bars(rows: list[Row]) -> bytes:
    highest = max(count for _, count, _ in rows)
    lines = []
    for (first, after), count, label in rows:
        if first is None:
            head = b"(..., " + label(after or 0) + b")"
        elif after is None:
            head = b"[" + label(first) + b", ...)"
        elif after == first + 1:
            head = b"[" + label(first) + b"]"
        else:
            head = b"[" + label(first) + b", " + label(after) + b")"
        # The original computes in single precision.
        width = int(_single(_single(count / highest) * BAR_WIDTH))
        lines.append(b"%-16s%8d |%-52s|\n" % (head, count, b"@" * width))
    return b"".join(lines)


def _bars_json(rows: list[Row]) -> bytes:
    members = []
    for (first, after), count, _ in rows:
        low = b"" if first is None else b'"min": ' + json_of(first) + b", "
        high = b"" if after is None else b'"max": ' + json_of(after - 1) + b", "
        members.append(b"{" + low + high + b'"count": %d}' % count)
    return b"[" + b",".join(members) + b"]"


def _single(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


# --- values ----------------------------------------------------------------------------------------------------------


def as_bytes(text: str | bytes) -> bytes:
    """UTF-8 where it is not bytes already."""
    return text.encode() if isinstance(text, str) else text


def text_of(item: Plain) -> bytes:
    """A value as text."""
    if isinstance(item, bool):
        return b"true" if item else b"false"
    if isinstance(item, int):
        return str(item).encode()
    if isinstance(item, tuple):
        return b"(" + b", ".join(map(text_of, item)) + b")"
    return as_bytes(item)


def key_text(key: Plain, comma: bytes = b", ") -> bytes:
    """A key between its brackets: the outermost parentheses are left out."""
    if isinstance(key, tuple):
        return comma.join(map(text_of, key))
    return text_of(key)


def json_of(item: Plain) -> bytes:
    """A value as JSON; integers that a double cannot hold are strings."""
    if isinstance(item, bool):
        return b"true" if item else b"false"
    if isinstance(item, int):
        return str(item).encode() if int(float(item)) == item else b'"%d"' % item
    if isinstance(item, tuple):
        return b"[" + b",".join(map(json_of, item)) + b"]"
    return quoted(as_bytes(item))


def quoted(text: bytes) -> bytes:
    """A string as JSON, with the text as it is: no escapes beyond the necessary ones."""
    return json.dumps(text.decode("utf-8", "replace"), ensure_ascii=False).encode()


def _named(name: bytes, data: bytes) -> bytes:
    return b"{" + quoted(name) + b": " + data + b"}"


def _line(kind: str, data: bytes) -> bytes:
    return b'{"type": "' + kind.encode() + b'", "data": ' + data + b"}\n"


def _key_rank(key: Plain) -> tuple[object, ...]:
    if isinstance(key, tuple):
        return tuple(rank for part in key for rank in _key_rank(part))
    return (key if isinstance(key, int) else as_bytes(key),)


def mean(values: list[int]) -> int:
    total = sum(values)
    return total // len(values) if total >= 0 else -(-total // len(values))


def _stats(values: list[int]) -> tuple[bytes, bytes]:
    count, average, total = len(values), mean(values), sum(values)
    return (
        b"{ .count = %d, .average = %d, .total = %d }" % (count, average, total),
        b'{"count": %d, "average": %b, "total": %b}' % (count, json_of(average), json_of(total)),
    )
