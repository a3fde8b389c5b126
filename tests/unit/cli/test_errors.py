"""How diagnostics look: every test asserts the whole text."""

from __future__ import annotations

import pytest

from tracer.cli.errors import MOST, diagnostics_text, error_text, printable
from tracer.errors import Diagnostic, ProgramError, Source, Span, TracerError


def at(text: str, part: str, message: str, hint: str | None = None, severity: str = "error") -> Diagnostic:
    start = text.index(part)
    return Diagnostic(message, Span(start, start + len(part)), hint, severity)


def test_marks_the_fault_under_the_users_line() -> None:
    text = "usdt:/bin/app:shop:order { @ = cout(); }"
    error = ProgramError(Source(text), [at(text, "cout", 'unknown function "cout"', "did you mean count?")])
    assert error_text(error) == (
        "usdt:/bin/app:shop:order { @ = cout(); }\n"
        '                               ^^^^ error: unknown function "cout"; did you mean count?\n'
    )


def test_names_file_line_and_column() -> None:
    text = "BEGIN {\n  @x = foo;\n}\n"
    assert diagnostics_text(Source(text, "a.bt"), [at(text, "foo", "unknown name")]) == (
        "a.bt:2:8\n  @x = foo;\n       ^^^ error: unknown name\n"
    )


def test_shows_one_diagnostic_after_the_other_with_its_severity() -> None:
    text = "BEGIN { a; b }"
    found = [at(text, "a;", "first"), at(text, "b", "second", severity="warning")]
    assert diagnostics_text(Source(text), found) == (
        "BEGIN { a; b }\n        ^^ error: first\nBEGIN { a; b }\n           ^ warning: second\n"
    )


def test_marks_a_span_over_several_lines_on_its_first_one() -> None:
    text = "BEGIN { (1 +\n2 }"
    shown = diagnostics_text(Source(text), [at(text, "(1 +\n2", "no )")])
    assert shown == "BEGIN { (1 +\n        ^^^^ error: no )\n"


def test_marks_one_column_past_the_end_for_an_empty_span() -> None:
    text = "BEGIN {"
    assert diagnostics_text(Source(text), [Diagnostic("no }", Span(7, 7))]) == "BEGIN {\n       ^ error: no }\n"


def test_accepts_a_span_past_the_end() -> None:
    assert diagnostics_text(Source("ab"), [Diagnostic("no }", Span(5, 9))]) == "ab\n  ^ error: no }\n"


def test_expands_tabs_so_that_the_mark_fits() -> None:
    text = "\tx = \t1;"
    shown = diagnostics_text(Source(text), [at(text, "1", "bad")])
    assert shown == "        x =     1;\n" + " " * 16 + "^ error: bad\n"


def test_counts_wide_characters_as_two_columns_and_combining_ones_as_none() -> None:
    text = '"日本e\u0301" + x'
    assert diagnostics_text(Source(text), [at(text, "x", "bad")]) == text + "\n" + " " * 10 + "^ error: bad\n"
    assert diagnostics_text(Source(text), [at(text, "日本", "bad")]) == text + "\n ^^^^ error: bad\n"


def test_never_hands_escape_sequences_of_the_program_to_the_terminal() -> None:
    text = "\x1b[2Jx"
    assert diagnostics_text(Source(text), [at(text, "x", "bad \x1b[0m")]) == "\ufffd[2Jx\n    ^ error: bad \ufffd[0m\n"
    assert printable("a\nb\x07") == "a\ufffdb\ufffd"


def test_cuts_a_long_line_around_the_fault() -> None:
    text = "a" * 100 + "BAD" + "b" * 100
    shown = diagnostics_text(Source(text), [at(text, "BAD", "x")], width=30)
    assert shown == "…" + "a" * 10 + "BAD" + "b" * 15 + "…\n           ^^^ error: x\n"
    assert len(shown.splitlines()[0]) == 30


def test_cuts_only_the_end_where_the_fault_stands_at_the_start() -> None:
    text = "BAD" + "b" * 100
    assert diagnostics_text(Source(text), [at(text, "BAD", "x")], width=30) == (
        "BAD" + "b" * 26 + "…\n^^^ error: x\n"
    )


def test_cuts_only_the_start_where_the_fault_stands_at_the_end() -> None:
    text = "b" * 100 + "BAD"
    assert diagnostics_text(Source(text), [at(text, "BAD", "x")], width=30) == (
        "…" + "b" * 26 + "BAD\n" + " " * 27 + "^^^ error: x\n"
    )


@pytest.mark.parametrize("start", range(0, 300, 7))
def test_a_cut_line_fits_and_holds_the_fault_wherever_it_is(start: int) -> None:
    text = "日a\t" * 100
    lines = diagnostics_text(Source(text), [Diagnostic("x", Span(start, start + 1))], width=40).splitlines()
    columns = sum(2 if char == "日" else 1 for char in lines[0])
    assert columns <= 40
    mark = lines[1].index("^")
    if text[start] == "a":
        shown = "".join(char + ("\0" if char == "日" else "") for char in lines[0])
        assert shown[mark] == "a"
    assert mark < 40


def test_an_error_without_a_place_is_one_line_with_its_remedy() -> None:
    assert error_text(TracerError("not root", "run it with sudo")) == "tracer: error: not root; run it with sudo\n"
    assert error_text(TracerError("two\nlines")) == "tracer: error: two lines\n"


def test_a_diagnostic_without_a_place_names_the_file_if_there_is_one() -> None:
    assert diagnostics_text(Source("", "a.bt"), [Diagnostic("empty program")]) == "a.bt: error: empty program\n"
    assert diagnostics_text(Source(""), [Diagnostic("empty program")]) == "tracer: error: empty program\n"


def test_details_are_for_verbose_alone() -> None:
    error = TracerError("the verifier refused it", detail="0: r1 = 2\n1: exit\x1b")
    assert error_text(error) == "tracer: error: the verifier refused it\n"
    assert error_text(error, verbose=True) == (
        "tracer: error: the verifier refused it\n  0: r1 = 2\n  1: exit\ufffd\n"
    )


def test_of_many_faults_the_first_are_shown() -> None:
    text = "BEGIN { " + "nope(); " * 10_000 + "}"
    source = Source(text)
    found = [Diagnostic("unknown", Span(at, at + 4)) for at in range(8, len(text) - 1, 8)]
    lines = diagnostics_text(source, found, 80).splitlines()
    assert len(lines) == 2 * MOST + 1
    assert lines[-1] == f"tracer: {len(found) - MOST} more like these"


def test_a_word_of_a_megabyte_does_not_fill_the_screen() -> None:
    name = "x" * 1_000_000
    (line, marked) = diagnostics_text(
        Source(f"BEGIN {{ {name}(); }}"), [Diagnostic(f"unknown '{name}'", Span(8, 8 + len(name)))], 80
    ).splitlines()
    assert len(line) == 80 and line.startswith("BEGIN { xxx")
    assert len(marked) < 300 and marked.endswith("xxx'")
    assert "…" in marked
