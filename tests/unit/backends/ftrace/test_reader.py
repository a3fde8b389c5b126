from __future__ import annotations

from tests.unit.backends.ftrace.records import event_format, fork, sample
from tracer.backends.ftrace.read.reader import Reader
from tracer.backends.ftrace.samples.decoder import build
from tracer.backends.ftrace.samples.shape import PID, TIME, Shape
from tracer.results.events import Loss
from tracer.steps.python.runtime import Runtime

PLAIN = Shape(cpu=False, callchain=False)


class FakeRing:
    """A ring whose rounds are known beforehand."""

    def __init__(self, *rounds: list[int] | bytes) -> None:
        self.rounds = [
            times if isinstance(times, bytes) else b"".join(sample(7, [], [], PLAIN, time=time) for time in times)
            for times in rounds
        ]

    def take(self) -> bytes:
        return self.rounds.pop(0) if self.rounds else b""


def reader_of(*rings: FakeRing, family_of: int | None = None) -> Reader:
    world = Runtime(maps=None, emit=lambda event: None, loss=Loss())  # type: ignore[arg-type]
    decoder = build(event_format(7, []), [], [[(lambda hit: None, [])]], PLAIN, world, time_offset=0, child_pid=0)
    return Reader(rings, {7: decoder}, PLAIN, () if family_of is None else [family_of], follow=family_of is not None)  # type: ignore[arg-type]


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


def test_no_round_is_decoded_before_what_was_put_back_is_used() -> None:
    reader = reader_of(FakeRing([10, 20], [30], [40]))
    for _ in range(3):
        reader.collect()
    assert times(reader) == []
    reader.put_back(reader.next_samples())
    assert reader.waiting == 2
    assert (times(reader), reader.waiting) == ([10, 20, 30], 1)
    assert times(reader) == [40]


def test_what_is_later_than_an_interval_waits_for_the_next() -> None:
    reader = reader_of(FakeRing([10, 30], [50]), FakeRing([20, 31], [45]))
    reader.collect()
    reader.collect()
    assert [[one[TIME] for one in reader.next_samples(until=until)] for until in (30, 30, 45, 46)] == [
        [], [10, 20, 30], [31, 45], [],
    ]  # fmt: skip
    assert reader.unfinished
    assert times(reader) == [50]


def test_who_is_held_up_gathers_samples_and_no_empty_rounds() -> None:
    reader = reader_of(FakeRing([10], [], [], [20], []))
    for _ in range(5):
        reader.collect(held_up=True)
    assert reader.waiting == 2
    assert [times(reader), times(reader)] == [[], [10, 20]]


def test_what_is_dropped_is_counted_whatever_round_it_is_of() -> None:
    far = 1 << 62
    reader = reader_of(FakeRing([10, far], [20], [30]), FakeRing([15], [], [35]))
    reader.collect()
    reader.collect()
    assert times(reader) == []
    assert reader.drop() == 6
    assert not reader.unfinished and reader.drop() == 0


def hit(pid: int, time: int) -> bytes:
    return sample(7, [], [], PLAIN, pid=pid, time=time)


def test_samples_of_descendants_are_kept_from_their_fork_on() -> None:
    births = FakeRing(
        fork(2, 1, 10)  # a child
        + fork(3, 2, 20)  # a grandchild
        + fork(1, 1, 25)  # a thread
        + fork(8, 9, 30)  # somebody else's
        + fork(3, 9, 40)  # the grandchild has ended and its number is used again
        + fork(9, 1, 60)  # so is the stranger's
    )
    hits = FakeRing(
        b"".join(hit(pid, time) for time in (5, 15, 35, 50, 70) for pid in (1, 2, 3, 8, 9)),
    )
    reader = reader_of(hits, births, family_of=1)
    reader.collect()
    reader.collect()
    found = [(one[TIME], one[PID]) for _ in range(2) for one in reader.next_samples(final=True)]
    assert found == [
        (5, 1), (15, 1), (15, 2), (35, 1), (35, 2), (35, 3), (50, 1), (50, 2), (70, 1), (70, 2), (70, 9),
    ]  # fmt: skip
    assert (reader.read, reader.delivered) == (25, 11)


def test_what_is_put_back_is_still_of_the_family() -> None:
    reader = reader_of(FakeRing(hit(1, 5) + fork(2, 1, 10) + hit(2, 20) + fork(2, 9, 30) + hit(2, 40)), family_of=1)
    reader.collect()
    reader.collect()
    reader.next_samples()
    samples = reader.next_samples()
    assert [one[TIME] for one in samples] == [5, 20]
    reader.put_back(samples[1:])
    assert times(reader) == [20]
    assert not reader.unfinished


def test_what_is_put_back_waits_for_the_next_interval_too() -> None:
    reader = reader_of(FakeRing([10, 20, 30]))
    reader.collect()
    reader.collect()
    reader.next_samples()
    reader.put_back(reader.next_samples())
    assert [[one[TIME] for one in reader.next_samples(until=until)] for until in (5, 20, 25)] == [[], [10, 20], []]
    assert reader.unfinished
    assert times(reader) == [30]
    assert (reader.delivered, reader.unfinished) == (3, False)
