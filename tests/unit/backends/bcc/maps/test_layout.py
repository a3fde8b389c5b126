"""Values as bytes, and the two tables of a key with a long string."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tracer.backends.bcc.maps.element_bytes import KeyLayout, decoder, encode, size_of, wrap
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    IntType,
    Stack,
    StackType,
    StringType,
    Symbol,
    SymbolType,
    TupleType,
    Type,
    UsernameType,
    Value,
)

LONG, SHORT = StringType(1024), StringType(16)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (INT64, 8),
        (IntType(8, False), 8),
        (BOOL, 8),
        (StringType(1), 8),
        (SHORT, 16),
        (StringType(64), 64),
        (StringType(65), 128),
        (LONG, 1024),
        (TupleType((INT64, SHORT)), 24),
        (StackType(3), 40),
        (StackType(127), 16 + 1024),
        (SymbolType(), 16),
    ],
)
def test_every_value_is_a_multiple_of_eight_bytes(kind: Type, size: int) -> None:
    assert size_of(kind) == size


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (INT64, -(2**63)),
        (UINT64, 2**64 - 1),
        (IntType(32, True), -5),
        (IntType(8, False), 255),
        (BOOL, True),
        (SHORT, b"tea"),
        (SHORT, b"x" * 15),
        (LONG, b"y" * 1023),
        (UsernameType(), 1000),
        (TupleType((INT64, TupleType((SHORT, BOOL)))), (-1, (b"two", False))),
        (StackType(3), Stack(7, (0x401000, 0x401100))),
        (SymbolType(), Symbol(7, 0x401000)),
    ],
)
def test_a_value_comes_back_from_its_bytes(kind: Type, value: Value) -> None:
    data = encode(kind, value)
    assert len(data) == size_of(kind)
    assert decoder(kind)(b"12345678" + data, 8) == value


def test_a_narrow_integer_is_read_from_the_low_bytes_of_a_sum_that_grew_over_it() -> None:
    assert decoder(IntType(8, False))((256 + 3).to_bytes(8, "little"), 0) == 3
    assert decoder(IntType(16, True))((0xFFFF).to_bytes(8, "little"), 0) == -1


@given(st.integers(-(2**70), 2**70))
def test_wrapping_keeps_the_low_bits(value: int) -> None:
    assert wrap(IntType(16, False), value) == value % 2**16
    assert (wrap(IntType(32, True), value) - value) % 2**32 == 0


def test_a_long_string_stands_last_in_the_key() -> None:
    layout = KeyLayout.of((LONG, INT64, SHORT), head=False)
    assert (layout.offsets, layout.sizes) == ((24, 0, 8), (24 + 64, 24 + 256, 24 + 1024))


def test_of_two_long_strings_the_last_one_decides() -> None:
    layout = KeyLayout.of((LONG, LONG), head=True)
    assert (layout.offsets, layout.sizes) == ((8, 1032), (1032 + 64, 1032 + 256, 8 + 2048))


@pytest.mark.parametrize(("length", "tier"), [(0, 0), (63, 0), (64, 1), (255, 1), (256, 2), (1023, 2)])
def test_a_key_lies_in_the_first_table_that_its_string_fits(length: int, tier: int) -> None:
    layout = KeyLayout.of((INT64, LONG), head=True)
    raw = layout.encode((-7, b"k" * length), generation=3)
    assert len(raw) == layout.sizes[tier]
    assert raw[:4] == b"\3\0\0\0"
    assert layout.decoder()(raw) == (-7, b"k" * length)


@pytest.mark.parametrize(("size", "sizes"), [(64, (64,)), (65, (64, 128)), (256, (64, 256)), (257, (64, 256, 320))])
def test_a_short_buffer_has_fewer_tables(size: int, sizes: tuple[int, ...]) -> None:
    assert KeyLayout.of((StringType(size),), head=False).sizes == sizes


def test_a_key_without_parts_is_its_head() -> None:
    layout = KeyLayout.of((), head=False)
    assert layout.encode((), generation=2, bucket=9) == b"\2\0\0\0\t\0\0\0"
    assert layout.decoder()(b"\0" * 8) == ()
