from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from tests.unit.backends.ftrace.records import Cut, Unread, event_format, lost, sample
from tracer.backends.ftrace.fetchargs import (
    SENTINEL,
    THREAD_NAME,
    ChildPid,
    Constant,
    FromSample,
    Number,
    Source,
    Text,
    ThreadName,
    UserStack,
)
from tracer.backends.ftrace.read.reader import Reader
from tracer.backends.ftrace.samples.decoder import Branch, build
from tracer.backends.ftrace.samples.sample_functions import reach
from tracer.backends.ftrace.samples.shape import Shape
from tracer.kernel.perf import CALLCHAIN_MARKS
from tracer.kernel.uprobe_events.events import Fetch
from tracer.lang.types import Stack
from tracer.results.events import Loss
from tracer.steps.python.runtime import NO_ROOM, Hit, Runtime

PLAIN = Shape(cpu=False, callchain=False)
SHAPES = [Shape(cpu, callchain) for cpu in (False, True) for callchain in (False, True)]
ALL = (1 << 64) - 1


class Store:
    """Stands where maps would; these tests write none."""


def runtime() -> Runtime:
    return Runtime(maps=Store(), emit=lambda event: None, loss=Loss())  # type: ignore[arg-type]


def decoded(
    fetches: Sequence[Fetch], sources: Sequence[Source], shape: Shape, *records: bytes, pid: int | None = None
) -> list[Hit]:
    """The hits that a clause with these sources is handed."""
    hits: list[Hit] = []
    decoder = build(
        event_format(7, fetches), fetches, [[(hits.append, sources)]], shape, runtime(), time_offset=1000, child_pid=42
    )
    reader = Reader([], {7: decoder}, shape, () if pid is None else [pid])
    out: list[tuple[object, ...]] = []
    reader._decode(b"".join(records), out)
    for one in out:
        decoder.run(one)
    return hits


def text(fetch: int, pointer: int, need: int = 15, guard: int | None = None, offset: int = 0) -> Text:
    return Text(fetch, Number(pointer, guard), offset, need)


ONE_STRING = (Fetch("+0(%di)", "string"), Fetch("%di", "u64"), SENTINEL)


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_keep_their_size_and_sign(shape: Shape) -> None:
    fetches = [Fetch("%di", "s32"), Fetch("%si", "u8"), Fetch("%dx", "s64"), Fetch("%cx", "s16")]
    sources = [Number(number, None) for number in range(4)]
    record = sample(7, fetches, [-5, 200, -6, 7], shape)
    assert decoded(fetches, sources, shape, record, record) == [(-5, 200, -6, 7)] * 2


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.cpu])
def test_what_samples_carry(shape: Shape) -> None:
    sources = (FromSample("pid"), FromSample("tid"), FromSample("nsecs"), FromSample("cpu"), ChildPid(), Constant(3))
    record = sample(7, [], [], shape, pid=10, tid=11, time=5, cpu=1)
    assert decoded([], sources, shape, record) == [(10, 11, 1005, 1, 42, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_strings_whole_empty_null_and_unreadable(shape: Shape) -> None:
    records = [
        sample(7, ONE_STRING, [b"hello", 0x1000, b"app"], shape),
        sample(7, ONE_STRING, [b"", 0x1000, b"app"], shape),
        sample(7, ONE_STRING, [Unread(), 0, b"app"], shape),
        sample(7, ONE_STRING, [Unread(), 0x10, b"app"], shape),
        # what a fault behind a second dereference looks like: the room that is left, and nothing in it
        sample(7, ONE_STRING, [Unread(4), 0x10, b"app"], shape),
    ]
    assert decoded(ONE_STRING, [text(0, 1)], shape, *records) == [(b"hello",), (b"",), (b"",), (None,), (None,)]


def test_null_is_the_sum_of_pointer_and_offset() -> None:
    minus_eight = (1 << 64) - 8
    records = [sample(7, ONE_STRING, [Unread(), pointer, b"app"], PLAIN) for pointer in (0, minus_eight)]
    assert decoded(ONE_STRING, [text(0, 1, offset=8)], PLAIN, *records) == [(None,), (b"",)]
    signed = (ONE_STRING[0], Fetch("%di", "s64"), SENTINEL)
    records = [sample(7, signed, [Unread(), pointer, b"app"], PLAIN) for pointer in (0, -8)]
    assert decoded(signed, [text(0, 1, offset=8)], PLAIN, *records) == [(None,), (b"",)]


def test_the_kernels_own_number_for_the_thread_name_is_no_address() -> None:
    """It reads `$comm` at -70, as a pointer to a string may be that a function returns with an error."""
    there, other = ALL - 69, ALL - 68
    records = [sample(7, ONE_STRING, [b"name", pointer, b"name"], PLAIN) for pointer in (there, other)]
    assert decoded(ONE_STRING, [text(0, 1)], PLAIN, *records) == [(None,), (b"name",)]
    assert decoded(ONE_STRING, [text(0, 1, offset=-1)], PLAIN, *records) == [(b"name",), (None,)]


def test_a_pointer_that_could_not_be_read_is_not_null() -> None:
    fetches = (Fetch("+0(+0(%di))", "string"), Fetch("+0(%di)", "u64"), Fetch("+7(%di)", "string"), SENTINEL)
    records = [
        sample(7, fetches, [Unread(4), 0, Unread(), b"app"], PLAIN),
        sample(7, fetches, [Unread(5), 0, b"", b"app"], PLAIN),
        sample(7, fetches, [b"there", 9, b"", b"app"], PLAIN),
    ]
    assert decoded(fetches, [text(0, 1, guard=2)], PLAIN, *records) == [(None,), (b"",), (b"there",)]


def test_a_guarded_number_counts_only_where_its_guard_was_read() -> None:
    fetches = (Fetch("+0(%di)", "s32"), Fetch("+3(%di)", "string"), SENTINEL)
    records = [
        sample(7, fetches, [-7, b"\xff", b"app"], PLAIN),
        sample(7, fetches, [0, b"", b"app"], PLAIN),
        sample(7, fetches, [0, Unread(), b"app"], PLAIN),
        sample(7, fetches, [-7, Unread(4), b"app"], PLAIN),
    ]
    assert decoded(fetches, [Number(0, 1)], PLAIN, *records) == [(-7,), (0,), (None,), (None,)]


def test_a_string_that_took_the_room_of_the_others_is_known_to_be_cut() -> None:
    fetches = (
        Fetch("+0(%di)", "string"), Fetch("%di", "u64"), Fetch("+0(%si)", "string"), Fetch("%si", "u64"), SENTINEL,
    )  # fmt: skip
    sources = [text(0, 1, need=15), text(2, 3, need=15)]
    records = [
        # "second" and the name, 7 + 4 bytes, are what the first had
        sample(7, fetches, [Cut(b"x" * 10), 1, Unread(), 1, Unread()], PLAIN),
        sample(7, fetches, [Cut(b"x" * 2000), 1, Unread(), 1, Unread()], PLAIN),
        sample(7, fetches, [b"first", 1, Cut(b"y" * 2000), 1, Unread()], PLAIN),
        sample(7, fetches, [b"first", 1, Cut(b"y" * 15), 1, Unread()], PLAIN),
        sample(7, fetches, [b"first", 1, Cut(b"y" * 16), 1, Unread()], PLAIN),
        sample(7, fetches, [Unread(), 1, Unread(), 0, Unread()], PLAIN),
    ]
    assert decoded(fetches, sources, PLAIN, *records) == [
        (NO_ROOM, NO_ROOM),
        (b"x" * 2000, NO_ROOM),
        (b"first", b"y" * 2000),
        (b"first", NO_ROOM),
        (b"first", b"y" * 16),
        (None, b""),
    ]


@pytest.mark.parametrize(
    ("arrays", "address", "there"),
    [
        (b"abc\0\0\0\0\0", 0x1010, True),
        (b"\0\0\0\0\0\0\0\0", 0x1010, False),
        (b"\0\0\0\0\0\0\0x", 0x1010, True),
        (b"\0\0\0\0\0\0\0x", 0x1FFA, False),  # the x is in the next page
        (b"ab\0\0\0\0\0\0", 0x1FFE, False),
        (b"ab\0\0\0\0\0y", 0x1FFE, True),
        (b"ab\0\0\0\0\0\0", 0x1FF8, False),  # its number may go beyond the page
    ],
)
def test_a_0_ends_a_string_where_another_byte_of_its_page_is_there(arrays: bytes, address: int, there: bool) -> None:
    known = arrays.partition(b"\0")[0]
    assert reach(arrays, address, NO_ROOM) == (known, b"" if there else NO_ROOM)


def test_the_thread_name() -> None:
    record = sample(7, [THREAD_NAME], [b"a b\xff"], PLAIN)
    assert decoded([THREAD_NAME], [ThreadName(0)], PLAIN, record) == [(b"a b\xff",)]


def test_user_stacks_are_cut_and_marks_taken_out() -> None:
    shape = Shape(cpu=False, callchain=True)
    user = (1 << 64) - 512
    records = [
        sample(7, [], [], shape, chain=[user, 0x401000, 0x402000, 0x403000]),
        sample(7, [], [], shape, chain=[user, 0x401000]),
        sample(7, [], [], shape, chain=[user]),
        sample(7, [], [], shape),
    ]
    assert user >= CALLCHAIN_MARKS
    assert decoded([], [UserStack(2)], shape, *records) == [
        (Stack(100, (0x401000, 0x402000)),), (Stack(100, (0x401000,)),), (Stack(100, ()),), (Stack(100, ()),),
    ]  # fmt: skip


def test_samples_of_other_processes_are_dropped() -> None:
    records = [sample(7, [], [], PLAIN, pid=pid, tid=pid) for pid in (1, 2, 2, 3)]
    assert decoded([], [FromSample("pid")], PLAIN, *records, pid=2) == [(2,), (2,)]


def test_records_of_loss_are_counted_between_samples() -> None:
    fetches = [Fetch("%di", "u32")]
    hits: list[Hit] = []
    decoder = build(
        event_format(7, fetches), fetches, [[(hits.append, [Number(0, None)])]], PLAIN, runtime(),
        time_offset=0, child_pid=0,
    )  # fmt: skip
    reader = Reader([], {7: decoder}, PLAIN)
    out: list[tuple[object, ...]] = []
    reader._decode(sample(7, fetches, [1], PLAIN) + lost(5) + sample(7, fetches, [2], PLAIN) + lost(6), out)
    assert (len(out), reader.lost) == (2, 11)


def test_after_exit_the_other_clauses_of_the_same_hit_do_not_run() -> None:
    world = runtime()
    ran: list[str] = []

    def leave(hit: Hit) -> None:
        ran.append("first")
        world.exiting = True

    decoder = build(
        event_format(7, []), [], [[(leave, []), (lambda hit: ran.append("second"), [])]], PLAIN, world,
        time_offset=0, child_pid=0,
    )  # fmt: skip
    decoder.run((9, 0, 0, 1, 1, 0, 7))
    assert ran == ["first"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_strings", [False, True])
def test_the_number_of_the_branch_says_who_runs(shape: Shape, with_strings: bool) -> None:
    fetches = ONE_STRING if with_strings else (Fetch("%di", "s32"),)
    first: list[Hit] = []
    second: list[Hit] = []
    branches: list[Branch] = [
        [(first.append, [FromSample("pid")])],
        [(second.append, [text(0, 1) if with_strings else Number(0, None)])],
    ]
    fields = (*fetches, Fetch("", "u16"))
    decoder = build(event_format(7, fields), fetches, branches, shape, runtime(), time_offset=0, child_pid=0)
    reader = Reader([], {7: decoder}, shape)
    out: list[tuple[object, ...]] = []
    values: list[int | bytes] = [b"there", 9, b"app"] if with_strings else [-3]
    reader._decode(b"".join(sample(7, fields, [*values, branch], shape) for branch in (1, 0, 1)), out)
    for one in out:
        decoder.run(one)
    assert first == [(100,)]
    assert second == [(b"there" if with_strings else -3,)] * 2


TEXTS = st.binary(max_size=20).map(lambda content: content.replace(b"\0", b""))


@given(
    st.lists(st.tuples(st.sampled_from([7, 8, 9]), st.integers(0, 1 << 32), TEXTS)),
    st.sampled_from(SHAPES),
)
def test_any_mixture_of_events_is_decoded_record_by_record(rows: list[tuple[int, int, bytes]], shape: Shape) -> None:
    numbers = (Fetch("%di", "u64"),)
    layouts: dict[int, tuple[tuple[Fetch, ...], list[Source]]] = {
        7: (numbers, [Number(0, None)]),
        8: ((Fetch("%si", "u32"), Fetch("%di", "u64")), [Number(1, None)]),
        9: (ONE_STRING, [Number(1, None), text(0, 1)]),
    }
    hits: list[Hit] = []
    decoders = {
        number: build(
            dataclasses.replace(event_format(number, fetches), id=number), fetches, [[(hits.append, sources)]], shape,
            runtime(), time_offset=0, child_pid=0,
        )
        for number, (fetches, sources) in layouts.items()
    }  # fmt: skip
    data, expected = b"", []
    for number, value, content in rows:
        values: list[int | bytes | Unread | Cut] = {7: [value], 8: [3, value], 9: [content, value, b"n"]}[number]  # type: ignore[assignment]
        data += sample(number, layouts[number][0], values, shape)
        expected.append((value, content) if number == 9 else (value,))
    out: list[tuple[object, ...]] = []
    reader = Reader([], decoders, shape)
    reader._decode(data, out)
    for one in out:
        decoders[one[shape.event]].run(one)  # type: ignore[index]
    assert hits == expected
