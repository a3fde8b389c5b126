"""Many printfs at once print what they print one by one, byte by byte, as text and as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from tests.typed_ir import N, clause, program
from tracer.lang import typed
from tracer.lang.types import BOOL, INT64, UINT64, IntType, Stack, StackType, StringType, TupleType, Type, Value
from tracer.render.json import JsonRenderer
from tracer.render.text import TextRenderer
from tracer.results.events import PrintfBatch, PrintfEvent, ValueBatch, ValueEvent
from tracer.results.store import LocalMaps

TEXT = StringType(64)
INT32, UINT8 = IntType(32, True), IntType(8, False)

FORMATS: dict[str, tuple[Type, ...]] = {
    "%d %s\n": (INT64, TEXT),
    "%x|%-6d|%+5d|%06.3d|%#lx %%\n": (UINT64, INT32, INT64, INT64, UINT64),
    "%c%c": (UINT8, INT64),
    "%8.3s|%-8s|\t\\u0000\n": (TEXT, TEXT),
    "%s %s %s\n": (BOOL, TupleType((INT64, TEXT)), INT32),
    "%s\n": (StackType(4),),
    "%hhu %hd %lu %p\n": (UINT64, INT64, UINT64, UINT64),
    "no value \b\f \0 and no end of line": (),
}


def values_of(type: Type) -> st.SearchStrategy[Value]:
    match type:
        case IntType(bits=bits, signed=True):
            return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        case IntType(bits=bits):
            return st.integers(0, (1 << bits) - 1)
        case StringType():
            # What may matter to JSON: NUL is no part of a string, but of what %c prints.
            parts = [b"\xe2\x82", b"\xff", b"\\", b"u0000", b'"', b"\x08", "é".encode(), b"a"]
            return st.lists(st.sampled_from(parts)).map(b"".join) | st.binary(max_size=20)
        case TupleType(items=items):
            return st.tuples(*map(values_of, items))
        case StackType():
            return st.lists(st.integers(0, 1 << 47), max_size=3).map(lambda frames: Stack(7, tuple(frames)))
        case _:
            return st.booleans()


def rows_of(index: int) -> st.SearchStrategy[tuple[int, tuple[Value, ...]]]:
    return st.tuples(st.just(index), st.tuples(*map(values_of, list(FORMATS.values())[index])))


INDEXES = st.sampled_from(range(len(FORMATS)))
OF_ONE = INDEXES.flatmap(lambda index: st.lists(rows_of(index), max_size=8))
OF_MANY = st.lists(INDEXES.flatmap(rows_of), max_size=8)
Rows = Sequence[tuple[int, tuple[Value, ...]]]

PROGRAM = program(
    [
        clause(
            [
                typed.Printf(N, index, tuple(typed.Arg(type, N, number) for number, type in enumerate(types)))
                for index, types in enumerate(FORMATS.values())
            ]
        )
    ],
    formats=list(FORMATS),
)
STORE = LocalMaps(PROGRAM)


def batched(rows: Rows) -> PrintfBatch:
    formats = [format for format, _ in rows]
    format = formats[0] if len(set(formats)) == 1 else formats
    return PrintfBatch(format, iter([values for _, values in rows]))


@pytest.mark.parametrize("renderer", [TextRenderer, JsonRenderer])
@given(OF_ONE | OF_MANY)
def test_a_batch_prints_what_its_printfs_print(renderer: type[TextRenderer | JsonRenderer], rows: Rows) -> None:
    one_by_one, at_once = io.BytesIO(), io.BytesIO()
    single = renderer(PROGRAM, None, one_by_one)
    for format, values in rows:
        single.event(PrintfEvent(format, values), STORE)
    renderer(PROGRAM, None, at_once).event(batched(rows), STORE)
    assert at_once.getvalue() == one_by_one.getvalue()


SHAPES: tuple[Type, ...] = (INT64, UINT64, TEXT, BOOL, TupleType((INT64, TupleType((TEXT, BOOL)))), StackType(4))
SHAPED = program([], shapes=SHAPES)


@pytest.mark.parametrize("renderer", [TextRenderer, JsonRenderer])
@given(st.sampled_from(range(len(SHAPES))).flatmap(lambda n: st.tuples(st.just(n), st.lists(values_of(SHAPES[n])))))
def test_a_batch_prints_what_its_values_print(
    renderer: type[TextRenderer | JsonRenderer], batch: tuple[int, list[Value]]
) -> None:
    shape, values = batch
    one_by_one, at_once = io.BytesIO(), io.BytesIO()
    single = renderer(SHAPED, None, one_by_one)
    for value in values:
        single.event(ValueEvent(shape, value), STORE)
    renderer(SHAPED, None, at_once).event(ValueBatch(shape, iter(values)), STORE)
    assert at_once.getvalue() == one_by_one.getvalue()


@pytest.mark.parametrize(
    ("texts", "data"),
    [
        ([b"tea", b"cocoa"], ["1 tea\n", "2 cocoa\n"]),
        ([b"a\\", b"u0000"], ["1 a\\\n", "2 u0000\n"]),
        ([b"\\u0000", b"x"], ["1 \\u0000\n", "2 x\n"]),
        ([b"\0", b"x"], ["1 \0\n", "2 x\n"]),
        ([b"cut \xe2\x82", b"\xac"], ["1 cut \ufffd\n", "2 \ufffd\n"]),
    ],
    ids=["plain", "backslash", "an escaped NUL's spelling", "a NUL", "a character cut in two"],
)
def test_each_line_of_json_has_its_own_text(texts: list[bytes], data: list[str]) -> None:
    out = io.BytesIO()
    rows = [(number, text) for number, text in enumerate(texts, 1)]
    JsonRenderer(PROGRAM, None, out).event(PrintfBatch(0, rows), STORE)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"type": "printf", "data": text} for text in data
    ]
