"""`import`: what files define, in which order, and where their faults stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lang.programs import sites_of
from tracer.cli.errors import error_text
from tracer.errors import ProgramError, Source
from tracer.lang.analyse import analyse
from tracer.lang.printing.typed import print_typed
from tracer.lang.syntax.parser import parse

FILES: dict[str, str | bytes] = {
    "one.bt": "macro one(x) { x + 1 }",
    "deep/two.bt": 'import "three.bt"; macro two(x) { three(x) + 2 }',
    "deep/three.bt": "#!/usr/bin/env tracer\n#define THREE 3\nmacro three(x) { x + THREE }",
    "types.bt": "struct pair { int a; int b; };",
    "clauses.bt": 'BEGIN { print("first"); } END { print("last"); }',
    "circle.bt": 'import "circle.bt"; import "back.bt"; macro round() { 7 }',
    "back.bt": 'import "circle.bt"; macro back() { round }',
    "config.bt": "config = { max_map_keys = 5 }",
    "wrong.bt": "\nBEGIN { $x = 1;\n  $x = comm; }",
    "open.bt": "macro open(x) { x + ",
    "header.h": "struct head { int a; };",
    "native.bpf.c": "int f() { return 1; }",
    "bytes.bt": b"\xff\xfe",
    "folder/a.bt": "macro a() { b }",
    "folder/b.bt": 'import "a.bt"; macro b() { 5 }',
    "folder/notes.txt": "no program",
}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(text: str) -> str:
    tree = parse(Source(text))
    return print_typed(analyse(tree, sites_of(tree)))


def faults(text: str) -> str:
    with pytest.raises(ProgramError) as caught:
        typed(text)
    return error_text(caught.value, width=200)


@pytest.mark.parametrize(
    ("imported", "plain"),
    [
        ('import "one.bt"; BEGIN { print(one(4)); }', "BEGIN { print(5); }"),
        ('import "deep/two.bt"; BEGIN { print(two(1)); print(THREE); }', "BEGIN { print(6); print(3); }"),
        ('import "deep/two.bt"; import "deep/three.bt"; BEGIN { print(three(1)); }', "BEGIN { print(4); }"),
        ('import "types.bt"; BEGIN { print(sizeof(struct pair)); }', "BEGIN { print((uint64)8); }"),
        ('import "folder"; BEGIN { print(a); }', "BEGIN { print(5); }"),
        ('import "circle.bt"; BEGIN { print((round, back)); }', "BEGIN { print((7, 7)); }"),
        ('import "stdlib"; import "stdlib/strings"; BEGIN { print(ncpus); }', "BEGIN { print(ncpus); }"),
        ('import "stdlib/test"; BEGIN { print(__always_true()); }', "BEGIN { print(1); }"),
        (
            'import "clauses.bt"; BEGIN { print("second"); } END { print("then"); }',
            'BEGIN { print("first"); } END { print("last"); } BEGIN { print("second"); } END { print("then"); }',
        ),
        (
            'import "clauses.bt"; config = { max_strlen = 50 } END { }',
            'config = { max_strlen = 50 } BEGIN { print("first"); } END { print("last"); } END { }',
        ),
    ],
)
def test_what_is_imported_is_as_if_it_stood_there(imported: str, plain: str) -> None:
    assert typed(imported) == typed(plain)


def test_links_in_a_circle_are_a_fault_of_the_import(files: Path) -> None:
    (files / "folder" / "loop.bt").symlink_to("loop.bt")
    assert "loop.bt: Too many levels of symbolic links" in faults('import "folder"; BEGIN { }')


def test_a_path_is_meant_from_the_importing_file(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    main = files / "deep" / "main.bt"
    tree = parse(Source('import "two.bt"; BEGIN { print(two(0)); }', str(main)))
    assert print_typed(analyse(tree, {})) == typed("BEGIN { print(5); }")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('import "no.bt"; BEGIN { }', "there is no file 'no.bt' to import"),
        ('import ""; BEGIN { }', "there is no file '' to import"),
        ('import "stdlib/kernel"; BEGIN { }', "there is no file 'stdlib/kernel' to import"),
        ('import "' + "x" * 300 + '"; BEGIN { }', "File name too long"),
        ('import "header.h"; BEGIN { }', '#include "…" reads a header'),
        ('import "native.bpf.c"; BEGIN { }', "a program cannot call functions of C"),
        ('import "folder/notes.txt"; BEGIN { }', "its name does not end in .bt"),
        ('import "bytes.bt"; BEGIN { }', "bytes.bt is not UTF-8"),
        ("import one; BEGIN { }", "expected a file to import, found 'one'"),
        ('import "one.bt" BEGIN { }', "expected ';' after the file to import"),
        ('BEGIN { } import "one.bt";', "an import stands before the first clause, "),
        ('macro m() { 1 } import "one.bt"; BEGIN { }', "an import stands before the first clause, "),
        ('import "config.bt"; BEGIN { }', "config.bt:1:1"),
        ('import "one.bt"; macro one(y) { y } BEGIN { one(1); }', "the macro one() is defined twice"),
    ],
)
def test_what_cannot_be_imported_says_why(text: str, said: str) -> None:
    assert said in faults(text)


def test_a_fault_stands_in_its_own_file() -> None:
    assert faults('import "one.bt"; import "wrong.bt"; BEGIN { }') == (
        "wrong.bt:3:8\n"
        "  $x = comm; }\n"
        "       ^^^^ error: $x is assigned a string here, but an int64 at 2:9; "
        "str(addr) reads the string at an address\n"
    )
    assert faults('import "open.bt"; BEGIN { }').startswith("open.bt:1:21\n")
    both = faults('import "wrong.bt"; BEGIN { $y; }')
    assert "^^ error: $y is used before it is assigned" in both
    assert "wrong.bt:3:8\n" in both


