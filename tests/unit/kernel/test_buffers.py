"""The memory for events is a part of the machine's, within bounds."""

from __future__ import annotations

import pytest

from tracer.kernel import buffers

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("memory", "cpus", "ring", "each", "waiting"),
    [
        (64 * MIB, 1, MIB // 4, 2 * MIB, 16 * MIB),
        (512 * MIB, 2, 2 * MIB, 8 * MIB, 16 * MIB),
        (4 * GIB, 4, 16 * MIB, 8 * MIB, 64 * MIB),
        (24 * GIB, 2, 16 * MIB, 8 * MIB, 256 * MIB),
        (256 * GIB, 48, 32 * MIB, 4 * MIB, 256 * MIB),
        (2048 * GIB, 512, 64 * MIB, MIB // 2, 256 * MIB),
        (8 * GIB, 4096, 32 * MIB, MIB // 8, 128 * MIB),
    ],
)
def test_room_for_events(
    memory: int, cpus: int, ring: int, each: int, waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "_memory", lambda: memory)
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    assert (buffers.shared_ring(), buffers.ring_of_each(cpus), buffers.waiting()) == (ring, each, waiting)


def test_the_memory_is_at_most_what_the_control_group_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers._memory.cache_clear()
    monkeypatch.setattr("tracer.host.tables.cgroups.memory_limit", lambda: ("memory.max", 64 * MIB))
    assert (buffers.shared_ring(stacks=True), buffers.waiting()) == (MIB // 4, 16 * MIB)
    buffers._memory.cache_clear()
