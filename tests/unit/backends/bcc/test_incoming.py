"""Records that wait between the ring and the run loop: none is lost where somebody stops halfway."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.singly import singly
from tests.unit.backends.bcc.test_records import in_ring
from tracer.backends.bcc.events.incoming import Incoming
from tracer.backends.bcc.events.records import Record
from tracer.backends.bcc.events.ring import Batch, _uniform, _walk
from tracer.lang.types import INT64, UINT64, StringType
from tracer.results.events import Event, ExitEvent, PrintfBatch, PrintfEvent, ValueBatch, ValueEvent

RECORDS = (
    Record("printf", 7, (INT64,)),
    Record("printf", 8, (StringType(16), INT64)),
    Record("value", 3, (INT64,)),
    Record("exit", 5),
    Record("clear", map="@x"),
    Record("sample", types=(StringType(16), INT64, UINT64, INT64), map="@t"),
)


class FakeRing:
    """A ring whose contents are known beforehand: one batch each time it is looked at."""

    def __init__(self, *batches: bytes) -> None:
        self.batches = list(batches)

    def take(self) -> Iterator[Batch]:
        if self.batches:
            data = self.batches.pop(0)
            yield (_uniform(data, data) or _walk(data, data))[0]


class Marks:
    """What of a store is told of clears."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, bool]] = []
        self.samples: list[tuple[object, ...]] = []

    def note_reset(self, name: str, mark: int, cleared: bool) -> None:
        self.told.append((name, mark, cleared))

    def sample(self, *sample: object) -> None:
        self.samples.append(sample)


def incoming(*batches: bytes, limit: int = 1 << 20, marks: Marks | None = None) -> Incoming:
    return Incoming(FakeRing(*batches), RECORDS, {"@x"}, marks or Marks(), limit)  # type: ignore[arg-type]


def number(value: int) -> bytes:
    return struct.pack("=Qq", 0, value)


def text(value: bytes, behind: int) -> bytes:
    return struct.pack("=QQq", 1, len(value) + 1, behind) + value + b"\0"


MIXED = in_ring(
    number(1), text(b"tea", 2), struct.pack("=Qq", 2, -3), number(4), struct.pack("=QQ", 4, 9), number(5),
    struct.pack("=Q", 3),
)  # fmt: skip
SINGLY: list[Event] = [
    PrintfEvent(7, (1,)), PrintfEvent(8, (b"tea", 2)), ValueEvent(3, -3), PrintfEvent(7, (4,)), PrintfEvent(7, (5,)),
    ExitEvent(5),
]  # fmt: skip


def test_records_become_events_in_their_order() -> None:
    marks = Marks()
    waiting = incoming(MIXED, marks=marks)
    waiting.take()
    assert list(singly(waiting.events())) == SINGLY
    assert marks.told == [("@x", 9, True)]
    assert not waiting.unfinished


def test_alike_records_are_one_batch() -> None:
    waiting = incoming(in_ring(*map(number, range(5))))
    waiting.take()
    (batch,) = waiting.events()
    assert isinstance(batch, PrintfBatch) and (batch.format, list(batch.rows)) == (7, [(n,) for n in range(5)])


def test_alike_values_and_alike_texts_are_batches_too() -> None:
    fives, nines = [struct.pack("=Qq", 2, n) for n in range(5)], [text(b"x" * n, n) for n in range(9)]
    waiting = incoming(in_ring(*fives), in_ring(*nines))
    waiting.take()
    waiting.take()
    (values,) = waiting.events()
    assert isinstance(values, ValueBatch) and (values.shape, list(values.values)) == (3, list(range(5)))
    (texts,) = waiting.events()
    assert isinstance(texts, PrintfBatch) and (texts.format, list(texts.rows)) == (8, [(b"x" * n, n) for n in range(9)])


def test_whoever_stops_halfway_finds_the_rest() -> None:
    for stop in range(4):
        waiting = incoming(MIXED, in_ring(number(6)))
        waiting.take()
        waiting.take()
        events = waiting.events()
        found = [next(events) for _ in range(stop)]
        del events
        while waiting.unfinished:
            found += waiting.events()
        assert list(singly(found)) == [*SINGLY, PrintfEvent(7, (6,))]


def test_what_is_dropped_is_counted_but_for_what_shows_nothing() -> None:
    for stop, left in enumerate((7, 5, 4)):
        waiting = incoming(MIXED, in_ring(number(6)), in_ring(number(7)))
        waiting.take()
        waiting.take()
        events = waiting.events()
        for _ in range(stop):
            next(events)
        del events
        # exit() and clear() print nothing.
        assert waiting.drop() == left
        assert not waiting.unfinished and waiting.drop() == 0


def test_no_more_is_taken_than_the_limit_allows() -> None:
    waiting = incoming(*(in_ring(number(n)) for n in range(5)), limit=40)
    for _ in range(5):
        waiting.take()
    assert len(waiting) == 2
    assert list(singly(waiting.events())) == [PrintfEvent(7, (0,))]
    waiting.take()
    assert len(waiting) == 2


def test_a_sample_goes_to_the_store_in_its_turn_and_counts_where_it_is_dropped() -> None:
    sample = struct.pack("=QQqQq", 5, 4, -2, 77, -9) + b"tea\0" + bytes(4)
    marks = Marks()
    seen: list[int] = []
    waiting = incoming(in_ring(sample, number(1), sample, number(2), sample), marks=marks)
    waiting.take()
    for _ in singly(waiting.events()):
        seen.append(len(marks.samples))
    assert seen == [1, 2] and marks.samples[0] == ("@t", (b"tea", -2), 77, -9)
    assert incoming(in_ring(sample, sample)).drop() == 2
