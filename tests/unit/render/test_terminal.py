"""Values on a terminal: what is escaped, and which texts are the program's own."""

from __future__ import annotations

import io
import json

import pytest

from tracer.errors import Source
from tracer.lang.analyse import analyse
from tracer.lang.syntax.parser import parse
from tracer.lang.typed import Program
from tracer.render.json import JsonRenderer
from tracer.render.terminal.escape import escaped, escaped_in_json
from tracer.render.terminal.own_texts import OwnTexts
from tracer.render.text import TextRenderer
from tracer.render.value_text import json_string


def program(text: str) -> Program:
    return analyse(parse(Source(text)), {})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"plain\ttext\n", b"plain\ttext\n"),
        (b"\x00\x07\x08\x0b\r\x1b\x7f", rb"\x00\x07\x08\x0b\x0d\x1b\x7f"),
        ("é€😀\u00a0".encode(), "é€😀\u00a0".encode()),
        ("\u0080\u009b\u009f".encode(), rb"\xc2\x80\xc2\x9b\xc2\x9f"),
        (b"\x9b31m \xff \xed\xa0\x80 \xc3", rb"\x9b31m \xff \xed\xa0\x80 \xc3"),
        (b"\xe2\x82\xac cut \xe2\x82", "€".encode() + rb" cut \xe2\x82"),
    ],
)
def test_what_steers_a_terminal_is_escaped_byte_by_byte(text: bytes, shown: bytes) -> None:
    assert escaped(text) == shown
    assert escaped(shown) == shown


@pytest.mark.parametrize("code", [*range(0xA2), 0x20AC])
def test_json_says_the_same_with_escapes(code: int) -> None:
    quoted = escaped_in_json(json_string(chr(code).encode()))
    assert json.loads(quoted) == chr(code)
    assert quoted.decode().isprintable() or code == 0xA0


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ('printf("%s %s", "a", str(arg0))', (0,)),
        ('printf("%s", arg0 ? "a" : "b")', (0,)),
        ('printf("%s", arg0 ? "a" : str(arg0))', ()),
        ('$a = "a"; if (arg0) { $a = "b"; } printf("%s", $a)', (0,)),
        ('$a = "a"; printf("%s", $a); $a = str(arg0)', ()),
        ('$a = str(arg0); $b = $a; printf("%s", $b)', ()),
        ('@a = "a"; printf("%s", @a)', (0,)),
        ('@a = str(arg0); printf("%s", @a)', ()),
        ('@a[comm] = "a"; printf("%s", @a["x"])', (0,)),
        ('printf("%s", str_concat("a", "b"))', (0,)),
        ('printf("%s", str_concat("a", str(arg0)))', ()),
        ('printf("%s", ("a", 1))', (0,)),
        ('printf("%s", ("a", comm))', ()),
        ('printf("%c%c", 27, arg0)', (0,)),
        ('printf("%s", "fifteen letters"); printf("%s", comm)', ()),
        ('@a["a"] = 1; for ($kv : @a) { printf("%s", $kv.0); }', (0,)),
        ('@a[comm] = 1; for ($kv : @a) { printf("%s", $kv.0); }', ()),
        ('printf("%s %s %s", usym(arg0), probe, func)', ()),
    ],
)
def test_a_text_is_the_programs_own_where_all_of_it_is_written_there(text: str, own: tuple[int, ...]) -> None:
    assert OwnTexts(program(f"uprobe:libc:puts {{ {text}; }}")).arguments(0) == own


def test_what_a_map_holds_is_its_own_where_all_is_that_is_ever_put_there() -> None:
    own = OwnTexts(program('uprobe:libc:puts { @a["x", comm] = "y"; @b = "z"; @b = str(arg0); @c["x"] = count(); }'))
    assert (own.key("@a", 2), own.key("@c", 1)) == ((True, False), (True,))
    assert own.value("@a") and not own.value("@b")


def test_a_stream_that_is_no_terminal_costs_nothing() -> None:
    made = program('BEGIN { printf("%s", comm); }')
    for renderer in (TextRenderer, JsonRenderer):
        shown = renderer(made, None, io.BytesIO())
        assert shown.text.escape is None and shown.own_texts is None
