"""Records from the ring → events; the bytes here are laid out by hand."""

from __future__ import annotations

import struct

import pytest

from tracer.backends.bcc.events.records import Record, control_event, decoder, rows_of
from tracer.backends.bcc.events.ring import _uniform, _walk
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    Stack,
    StackType,
    StringType,
    Symbol,
    SymbolType,
    TupleType,
    Type,
    Value,
)
from tracer.results.events import ExitEvent, MapEvent, TimeEvent

TEXT = StringType(1024)
TUPLE = TupleType((INT64, TupleType((TEXT, BOOL))))


@pytest.mark.parametrize(
    ("types", "data", "values"),
    [
        ((), b"", ()),
        ((INT64, UINT64), struct.pack("=qQ", -1, 2**64 - 1), (-1, 2**64 - 1)),
        ((TEXT, INT64, TEXT), struct.pack("=QqQ", 4, 5, 1) + b"tea\0\0", (b"tea", 5, b"")),
        ((TEXT,), struct.pack("=Q", 0), (b"",)),
        ((BOOL, TEXT), struct.pack("=QQ", 1, 2) + b"x\0", (True, b"x")),
        ((TUPLE, TEXT), struct.pack("=qQQQ", -7, 3, 0, 2) + b"ab\0c\0", ((-7, (b"ab", False)), b"c")),
        (
            (StackType(3), TEXT, SymbolType()),
            struct.pack("=QQQQQ", 9, 16, 2, 8, 4096) + struct.pack("=QQ", 1, 2) + b"z\0",
            (Stack(9, (1, 2)), b"z", Symbol(8, 4096)),
        ),
    ],
)
def test_a_printf_record_holds_its_values(types: tuple[Type, ...], data: bytes, values: tuple[Value, ...]) -> None:
    assert decoder(types)(b"before--" + struct.pack("=Q", 0) + data + b"behind", 8) == values


def test_records_without_values() -> None:
    found = [
        control_event(record)
        for record in (
            Record("map", map="@x", top=3, div=10),
            Record("time", 4),
            Record("exit", -1),
        )
    ]
    assert found == [MapEvent("@x", 3, 10), TimeEvent(4), ExitEvent(-1)]


def in_ring(*payloads: bytes, flags: tuple[int, ...] = ()) -> bytes:
    """As the kernel lays records into the ring: header, payload, padded to eight bytes."""
    data = b""
    for index, payload in enumerate(payloads):
        length = len(payload) | (flags[index] if index < len(flags) else 0)
        data += struct.pack("=II", length, 0) + payload.ljust(-(-len(payload) // 8) * 8, b"\0")
    return data


BUSY, DISCARDED = 1 << 31, 1 << 30


def test_records_of_one_kind_and_length_are_one_uniform_batch() -> None:
    data = in_ring(*(struct.pack("=Qqq", 5, n, -n) for n in range(100)))
    found = _uniform(data, data)
    assert found is not None
    batch, taken, busy = found
    assert (taken, busy, batch.uniform, batch.stride) == (len(data), False, True, 32)
    rows = rows_of(Record("printf", 1, (INT64, INT64)))
    assert rows is not None
    assert list(rows(batch.data, batch.stride)) == [(n, -n) for n in range(100)]


@pytest.mark.parametrize(
    "data",
    [
        in_ring(b"\0" * 16, b"\0" * 24),
        in_ring(b"\1" + b"\0" * 15, b"\2" + b"\0" * 15),
        in_ring(b"\0" * 16, b"\0" * 16, flags=(0, BUSY)),
        in_ring(b"\0" * 16, flags=(DISCARDED,)),
    ],
    ids=["lengths", "numbers", "busy", "discarded"],
)
def test_records_that_differ_are_no_uniform_batch(data: bytes) -> None:
    assert _uniform(data, data) is None


def test_walking_skips_what_was_discarded_and_stops_at_what_is_being_written() -> None:
    data = in_ring(b"a" * 9, b"b" * 8, b"c" * 8, b"d" * 8, flags=(0, DISCARDED, 0, BUSY))
    batch, taken, busy = _walk(data, data)
    assert [data[at : at + 1] for at in batch.offsets] == [b"a", b"c"]
    assert (taken, busy) == (24 + 16 + 16, True)


def test_a_record_that_the_copy_cuts_is_left_for_the_next_one() -> None:
    data = in_ring(b"a" * 8, b"b" * 80)[:40]
    batch, taken, busy = _walk(data, data)
    assert (list(batch.offsets), taken, busy) == ([8], 16, False)


def test_a_record_that_is_finished_between_the_copies_is_left_for_the_next_time() -> None:
    done, busy = (in_ring(b"a" * 8, b"b" * 8, flags=(0, flag)) for flag in (0, BUSY))
    assert _uniform(busy, done) is None
    batch, taken, waits = _walk(busy, done)
    assert (list(batch.offsets), taken, waits) == ([8], 16, True)


def test_payloads_are_those_of_the_second_copy() -> None:
    old, new = in_ring(b"a" * 8, b"b" * 16), in_ring(b"c" * 8, b"d" * 16)
    batch, _, _ = _walk(old, new)
    assert [batch.data[at : at + 8] for at in batch.offsets] == [b"c" * 8, b"d" * 8]
    found = _uniform(in_ring(b"a" * 8, b"b" * 8), in_ring(b"c" * 8, b"c" * 8))
    assert found is not None and found[0].data[8:16] == b"c" * 8
