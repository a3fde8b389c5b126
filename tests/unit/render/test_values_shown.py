from __future__ import annotations

import json
import os
import pwd
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tracer.host.clock import boot_time_ns, format_time
from tracer.lang.types import (
    BOOL,
    INT64,
    Field,
    Stack,
    StackType,
    StringType,
    StructType,
    Symbol,
    SymbolType,
    TimestampType,
    TupleType,
    UsernameType,
)
from tracer.render.value_text import ValueText, json_key, json_number, json_string, json_value, username

TEXT = ValueText()


@given(st.binary())
def test_any_bytes_become_a_json_string_with_the_same_text(text: bytes) -> None:
    assert json.loads(json_string(text)) == text.decode("utf-8", "replace")


def test_json_strings_escape_as_bpftrace_does() -> None:
    quoted = json_string(b'"\\/\n\r\t\x00\x08\x0c\x1f\x7f\\b\\\x08\xc3\xa9\xff')
    assert quoted == '"\\"\\\\/\\n\\r\\t\\u0000\\u0008\\u000c\\u001f\x7f\\\\b\\\\\\u0008é\ufffd"'.encode()


def test_names_of_members_cannot_write_more_than_themselves() -> None:
    """Debug information may have any bytes there."""
    name = "\udcff\x1b[2J"
    record = StructType("struct s", 8, (Field(name, INT64, 0),))
    data = (3).to_bytes(8, "little")
    assert TEXT.of(TupleType((INT64,), (name,)))((3,)) == TEXT.of(record)(data)
    assert TEXT.of(record)(data) == b"{ .\\xff\\x1b[2J = 3 }"
    for type, value in ((TupleType((INT64,), (name,)), (3,)), (record, data)):
        assert json.loads(json_value(type, TEXT)(value)) == {"\ufffd\x1b[2J": 3}


@given(st.integers(-(2**63), 2**64 - 1))
def test_json_numbers_keep_their_value_in_every_reader(value: int) -> None:
    shown = json_number(value)
    if shown.startswith(b'"'):
        assert int(json.loads(shown)) == value
    else:
        assert json.loads(shown, parse_int=float) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**53, b"9007199254740992"),
        (2**53 + 1, b'"9007199254740993"'),
        (2**53 + 2, b"9007199254740994"),
        (-(2**63), b"-9223372036854775808"),
        (2**63 - 1, b'"9223372036854775807"'),
        (2**64 - 1, b'"18446744073709551615"'),
    ],
)
def test_a_number_that_a_double_cannot_hold_is_a_string(value: int, shown: bytes) -> None:
    assert json_number(value) == shown


def test_tuples_have_blanks_in_text_and_none_in_json() -> None:
    type = TupleType((INT64, TupleType((StringType(9), BOOL)), StringType(9)))
    value: Any = (1, (b"a b", True), b"")
    assert TEXT.of(type)(value) == b"(1, (a b, true), )"
    assert json_value(type, TEXT)(value) == b'[1,["a b",true],""]'


def test_keys_join_their_parts_without_parentheses_and_keep_those_of_inner_tuples() -> None:
    types = (INT64, TupleType((StringType(9), INT64)))
    key = (1, (b"a b", 2))
    assert TEXT.key(types)(key) == b"1, (a b, 2)"
    assert json_key(types, TEXT)(key) == b'"1,(a b,2)"'


def test_a_string_key_in_parentheses_keeps_them() -> None:
    assert TEXT.key((StringType(9),))((b"(x)",)) == b"(x)"
    assert json_key((StringType(9),), TEXT)((b"(x)",)) == b'"(x)"'


def test_symbols_and_stacks_are_text_in_json_too() -> None:
    assert json_value(SymbolType(), TEXT)(Symbol(1, 255)) == b'"0xff"'
    assert json_value(StackType(2), TEXT)(Stack(1, (1,))) == b'"\\n        0x1\\n"'
    assert TEXT.of(StackType(2))(Stack(1, ())) == b"\n"


class Names:
    """Names of one file's addresses, which begins at 0x1000."""

    def symbol(self, pid: int, address: int) -> str:
        return "main"

    def frame(self, pid: int, address: int, returned: bool = False) -> str:
        return "main+4" if address < 0x2000 and not returned else f"{address:#x}"

    def interrupts(self, pid: int, address: int) -> bool:
        return False

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        return []

    def path(self, pid: int, address: int) -> str | None:
        return "/bin/till" if address < 0x2000 else None

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        return ("c0ffee", address - 0x1000) if address < 0x2000 else None

    def mapping(self, pid: int, address: int) -> None:
        return None


@pytest.mark.parametrize(
    ("mode", "shown"),
    {
        "bpftrace": b"\n        main+4\n        0x2008\n",
        "perf": b"\n\t1004 main+4 (/bin/till)\n\t2008 0x2008 ([unknown])\n",
        "raw": b"\n1004\n2008\n",
        "build_id": b"\nc0ffee 0x4\n2008\n",
    }.items(),
)
def test_a_stack_is_shown_in_its_mode(mode: str, shown: bytes) -> None:
    assert ValueText(Names()).of(StackType(2, mode))(Stack(1, (0x1004, 0x2008))) == shown


def test_a_username_is_looked_up_and_an_unknown_uid_stays_a_number() -> None:
    assert username(os.getuid()) == pwd.getpwuid(os.getuid()).pw_name.encode()
    assert TEXT.of(UsernameType())(4_000_000_123) == b"4000000123"
    assert json_value(UsernameType(), TEXT)(2**64 - 1) == b'"18446744073709551615"'


def test_a_time_is_local_and_has_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert format_time("%Y-%m-%d %H:%M:%S.%f %%f é %", 1_700_000_000_123_456_789) == (
            "2023-11-15 00:13:20.123456 %f é %".encode()
        )
        assert format_time("%H\0%M", 0) == b"02"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_timestamp_counts_from_boot() -> None:
    type = TimestampType("%s")
    before = time.time()
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    after = time.time()
    assert before - 1 <= int(TEXT.of(type)(now)) <= after + 1
    assert before - now / 1e9 - 1 < boot_time_ns() / 1e9 < after - now / 1e9 + 1
