"""The parser: spans, escapes, numbers, recovery, and that nothing but `ProgramError` ever comes out of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.golden.lang.blocks import blocks, files
from tests.unit.lang import invariants
from tests.unit.lang.programs import sites_of
from tracer.errors import Diagnostic, ProgramError, Source, Span
from tracer.lang.analyse import analyse
from tracer.lang.printing.syntax import TREE, print_ast
from tracer.lang.printing.typed import print_typed
from tracer.lang.syntax import ast
from tracer.lang.syntax.expressions import MAX_DIAGNOSTICS
from tracer.lang.syntax.parser import parse

PROGRAMS = [block.program for kind in ("dumps", "errors") for path in files(kind) for block in blocks(path)]
PIECES = [
    *("BEGIN", "usdt:/bin/app:order", "uprobe:/bin/app:f", "uretprobe:/a:f", "interval:s:1", "END", "config = {"),
    *("{", "}", "(", ")", "[", "]", ";", ",", ":", "/", '"', "\\", "//", "/*", "*/", "\n", " ", "$", "@", "#", "'"),
    *(
        "@x",
        "@x[1]",
        "$x",
        "$1",
        "$#",
        "arg0",
        "pid",
        "comm",
        "str(arg0)",
        "count()",
        "hist(arg0, 2)",
        "print(",
        '"a%s"',
    ),
    *("if", "else", "while", "for", "unroll (3)", "let", "return", "break", "0..5", "=", "+=", "++", "-", "*", "? 1 :"),
    *(
        "(int32)",
        "(uint8 *)",
        "(struct s *)",
        ".0",
        "->a",
        "1e6",
        "0x",
        "1ms",
        "&&",
        "==",
        "true",
        "\x00",
        "é",
        "\ud800",
    ),
]


def parsed(text: str) -> ast.Program:
    return parse(Source(text))


def value(text: str) -> ast.Expr:
    statement = parsed(f"BEGIN {{ @x = {text}; }}").clauses[0].body[0]
    assert isinstance(statement, ast.Assign)
    return statement.value


def fault(text: str) -> Diagnostic:
    with pytest.raises(ProgramError) as caught:
        parsed(text)
    return caught.value.diagnostics[0]


def go(text: str) -> None:
    """Every stage of the language on any text: a dump or a `ProgramError` with spans inside the text."""
    try:
        program = parse(Source(text), ("12", "word"))
        print_ast(program)
        typed = analyse(program, sites_of(program))
        invariants.check(typed)
        print_typed(typed)
    except ProgramError as error:
        assert len(error.diagnostics) > 0
        for diagnostic in error.diagnostics:
            assert diagnostic.message and "syntax error" not in diagnostic.message
            assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text) + 1


@settings(max_examples=300, deadline=None)
@given(st.text())
@example("BEGIN { @x = " + "(" * 5000 + "1" + ")" * 5000 + " }")
@example("BEGIN { @x = " + "-" * 5000 + "1 }")
@example("BEGIN { @x = " + "1 + " * 5000 + "1 }")
@example("BEGIN { @x = " + "1 ? " * 5000 + "1 }")
@example("BEGIN { @x = $t" + ".0" * 5000 + " }")
@example("BEGIN " + "{" * 5000)
@example("BEGIN { " + "if (1) { " * 500 + "} " * 500 + "}")
@example("BEGIN { if (1) { }" + " else if (1) { }" * 500 + "}")
@example("BEGIN { " + "1 +; " * 500)
@example('usdt:"\\')
@example("/" * 100)
@example('BEGIN { @["a\x00b"] = 1; }')
@example("usdt:a:b" + ",usdt:a:b" * 2000 + "{}")
def test_arbitrary_text_gives_a_program_or_diagnostics(text: str) -> None:
    go(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join))
def test_pieces_of_programs_give_a_program_or_diagnostics(text: str) -> None:
    go(text)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PROGRAMS), st.randoms(use_true_random=False))
def test_mutated_programs_give_a_program_or_diagnostics(text: str, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        to = min(len(text), at + chance.randrange(6))
        text = text[:at] + chance.choice(["", "", *PIECES]) + text[chance.choice([at, to]) :]
    go(text)


@pytest.mark.parametrize(
    ("text", "bracketed"),
    [
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
        ("1 - 2 - 3", "((1 - 2) - 3)"),
        ("1 & 2 == 3", "(1 & (2 == 3))"),
        ("1 | 2 ^ 3 & 4", "(1 | (2 ^ (3 & 4)))"),
        ("1 << 2 + 3 < 4", "((1 << (2 + 3)) < 4)"),
        ("1 || 2 && 3", "(1 || (2 && 3))"),
        ("1 ? 2 : 3 ? 4 : 5", "(1 ? 2 : (3 ? 4 : 5))"),
        ("1 ? 2 ? 3 : 4 : 5", "(1 ? (2 ? 3 : 4) : 5)"),
        ("-1 - -2", "((-1) - (-2))"),
        ("!1 == ~2", "((!1) == (~2))"),
        ("(int8)1 + 2", "(((int8)1) + 2)"),
        ("(int8)-$x++", "((int8)(-($x++)))"),
        ("*(uint8 *)arg0 + 1", "((*((uint8 *)arg0)) + 1)"),
        ("(pid) + 1", "(pid + 1)"),
        ("*(struct a::Box<b::Item<int>, 2> *)arg0 + 1", "((*((struct a::Box<b::Item<int>, 2> *)arg0)) + 1)"),
        ("((a::Item *)arg0)->id", "((a::Item *)arg0).id"),
        ("1 < a::Col::Red ? a::MOST : 2", "((1 < a::Col::Red) ? a::MOST : 2)"),
        ("(1, (2, 3), 4)", "tuple(1, tuple(2, 3), 4)"),
        ("$t.0.1", "$t.0.1"),
        ("@m[1, 2] / 3 / 4", "((@m[1, 2] / 3) / 4)"),
        ("- - 1", "(-(-1))"),
        (
            "1s + 1ms + 1us + 1ns + 1m + 1h + 1d",
            "((((((1000000000 + 1000000) + 1000) + 1) + 60000000000) + 3600000000000) + 86400000000000)",
        ),
        ("0x1F + 0777 + 1_000 + 2e3 + 5UL + 0", "(((((31 + 511) + 1000) + 2000) + 5) + 0)"),
    ],
)
def test_expressions_bind_as_in_c(text: str, bracketed: str) -> None:
    assert TREE.text(value(text)) == bracketed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"\n\t\r\"\\"', b'\n\t\r"\\'),
        (r'"\x41\x4g\101\1018"', b"A\x04gAA8"),
        (r'"\xff\377"', b"\xff\xff"),
        ('"é"', "é".encode()),
        ('""', b""),
        ('"// no comment"', b"// no comment"),
    ],
)
def test_escapes_are_resolved(text: str, expected: bytes) -> None:
    node = value(text)
    assert isinstance(node, ast.StrLit)
    assert node.value == expected


def test_bytes_that_are_no_utf8_pass_through() -> None:
    node = value('"' + b"\xff".decode("utf-8", "surrogateescape") + '"')
    assert isinstance(node, ast.StrLit)
    assert node.value == b"\xff"


def test_spans_cover_what_was_written() -> None:
    text = "BEGIN { @total[pid, comm] = (1 + 2) * $count++; }"
    clause = parsed(text).clauses[0]
    statement = clause.body[0]
    assert isinstance(statement, ast.Assign) and isinstance(statement.target, ast.MapRef)
    assert isinstance(statement.value, ast.Binary)
    target, value = statement.target, statement.value
    spans = [clause.span, statement.span, target.span, target.key[1].span, value.left.span, value.right.span]
    assert [text[span.start : span.end] for span in spans] == [
        text,
        "@total[pid, comm] = (1 + 2) * $count++",
        "@total[pid, comm]",
        "comm",
        "(1 + 2)",
        "$count++",
    ]
    assert text[target.name_span.start : target.name_span.end] == "@total"


def test_the_last_statement_needs_no_semicolon_and_blocks_need_none() -> None:
    program = parsed("BEGIN { if (1) { exit() } while (0) { } ; ; unroll (1) { @x++ } exit() }")
    assert [type(node).__name__ for node in program.clauses[0].body] == ["If", "While", "Unroll", "ExprStmt"]


def test_diagnostics_stop_at_a_limit() -> None:
    with pytest.raises(ProgramError) as caught:
        parsed("BEGIN { " + "1 +; " * 100 + "}")
    assert len(caught.value.diagnostics) == MAX_DIAGNOSTICS


def test_a_missing_semicolon_is_marked_where_it_is_missing() -> None:
    text = "BEGIN { @x = 1\n  @y = 2; }"
    assert fault(text).span == Span(text.index("1") + 1, text.index("1") + 2)


def test_parameters_are_taken_from_the_command_line() -> None:
    program = parse(Source("usdt:$1:$2 { @x = $3; @y = $#; }"), ("/bin/app", "order"))
    point = program.clauses[0].points[0]
    assert (point.path, point.name, point.text) == ("/bin/app", "order", "usdt:$1:$2")
    assert [TREE.text(s.value) for s in program.clauses[0].body if isinstance(s, ast.Assign)] == ["$3", "2"]


def test_golden_files_are_found() -> None:
    assert len(PROGRAMS) > 80
    assert Path(files("dumps")[0]).name == "dumps_core.txt"


def test_a_missing_brace_is_one_mistake() -> None:
    with pytest.raises(ProgramError) as raised:
        parse(Source("BEGIN { @x = 1"))
    assert [each.message for each in raised.value.diagnostics] == ["the block is not closed"]


def test_probes_without_bodies_follow_each_other_a_line_for_each() -> None:
    shown = "uprobe:libc:malloc /arg0 /\n2 > 3/\n  u:libc:free\nuretprobe:libc:read /retval/\n"
    text = f"{shown}uprobe:libc:write {{ @++; }}\n"
    clauses = parse(Source(text)).clauses
    assert [(clause.points[0].text, clause.bare, clause.predicate is not None) for clause in clauses] == [
        ("uprobe:libc:malloc", True, True), ("u:libc:free", True, False), ("uretprobe:libc:read", True, True),
        ("uprobe:libc:write", False, False),
    ]  # fmt: skip
    with pytest.raises(ProgramError, match=r"expected '\{' after the attach point, found 'uprobe'"):
        parse(Source("uprobe:libc:malloc uprobe:libc:free { @++; }"))
