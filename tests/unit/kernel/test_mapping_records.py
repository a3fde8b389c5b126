"""Records of several rings, in the order of time."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import cast

import pytest

from tracer.kernel import perf
from tracer.kernel.mapping_records import Forked, MappingRecords


class Memory:
    """A ring whose contents are given: what each reading finds."""

    size, span = 1 << 20, (0, 0)

    def __init__(self, *readings: bytes) -> None:
        self._readings = list(readings)

    @property
    def has_data(self) -> bool:
        return any(self._readings)

    def take(self) -> bytes:
        return self._readings.pop(0) if self._readings else b""


def _forked(child: int, at: int) -> bytes:
    return struct.pack("=IHHIIIIQ", perf.RECORD_FORK, 0, 32, child, 9, child, 9, at)


def _taken(records: MappingRecords) -> list[int]:
    return [each.pid for each in records.take() if isinstance(each, Forked)]


def _records(*rings: Memory) -> MappingRecords:
    records = MappingRecords.__new__(MappingRecords)
    records._rings, records._later = cast("list[perf.Ring]", list(rings)), []
    return records


def test_what_came_into_a_ring_after_it_was_read_precedes_what_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    now, soon = [1_000], 2_000
    monkeypatch.setattr("tracer.kernel.mapping_records.time", SimpleNamespace(monotonic_ns=lambda: now[0]))
    rings = Memory(_forked(1, 100), _forked(2, soon)), Memory(_forked(3, soon + 1) + _forked(4, 200))
    records, found = _records(*rings), []
    for _ in range(2):
        found += _taken(records)
        assert records.has_any  # the times of 2 and 3 are still to come
    now[0] = soon + 1
    found += _taken(records)
    assert (found, records.has_any) == ([1, 4, 2, 3], False)
