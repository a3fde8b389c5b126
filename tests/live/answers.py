"""Reads what tracer printed as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.harness.cli import Done


def records(done: Done, *types: str) -> list[dict[str, Any]]:
    """The lines of JSON of the given types, in their order."""
    found = []
    for line in done.out.splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # what the program of -c printed
            continue
        if isinstance(record, dict) and record.get("type") in types:
            found.append(record)
    return found


def maps(done: Done) -> dict[str, Any]:
    """The maps that were printed, by name; the last one where a name was printed several times."""
    found: dict[str, Any] = {}
    for record in records(done, "map", "hist", "stats"):
        found.update(record["data"])
    return found


def total(histogram: list[dict[str, int]]) -> int:
    """How many values a histogram holds."""
    return sum(bucket["count"] for bucket in histogram)


def lost(done: Done) -> int:
    """How many events it said were lost."""
    found = re.findall(r"tracer: (\d+) events? lost: ", done.err)
    return sum(map(int, found))
