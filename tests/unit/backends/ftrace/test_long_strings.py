from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from tests.unit.backends.ftrace import plans, records
from tests.unit.backends.ftrace.records import Cut, Unread, event_format
from tests.unit.backends.ftrace.test_reader import PLAIN, FakeRing
from tracer.backends.ftrace.fetchargs import SENTINEL, Number, Text
from tracer.backends.ftrace.program import ProbeEvent
from tracer.backends.ftrace.read.long_strings import Beside, LongStrings, Upkeep
from tracer.backends.ftrace.read.padding import unbroken
from tracer.backends.ftrace.read.reader import Reader
from tracer.backends.ftrace.samples.decoder import build
from tracer.kernel.uprobe_events.events import Fetch, ProbePlace
from tracer.results.events import Loss
from tracer.steps.python.runtime import NO_ROOM, Runtime

PROPER, BESIDE = 7, 8
POINTER, STRING, PADDING = Fetch("%di", "u64"), Fetch("+0(%di)", "string"), Fetch("@+64", "string")
TEXT = Text(1, Number(0, None), 0, 9)
LONG, NOTHING = b"0123456789", Unread()


def hit(time: int, tid: int = 1, at: int = 16) -> bytes:
    """A hit whose string is too long for the event."""
    values = (at, Cut(b"01"), NOTHING)
    return records.sample(PROPER, (POINTER, STRING, SENTINEL), values, PLAIN, tid=tid, time=time)


def beside(time: int, *strings: bytes | Cut | Unread, tid: int = 1, at: int = 16) -> bytes:
    """What the event beside has of it, with the padding and the thread's name."""
    fetches = (POINTER, STRING, PADDING, SENTINEL)
    return records.sample(BESIDE, fetches, (at, *strings), PLAIN, tid=tid, time=time)


def strings(*rounds: Sequence[bytes]) -> tuple[list[object], Reader]:
    """The strings of all hits."""
    found: list[object] = []
    world = Runtime(maps=None, emit=lambda event: None, loss=Loss())  # type: ignore[arg-type]
    fetches = (POINTER, STRING, SENTINEL)
    take = lambda values: found.append(values[0])  # noqa: E731
    proper = build(
        event_format(PROPER, fetches), fetches, [[(take, [TEXT])]], PLAIN, world, time_offset=0, child_pid=0
    )
    long = LongStrings(PLAIN)
    event = Beside("e0_s1_0", (), cast(ProbeEvent, None), 0, TEXT, 1, "")
    other = long.decoder(event, event_format(BESIDE, (POINTER, STRING, PADDING, SENTINEL)), proper)
    ring = FakeRing(*(b"".join(part) for part in rounds))
    reader = Reader([ring], {PROPER: proper, BESIDE: other}, PLAIN, long_strings=long)  # type: ignore[list-item]
    for _ in range(len(rounds) + 1):
        reader.collect()
    while reader.unfinished:
        for sample in reader.next_samples(final=True):
            proper.run(sample)
    return found, reader


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((Cut(LONG), NOTHING, NOTHING), LONG),
        ((b"abc", b"p" * 11, NOTHING), b"abc"),
        ((b"", b"p" * 11, NOTHING), b""),
        ((NOTHING, b"p" * 11, NOTHING), None),
        ((Cut(b"012345678"), NOTHING, NOTHING), NO_ROOM),
        ((NOTHING, NOTHING, NOTHING), NO_ROOM),
    ],
    ids=["long", "short, beside a long one", "empty", "unreadable", "not enough", "no padding"],
)
def test_a_hit_without_room_has_the_string_of_the_event_beside(
    there: tuple[bytes | Cut | Unread, ...], expected: object
) -> None:
    found, reader = strings([beside(10, *there), hit(11)])
    assert found == [expected]
    assert reader.delivered == 1


def test_it_is_that_of_the_same_thread_and_hit() -> None:
    one, two = Cut(b"a" * 10), Cut(b"b" * 10)
    found, _ = strings(
        [beside(10, one, NOTHING, NOTHING, tid=1), beside(11, two, NOTHING, NOTHING, tid=2)],
        [hit(12, tid=2), hit(13, tid=1), hit(14, tid=1), hit(15, tid=2)],
    )
    assert found == [b"b" * 10, b"a" * 10, NO_ROOM, NO_ROOM]


def test_it_is_not_that_of_another_address() -> None:
    assert strings([beside(10, Cut(LONG), NOTHING, NOTHING, at=24), hit(11)])[0] == [NO_ROOM]


def test_it_is_not_that_of_a_hit_that_was_lost() -> None:
    text = Cut(LONG), NOTHING, NOTHING
    found, reader = strings([beside(10, *text), records.lost(2), hit(15), beside(16, *text), hit(17)])
    assert found == [NO_ROOM, LONG]
    assert (reader.lost, reader.delivered) == (2, 2)


def test_the_strings_of_which_nothing_was_read_beside_stay_as_they_are() -> None:
    assert strings([hit(10), hit(11)])[0] == [NO_ROOM, NO_ROOM]


def upkeep() -> Upkeep:
    place = ProbePlace(plans.site(), (POINTER, STRING, PADDING, SENTINEL))
    event = Beside("e0_s1_0", (place,), ProbeEvent("e0", (place,), ((),)), 0, TEXT, 1, "")
    return Upkeep([event], LongStrings(PLAIN), dict)


def test_events_beside_end_with_many_short_strings_and_begin_again_with_a_long_one() -> None:
    kept, opened = upkeep(), []
    for hits, crowded in ((1000, 0), (1_000_000, 0), (2_000_000, 0), (2_000_000, 1), (1 << 40, 1)):
        kept._again = 0.0
        if kept.is_due(lambda number, hits=hits: hits, crowded):  # type: ignore[misc]
            kept.done()
        opened.append(kept.open)
    assert opened == [True, False, False, True, True]


def test_events_beside_stay_where_long_strings_come() -> None:
    kept = upkeep()
    kept.strings.seen = True
    assert not kept.is_due(lambda number: 1 << 40, 0)


@pytest.mark.parametrize(
    ("code", "wanted", "found"),
    [
        (b"abc\0defgh\0ij", 9, None),
        (b"abc\0defgh\0ij", 5, (4, 5)),
        (b"\0" + b"x" * 40 + b"\0", 30, (11, 30)),
        (b"\0" + b"x" * 40 + b"\0", 64, (5, 36)),
        (b"x" * 40, 30, None),
        (b"", 30, None),
    ],
)
def test_code_without_a_nul_is_found_up_to_its_nul(code: bytes, wanted: int, found: tuple[int, int] | None) -> None:
    assert unbroken(code, wanted) == found
