from __future__ import annotations

import ctypes
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

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
)
from tracer.render.printf import compile_format
from tracer.render.value_text import ValueText

INT32, UINT32, INT8, UINT8 = IntType(32, True), IntType(32, False), IntType(8, True), IntType(8, False)
STRING = StringType(64)
VALUES = ValueText()

libc = ctypes.CDLL(None)


def c_printf(format: bytes, *args: Any) -> bytes:
    """What the C library makes of it."""
    buffer = ctypes.create_string_buffer(10_000)
    length = libc.snprintf(buffer, len(buffer), format, *args)
    return buffer.raw[:length]


def shown(format: str, *args: tuple[Type, Any]) -> bytes:
    return compile_format(format, [type for type, _ in args], VALUES)(tuple(value for _, value in args))


def values_of(type: IntType) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (type.bits - 1)), 2 ** (type.bits - 1) - 1) if type.signed else (0, 2**type.bits - 1)
    edges = [edge for edge in (0, 1, -1, 127, 128, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63) if low <= edge <= high]
    return st.sampled_from(edges) | st.integers(low, high)


FLAGS = st.lists(st.sampled_from("-+ 0#"), max_size=4).map("".join)
WIDTH = st.sampled_from(["", "1", "5", "12", "25"])
PRECISION = st.sampled_from(["", "", ".", ".0", ".1", ".7", ".22"])
TYPES = st.sampled_from([INT64, UINT64, INT32, UINT32, INT8, UINT8])


@given(
    FLAGS,
    WIDTH,
    PRECISION,
    st.sampled_from(["", "hh", "h", "l", "ll", "j", "z", "t"]),
    st.sampled_from("diuxXo"),
    TYPES.flatmap(lambda type: st.tuples(st.just(type), values_of(type))),
    st.sampled_from(["", "%%", "é"]),
)
def test_integers_are_written_as_c_writes_them(
    flags: str, width: str, precision: str, length: str, kind: str, typed_value: tuple[IntType, int], around: str
) -> None:
    if kind not in "xXo":
        flags = flags.replace("#", "")  # undefined in C
    format = f"{around}%{flags}{width}{precision}{length}{kind}{around}"
    assert shown(format, typed_value) == c_printf(format.encode(), ctypes.c_uint64(typed_value[1] % 2**64))


@given(
    st.lists(st.sampled_from("-"), max_size=1).map("".join),
    WIDTH,
    PRECISION,
    st.binary(max_size=30).filter(lambda text: b"\0" not in text),
)
def test_strings_are_written_as_c_writes_them(flags: str, width: str, precision: str, text: bytes) -> None:
    format = f"<%{flags}{width}{precision}s>"
    assert shown(format, (STRING, text)) == c_printf(format.encode(), text)


@given(st.sampled_from(["", "-"]), WIDTH, st.integers(0, 2**64 - 1))
def test_characters_are_written_as_c_writes_them(flags: str, width: str, value: int) -> None:
    format = f"<%{flags}{width}c>"
    assert shown(format, (UINT64, value)) == c_printf(format.encode(), ctypes.c_uint64(value))


@given(st.sampled_from(["", "-"]), WIDTH, st.integers(1, 2**64 - 1))
def test_pointers_are_written_as_c_writes_them(flags: str, width: str, value: int) -> None:
    format = f"<%{flags}{width}p>"
    assert shown(format, (UINT64, value)) == c_printf(format.encode(), ctypes.c_uint64(value))


def test_the_null_pointer_is_0() -> None:
    assert shown("%p %4p|", (UINT64, 0), (INT64, 0)) == b"0    0|"


def test_a_conversion_without_a_size_shows_32_bits() -> None:
    big = 0x12345678ABCDEF
    assert shown("%hhx %hx %x %jx %d", *[(UINT64, big)] * 5) == b"ef cdef 78abcdef 12345678abcdef 2024525295"
    assert shown("%d %u %lu %ld", *[(UINT64, 2**32 - 1)] * 4) == b"-1 4294967295 4294967295 4294967295"
    assert shown("%ld %llx", (UINT64, 2**64 - 1), (INT64, -1)) == b"-1 ffffffffffffffff"


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        (INT64, -7, b"-7"),
        (UINT64, 2**64 - 1, b"18446744073709551615"),
        (BOOL, True, b"true"),
        (STRING, b"tea\xff", b"tea\xff"),
        (TupleType((INT64, TupleType((STRING, BOOL)))), (1, (b"x", False)), b"(1, (x, false))"),
        (SymbolType(), Symbol(1, 4096), b"0x1000"),
        (StackType(3), Stack(1, (16, 32)), b"\n        0x10\n        0x20\n"),
    ],
)
def test_percent_s_shows_a_value_of_any_type(type: Type, value: Any, expected: bytes) -> None:
    assert shown("%s|", (type, value)) == expected + b"|"


def test_percent_s_pads_and_cuts_what_is_no_string_too() -> None:
    pair = TupleType((INT64, INT64))
    assert shown("[%8s|%-8s|%.3s]", (pair, (1, 2)), (INT64, -5), (INT64, 12345)) == b"[  (1, 2)|-5      |123]"


def test_booleans_are_numbers_for_percent_d() -> None:
    assert shown("%d %3d %x %c", (BOOL, True), (BOOL, False), (BOOL, True), (BOOL, True)) == b"1   0 1 \x01"


def test_text_without_conversions_stays_as_it_is() -> None:
    assert shown("100%% of {0} %y \udcff\n") == b"100% of {0} %y \xff\n"


def test_no_text_of_a_format_is_run_as_code() -> None:
    assert shown("{a[0].__class__}%d'\"\\%u", (UINT64, 2**40), (INT64, -1)) == b"{a[0].__class__}0'\"\\4294967295"


def test_a_hundred_thousand_lines_take_a_fraction_of_a_second() -> None:
    format = compile_format("%d %s\n", [UINT64, STRING], VALUES)
    args = (2**40, b"coffee")

    def seconds() -> float:
        start = time.process_time()
        for _ in range(100_000):
            format(args)
        return time.process_time() - start

    # Of three: what else runs on the processor, or a collection, may slow one down.
    assert any(seconds() < 0.3 for _ in range(3))
