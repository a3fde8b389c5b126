from __future__ import annotations

import pytest

from scripts.benchmark.answers import buckets, differs, entries, log2_counts, lost, spread_over
from scripts.benchmark.children import Ran
from scripts.benchmark.kernel import all_there
from scripts.benchmark.printed import judged, received

HISTOGRAM = b"""
@:
[0]                    1 |@@@@@@@@@@                                          |
[1]                    1 |@@@@@@@@@@                                          |
[2, 4)                 2 |@@@@@@@@@@@@@@@@@@@@                                |
[4, 8)                 1 |@@@@@@@@@@                                          |

"""


def test_entries_of_maps_are_read_whatever_stands_around_them() -> None:
    assert entries(b"Attaching 1 probe...\n\n@: 5\n") == {"": 5}
    assert entries(b"@[0]: 3\n@[15]: 2\n") == {"0": 3, "15": 2}
    assert entries(b"@[]: 7\n@[a b]: 1\n") == {"": 7, "a b": 1}


def test_a_histogram_of_the_first_numbers_is_what_is_expected() -> None:
    assert buckets(HISTOGRAM) == log2_counts(5) == [1, 1, 2, 1]
    assert log2_counts(0) == []
    assert log2_counts(1) == [1]
    assert log2_counts(8) == [1, 1, 2, 4]
    assert sum(log2_counts(1_000_000)) == 1_000_000


def test_hits_in_turn_are_spread_evenly_the_first_keys_before() -> None:
    assert spread_over("abc", 8) == {"a": 3, "b": 3, "c": 2}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"a": 2, "b": 1}, ()),
        ({"a": 2}, ("counts 2 of 3",)),
        ({"": 3}, ('prints "" for every string',)),
        ({"a": 1, "b": 2}, ("2 keys for 2, or counts exchanged",)),
    ],
)
def test_a_wrong_map_is_told_in_words(found: dict[str, int], words: tuple[str, ...]) -> None:
    assert differs(found, {"a": 2, "b": 1}) == words


@pytest.mark.parametrize(
    ("said", "count"),
    [
        (b"", 0),
        (b"Lost 12 events\nLost 30 events\n", 42),
        (b"Possibly lost 4512 samples\nPossibly lost 1 samples\n", 4513),
        (b"tracer: 1 event lost: the buffer between kernel and tracer was full, ...\n", 1),
        (b"tracer: 250 events lost: the buffer was full\ntracer: 3 hits left out: an argument\n", 253),
        (b"CPU:1 [LOST 77 EVENTS]\n", 77),
    ],
)
def test_what_is_told_as_lost_is_added_up(said: bytes, count: int) -> None:
    assert lost(said) == count


LINES = b"0 alpha\n1 beta\n2 gamma\n3 delta\n4 alpha\n"


def ran(out: bytes, err: bytes = b"") -> Ran:
    return Ran(status=0, seconds=2.0, out=out, err=err, timed_out=False)


def test_lines_of_all_hits_in_their_order_are_whole() -> None:
    assert received(LINES, 5) == (5, True)
    assert received(b"Attaching 1 probe...\n" + LINES + b"\n\n", 5) == (5, True)
    reading = judged(ran(LINES), 5, 2.0)
    assert reading.faults == ()
    assert reading.figures == {"printf": 2000, "printf-there": 100, "printf-silent": 0, "printf-whole": 1}


def test_a_loss_that_is_told_is_no_fault() -> None:
    reading = judged(ran(LINES[8:], b"Lost 1 events\n"), 5, 2.0)
    assert reading.faults == ()
    assert reading.figures == {"printf": 2000, "printf-there": 80, "printf-silent": 0, "printf-whole": 0}


def test_a_loss_that_is_not_told_is_one() -> None:
    reading = judged(ran(LINES[8:]), 5, 2.0)
    assert reading.faults == ("1 of 5 lost and not told",)
    assert reading.figures["printf-silent"] == 20


def test_lines_in_another_order_are_one() -> None:
    reading = judged(ran(b"1 beta\n0 alpha\n2 gamma\n3 delta\n4 alpha\n"), 5, 2.0)
    assert reading.faults == ("all lines there, but not as they were hit",)
    assert reading.figures["printf-whole"] == 0


def test_more_told_as_lost_than_are_missing_is_one() -> None:
    assert judged(ran(LINES, b"Lost 2 events\n"), 5, 2.0).faults == ("2 told as lost that are there",)


def test_of_system_calls_there_may_be_more_than_the_targets_own() -> None:
    assert all_there("kernel-count", b"@: 7\n", 5) == all_there("kernel-hist", HISTOGRAM, 5) == ()
    assert all_there("kernel-count", b"@: 4\n", 5) == ("counts 4 of 5",)
    assert all_there("kernel-hist", HISTOGRAM, 1_000) == ("counts 5 of 1,000",)
