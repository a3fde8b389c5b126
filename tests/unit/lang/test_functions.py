"""Functions that are one object each: what they give, and that every way to run them gives the same."""

from __future__ import annotations

import pytest

from tests.typed_ir import N, builtin, clause, num, program, run, text
from tests.unit.lang.programs import analysed, faults
from tracer.lang import typed
from tracer.lang.printing.typed import print_typed
from tracer.lang.types import INT64, UINT64, IntType, StringType, Type

UINT16 = IntType(16, False)


def value_of(expression: str) -> object:
    """What a constant expression folds to."""
    (statement,) = analysed(f"BEGIN {{ @ = {expression}; }}").clauses[0].body
    assert isinstance(statement, typed.MapSet)
    return getattr(statement.value, "value", statement.value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("bswap(0x12)", 0x12), ("bswap(0x1234)", 0x3412), ("bswap((uint64)1)", 1 << 56), ("bswap((int16)-2)", 0xFEFF),
        ('strcap("abc")', 4),
        ('strstr("tracer", "ace")', 2), ('strstr("tracer", "x")', -1), ('strstr("tracer", "")', 0),
    ],
)
def test_functions_of_constants_are_constants(expression: str, value: int) -> None:
    assert value_of(expression) == value


def test_strcap_of_a_constant_is_the_size_of_its_type() -> None:
    call = value_of('strcap(0 ? "wider" : "abc")')
    assert isinstance(call, typed.Call) and call.args[1] == typed.IntLit(INT64, call.span, 6)


@pytest.mark.parametrize(
    ("name", "args", "type", "value"),
    [
        *(
            ("strerror", (num(number),), StringType(64), expected)
            for number, expected in (
                (2, b"No such file or directory"), (-13, b"Permission denied"), (0, b"Success"),
                (133, b"Memory page has hardware error"), (134, b"Unknown error"), (-(2**63), b"Unknown error"),
            )
        ),
        ("strcap", (builtin("comm", StringType(16)), num(16)), INT64, 16),
        ("strstr", (text(b"tracer"), text(b"ace")), INT64, 2),
        ("strstr", (text(b"tracer"), text(b"x")), INT64, -1),
        ("bswap", (num(0x1234, UINT16),), UINT16, 0x3412),
        ("bswap", (num(0x0102030405060708, UINT64),), UINT64, 0x0807060504030201),
    ],
)
def test_steps_give_what_folding_gives(name: str, args: tuple[typed.Expr, ...], type: Type, value: int) -> None:
    call = typed.Call(type, N, name, args)
    hit = (b"app",) if any(isinstance(arg, typed.Builtin) for arg in args) else ()
    (event,) = run(program([clause([typed.PrintValue(N, 0, call)])], shapes=[type]), [hit]).events
    assert event.value == value  # type: ignore[union-attr]


def test_a_word_of_the_command_line_is_read_from_a_byte_on() -> None:
    made = analysed("BEGIN { print($1 + 1); print($1 + 6); }", "hello")
    shown = print_typed(made)
    assert 'print "ello":string' in shown and 'print "":string' in shown
    assert [each.message for each in made.warnings] == ["a text of 5 bytes has no byte 6"]


@pytest.mark.parametrize(
    "call", ['globmatch({ $x = "a"; $x }, "a*")', 'strlen({ $x = "a"; $x })', "bswap({ $x = (uint16)1; $x })"]
)
def test_a_block_is_no_constant(call: str) -> None:
    assert call.partition("(")[0] in print_typed(analysed(f"BEGIN {{ @ = {call}; }}"))


def test_fail_does_not_show_a_block() -> None:
    assert "fail() shows constants" in faults('BEGIN { fail("%d", { $x = 1; $x }); }')


def test_functions_that_are_said_in_the_language_have_its_words_and_their_own_arguments() -> None:
    text = 'macro strstr(a, b) { 7 } BEGIN { @ = (is_err(-4095), strcontains("ab", $1)); assert($1 == "", "said $1"); }'
    shown = print_typed(analysed(text, "b"))
    assert "tuple(true:bool, true:bool)" in shown
    assert '"said $1"' in shown and "exit 1" in shown
    line = 'BEGIN { print(is_err("x")); assert(1, 2); }'
    assert faults(line) == (
        f"error: the argument of is_err() must be an integer, not a string\n  {line}\n{'^^^':>26}\n"
        f"error: the message of assert() must be a string, not an int64\n  {line}\n{'^':>41}\n"
        "  hint: str(2) reads the string at that address\n"
    )


@pytest.mark.parametrize(("address", "length"), [("str", "len"), ("data_ptr", "length")])
def test_str_of_a_string_that_bears_its_length_says_how_to_write_it(address: str, length: str) -> None:
    struct = f"struct text {{ char *{address}; uint64 {length}; }};"
    said = faults(f"{struct} usdt:/bin/app:order {{ @ = str(*(struct text *)arg0); }}")
    assert said.startswith("error: str() needs an address, not a struct text\n")
    how = f"write str(VALUE.{address}, VALUE.{length} + 1), with it in place of VALUE; the 1 is for a NUL"
    assert said.endswith(f"  hint: {how}\n")
