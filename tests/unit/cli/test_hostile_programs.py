"""Programs that no human writes: each is refused under its own text, in a line, soon, and never by a traceback."""

from __future__ import annotations

import time

import pytest

from tracer.cli.app import main

DEEP = 10_000
WRONG = {
    "parentheses": "BEGIN { print(" + "(" * DEEP + "1" + ")" * DEEP + "); }",
    "unclosed parentheses": "BEGIN { print(" + "(" * DEEP,
    "braces": "BEGIN " + "{" * DEEP + "}" * DEEP,
    "keys": "BEGIN { " + "@[" * DEEP + "1" + "]" * DEEP + " = 1; }",
    "casts": "BEGIN { $x = " + "(int8)" * DEEP + "1; }",
    "signs": "BEGIN { $x = " + "- " * DEEP + "1; }",
    "sums": "BEGIN { $x = 1" + "+1" * DEEP + "; }",
    "conditions": "BEGIN { $x = " + "1?" * DEEP + "1" + ":1" * DEEP + "; }",
    "calls": "BEGIN { " + "f(" * DEEP + ")" * DEEP + "; }",
    "ifs": "BEGIN { " + "if (1) { " * DEEP + "}" * DEEP + " }",
    "pointers": "BEGIN { $x = (int " + "*" * DEEP + ")0; }",
    "structs": "struct A { " * DEEP,
    "arrays": "struct A { int x" + "[1]" * DEEP + "; } BEGIN { }",
    "declarators": "struct A { int " + "(" * DEEP + "*x" + ")" * DEEP + "; } BEGIN { }",
    "sizes": "struct A { int x[" + "(" * DEEP + "1" + ")" * DEEP + "]; } BEGIN { }",
    "typedefs": "typedef int t0[1];" + "".join(f"typedef t{at} t{at + 1}[1];" for at in range(3000))
    + "BEGIN { print(sizeof(t3000)); }",
    "macros": "".join(f"macro m{at}() {{ m{at + 1}() }}\n" for at in range(500)) + "macro m500() { 1 } BEGIN { m0(); }",
    "a bomb of macros": "macro m0(x) { x + x }\n"
    + "".join(f"macro m{at}(x) {{ m{at - 1}(x) + m{at - 1}(x) }}\n" for at in range(1, 30))
    + "BEGIN { print(m29(1)); }",
    "an argument that macros double": "macro m(x) { x + x } BEGIN { print(" + "m(" * 30 + "1" + ")" * 31 + "; }",
    "faults": "BEGIN { " + "nope(); " * DEEP + "}",
    "a long name": "BEGIN { print($" + "x" * 1_000_000 + "); }",
    "a long number": "BEGIN { print(" + "9" * 1_000_000 + "); }",
    "a long path": "uprobe:/" + "x" * 100_000 + ":f { }",
    "asterisks": "uprobe:/bin/sh:" + "*" * DEEP + "q { }",
    "a NUL": "BEGIN { \0 }",
    "a NUL in a path": "uprobe:/bin/\0sh:f { }",
    "a lone surrogate": "BEGIN { \udcff }",
    "an escape sequence": "BEGIN { \x1b[31m }",
    "writing from right to left": "BEGIN { x\u202e }",
    "quotes": "BEGIN { " + '"' * 10_001 + " }",
    "an array of terabytes": "uprobe:/bin/sh:main { $x = (uint8[99999999999999])arg0; }",
    "a string of terabytes": "BEGIN { let $x: string[99999999999]; }",
    "a width of terabytes": 'BEGIN { printf("%99999999999d", 1); }',
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_is_refused_under_its_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.process_time()
    status = main(["check", "-e", WRONG[name]])
    assert time.process_time() - start < 20  # some of them took minutes
    out, err = capsys.readouterr()
    assert (status in (1, 2), out) == (True, "")
    assert "error: " in err and "internal" not in err and "Traceback" not in err
    lines = err.splitlines()
    assert len(lines) <= 41 and max(map(len, lines)) < 1500
    assert all(char.isprintable() for line in lines for char in line)
