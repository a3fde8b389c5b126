"""`--stacks` and `tracer flame` as far as nothing has to be traced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import environment, tracer


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-f", "json", "-e", "BEGIN { @[ustack] = count(); }"), "--stacks and -f json cannot be used together"),
        (("-e", "BEGIN { @ = count(); }"), "the program has no map of stacks"),
    ],
)
def test_is_refused_with_a_remedy(words: tuple[str, ...], said: str) -> None:
    done = tracer("--stacks", "folded", *words)
    assert done.status == 2 and done.printed == b""
    assert f"{said}; " in done.said


FOLDED = b"@a;main;tea 3\n@a;main 1\n@b;main;tea 5\n"


def test_folded_stacks_become_a_page_or_a_picture(tmp_path: Path) -> None:
    (tmp_path / "shop.folded").write_bytes(FOLDED)
    for name, begins in (("out.html", b"<!doctype html>"), ("out.svg", b"<svg "), ("out.txt", b"<!doctype html>")):
        done = tracer("flame", "shop.folded", "-o", name, cwd=tmp_path)
        assert (done.status, done.printed, done.said) == (0, b"", "")
        assert (tmp_path / name).read_bytes().startswith(begins)
    done = tracer("flame", stdin=FOLDED, cwd=tmp_path)
    assert (done.status, done.said) == (0, "") and b"<title>stdin</title>" in done.printed


def test_maps_are_chosen_and_compared(tmp_path: Path) -> None:
    done = tracer("flame", "--map", "@b", "--stacks", "folded", stdin=FOLDED)
    assert (done.status, done.printed) == (0, b"main;tea 5\n")
    done = tracer("flame", "--diff", "--unit", "cups", "--title", "two & more", stdin=FOLDED)
    assert done.status == 0
    assert b"@b against @a" in done.printed and b'"unit":"cups"' in done.printed
    assert b"<h1>two &amp; more</h1>" in done.printed
    (tmp_path / "one").write_bytes(b"main 1\n")
    (tmp_path / "two").write_bytes(b"@;main 2\n")
    (tmp_path / "three").write_bytes(b"@;main 3\n")
    assert b"two against one" not in tracer("flame", "--diff", "one", "two", cwd=tmp_path).printed
    done = tracer("flame", "--diff", "three", "two", "--stacks", "html", cwd=tmp_path)
    assert b"two @ against three @" in done.printed


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--diff",), 2, "--diff compares two maps of stacks, or two files; name them with --map; there is @a, @b, @c"),
        (("--map", "@x"), 2, "--map @x: no such map of stacks; there is @a, @b, @c"),
        (("-p", "1"), 2, "-p needs a program; give one with -e 'PROGRAM'"),
        (("--unsafe", "x"), 2, "--unsafe needs a program; give one with -e 'PROGRAM'"),
        (("-e", "BEGIN { }", "file"), 2, "a program and files cannot be used together; "),
        (("-e", "BEGIN { @ = count(); }"), 2, "the program has no map of stacks; "),
        (("no/such/file",), 1, "cannot read no/such/file: No such file or directory"),
        (("-o", "no/such/file"), 1, "cannot write no/such/file: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], status: int, said: str) -> None:
    done = tracer("flame", *words, stdin=FOLDED + b"@c;main 1\n")
    assert (done.status, done.printed) == (status, b"")
    assert said in done.said


def test_a_document_does_not_go_to_a_terminal() -> None:
    ours, its = os.openpty()
    words = ("-m", "tracer", "flame", "-e", "BEGIN { }")
    done = subprocess.run([sys.executable, *words], stdout=its, stderr=subprocess.PIPE, env=environment())
    os.close(its)
    os.close(ours)
    assert done.returncode == 2
    assert b"html is not for a terminal; -o FILE writes it to a file" in done.stderr
