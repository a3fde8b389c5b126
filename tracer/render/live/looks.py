"""The looks of a live table as JSON, an object in a line for each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tracer.render.live.table import CPU, RATE, SUM
from tracer.render.value_text import json_string

if TYPE_CHECKING:
    from tracer.render.live.table import Table

_NAMES = {RATE: "rate", SUM: "sum_rate", CPU: "cpu_percent"}


def look(table: Table, rows: int | None) -> bytes:
    """The last look, its first `rows`, or all."""
    listed = []
    for key, numbers in table.numbers(rows):
        told = "".join([f', "{_NAMES.get(name, name)}": {_number(number)}' for name, number in numbers.items()])
        name = b"function" if CPU in numbers else b"key"
        listed.append(b'{"%b": %b%b}' % (name, json_string(key), told.encode()))
    data = b'{"time": "%b", "seconds": %.3f, "rows": [%b]}' % (
        time.strftime("%H:%M:%S").encode(), table.seconds, b", ".join(listed),
    )  # fmt: skip
    return b'{"type": "top", "data": %b}\n' % data


def _number(number: float) -> str:
    return f"{number:.1f}" if isinstance(number, float) else f"{number}"
