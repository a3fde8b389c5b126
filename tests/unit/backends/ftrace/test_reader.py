from __future__ import annotations

from tests.unit.backends.ftrace.records import event_format, sample
from tracer.backends.ftrace.decode import TIME, Shape, build
from tracer.backends.ftrace.reader import Reader
from tracer.interp.runtime import Runtime
from tracer.results.events import Loss

PLAIN = Shape(cpu=False, callchain=False)


class FakeRing:
    """A ring whose rounds are known beforehand."""

    def __init__(self, *rounds: list[int]) -> None:
        self.rounds = [b"".join(sample(7, [], [], PLAIN, time=time) for time in times) for times in rounds]

    def take(self) -> bytes:
        return self.rounds.pop(0) if self.rounds else b""


def reader_of(*rings: FakeRing) -> Reader:
    world = Runtime(maps=None, emit=lambda event: None, loss=Loss())  # type: ignore[arg-type]
    decoder = build(event_format(7, []), [], [[(lambda hit: None, [])]], PLAIN, world, time_offset=0, child_pid=0)
    return Reader(rings, {7: decoder}, PLAIN, None)  # type: ignore[arg-type]


def times(reader: Reader, final: bool = False) -> list[int]:
    return [one[TIME] for one in reader.next_samples(final)]


def test_samples_of_all_cpus_come_in_the_order_of_time_once_a_round_lies_behind_them() -> None:
    reader = reader_of(FakeRing([10, 30], [50]), FakeRing([20, 40], [45]))
    reader.collect()
    assert times(reader) == []
    reader.collect()
    assert times(reader) == [10, 20, 30, 40, 45, 50]


def test_what_is_later_than_the_last_round_waits() -> None:
    far = 1 << 62
    reader = reader_of(FakeRing([10, far], [20]))
    reader.collect()
    reader.collect()
    assert (times(reader), times(reader)) == ([], [10, 20])
    assert reader.unfinished
    assert times(reader, final=True) == [far]
    assert not reader.unfinished


def test_what_is_put_back_comes_first_the_next_time() -> None:
    reader = reader_of(FakeRing([10, 20, 30]))
    reader.collect()
    reader.collect()
    assert times(reader) == []
    samples = reader.next_samples()
    reader.put_back(samples[1:])
    assert reader.delivered == 1
    assert times(reader, final=True) == [20, 30]
    assert reader.delivered == 3


def test_what_is_later_than_an_interval_waits_for_the_next() -> None:
    reader = reader_of(FakeRing([10, 30], [50]), FakeRing([20, 31], [45]))
    reader.collect()
    reader.collect()
    assert [[one[TIME] for one in reader.next_samples(until=until)] for until in (30, 30, 45, 46)] == [
        [], [10, 20, 30], [31, 45], [],
    ]  # fmt: skip
    assert reader.unfinished
    assert times(reader) == [50]
