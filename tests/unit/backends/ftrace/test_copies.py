"""When copies of stacks grow, and which of two samples of a hit counts."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.unit.backends.ftrace.records import sample
from tracer.backends.ftrace.read.copies import FIRST, Copies, Copy
from tracer.backends.ftrace.samples.shape import Shape
from tracer.kernel.perf import LARGEST_STACK

SHAPE = Shape(cpu=True, callchain=False, registers=0b111)
EVENT = 7


class Unwinder:
    wanted = 0


def copies_of(*copies: Copy) -> tuple[Copies, Unwinder, Counter[int]]:
    unwinder, doubles = Unwinder(), Counter[int]()
    return Copies({EVENT + copy.number: copy for copy in copies}, unwinder, SHAPE, doubles), unwinder, doubles  # type: ignore[arg-type]


def record(
    at: int, marked: bool, tid: int = 5, cpu: int = 0, copied: int = 16, shape: Shape = SHAPE,
    chain: Sequence[int] = (),
) -> bytes:  # fmt: skip
    """A sample with registers, and a stack of which half was there to be copied."""
    head = sample(EVENT, [], [], shape, time=at, tid=tid, cpu=cpu, chain=chain)
    behind = struct.pack("=4Q", 2, 1, 2, 3) + struct.pack("=Q", copied) + bytes(copied)
    behind += struct.pack("=Q", copied // 2) if copied else b""
    behind += bytes(8) if marked else b""
    kind, misc, size = struct.unpack_from("=IHH", head)
    return struct.pack("=IHH", kind, misc, size + len(behind)) + head[8:] + behind


def kept(copies: Copies, *records: bytes) -> list[bool]:
    data, at, found = b"".join(records), 0, []
    for each in records:
        found.append(not copies.is_double(EVENT, data, at))
        at += len(each)
    return found


def test_of_a_hit_that_both_have_seen_the_newer_sample_counts() -> None:
    copy = Copy(0)
    copies, _, doubles = copies_of(copy)
    copies.changed(copy, 2 * FIRST, 100, 200)
    both = record(120, True), record(121, False)
    assert kept(copies, record(90, False), record(110, False), *both, record(140, True), record(141, False)) == [
        True, True, True, False, True, False,
    ]  # fmt: skip
    assert kept(copies, record(150, True), record(250, True), record(260, False)) == [True, True, True]
    assert doubles == {0: 2}


def test_the_mark_stands_behind_what_the_kernel_walked_too() -> None:
    copy, shape, doubles = Copy(0), Shape(cpu=True, callchain=True, registers=0b111), Counter[int]()
    copies = Copies({EVENT: copy}, Unwinder(), shape, doubles)  # type: ignore[arg-type]
    copies.changed(copy, 2 * FIRST, 100, 200)
    chains = [(), (1, 2, 3), (4,)]
    newer, older = ([record(at, at == 120, shape=shape, chain=chain) for chain in chains] for at in (120, 121))
    assert kept(copies, *newer) == [True] * 3 and kept(copies, *older) == [False] * 3


def test_each_thread_and_cpu_begins_by_itself() -> None:
    copy = Copy(0)
    copies, _, _ = copies_of(copy)
    copies.changed(copy, 2 * FIRST, 100, 200)
    assert kept(copies, record(110, True), record(111, False, cpu=1), record(112, False, tid=6)) == [True] * 3
    assert kept(copies, record(113, False)) == [False]


def test_after_the_next_exchange_the_newer_have_no_mark() -> None:
    copy = Copy(0)
    copies, _, _ = copies_of(copy)
    copies.changed(copy, 2 * FIRST, 100, 200)
    copies.changed(copy, LARGEST_STACK, 300, 400)
    assert kept(copies, record(310, True), record(320, False), record(321, True)) == [True, True, False]
    assert kept(copies, record(110, True), record(111, False)) == [True, False]


def test_a_sample_without_a_copy_is_told_apart_too() -> None:
    copy = Copy(0)
    copies, _, _ = copies_of(copy)
    copies.changed(copy, 2 * FIRST, 100, 200)
    assert kept(copies, record(110, True, copied=0), record(111, False, copied=0)) == [True, False]


def wanting(*wanted: int) -> tuple[Copies, list[Copy]]:
    made = [Copy(number) for number in range(len(wanted))]
    copies, unwinder, _ = copies_of(*made)
    for number, each in enumerate(wanted):
        unwinder.wanted = each
        copies.look(EVENT + number)
    return copies, made


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        (0, None),
        (FIRST, None),
        (FIRST + 8, 2 * FIRST),
        (2 * FIRST, 2 * FIRST),
        (2 * FIRST + 8, LARGEST_STACK),
        (LARGEST_STACK, LARGEST_STACK),
        (LARGEST_STACK + 8, None),
    ],
)
def test_the_next_size_is_that_which_holds_what_is_missing(wanted: int, size: int | None) -> None:
    copies, (copy,) = wanting(wanted)
    assert list(copies.due(0, False)) == ([] if size is None else [(copy, size)])


def test_only_the_event_whose_stacks_go_on_grows() -> None:
    copies, (_, second) = wanting(0, FIRST + 8)
    assert list(copies.due(0, False)) == [(second, 2 * FIRST)]


def test_nothing_grows_for_a_while_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    copies, (copy,) = wanting(FIRST + 8)
    assert list(copies.due(3, False)) == []
    now = 50.9
    assert list(copies.due(3, False)) == []
    now = 51.0
    assert list(copies.due(3, False)) == [(copy, 2 * FIRST)]


@pytest.mark.parametrize(("lost", "behind"), [(1, False), (0, True)])
def test_where_tracer_falls_behind_all_become_as_they_were(
    monkeypatch: pytest.MonkeyPatch, lost: int, behind: bool
) -> None:
    now = 50.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    copies, (copy, other) = wanting(FIRST + 8, 0)
    for times, pause in enumerate((1, 8, 64), 1):
        copies.changed(copy, 2 * FIRST, 1, 2)
        assert list(copies.due(lost * times, behind)) == [(copy, FIRST)]
        copies.changed(copy, FIRST, 3, 4)
        copy.wanted = FIRST + 8
        now += pause - 0.1
        assert list(copies.due(lost * times, False)) == []
        now += 0.2
        assert list(copies.due(lost * times, False)) == [(copy, 2 * FIRST)]
    assert list(copies.told()) == [
        "copies of stacks grew 3 times, to 32768 bytes, and became 16384 again 3 times, as more came than could be "
        "worked through"
    ]
    assert other.size == FIRST


def test_nothing_is_told_where_nothing_grew() -> None:
    copies, _ = wanting(0)
    assert list(copies.told()) == []
