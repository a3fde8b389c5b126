"""Instructions that Linux would not execute as they are under a probe are not probed, and the target goes right."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64")


def test_a_pattern_goes_without_them_and_says_so(backend: str, place: Callable[[str], Path]) -> None:
    program = place("misread")
    text = f"uprobe:{program}:step_* {{ @[func] = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} 500")
    assert done.text.split() == ["wrong", "0", "@[step_plain]:", "500"]
    first, caret = done.err.splitlines()
    assert first == text
    assert caret.startswith("^" * len(f"uprobe:{program}:step_*") + " warning: 2 of 3 functions left out: they cannot")


def test_one_that_is_named_is_refused(backend: str, place: Callable[[str], Path]) -> None:
    program = place("misread")
    done = tracer("--backend", backend, "-e", f"uprobe:{program}:step_swap {{ }}", "-c", f"{program} 5")
    assert (done.status, done.text) == (2, "")
    assert "begins with an instruction (49 90 c3" in done.err
    assert done.err.endswith("; probe another instruction of the function, or what calls it\n")


def test_all_functions_of_libc_can_be_counted_while_a_program_uses_them(backend: str, tmp_path: Path) -> None:
    # Of a copy, so that no other process on this machine is slowed down.
    libc = tmp_path / "libc.so.6"
    libc.write_bytes(Path("/lib/x86_64-linux-gnu/libc.so.6").read_bytes())
    code = "import json, sys; print(sys.argv, json.dumps([1, 'a', 0.5]), '-'.join('abc').split('-'))"
    command = f'env LD_LIBRARY_PATH={tmp_path} /usr/bin/python3.11 -I -c "{code}" a.b'
    done = tracer("-q", "--backend", backend, "-e", f"uprobe:{libc}:* {{ @ = count(); }}", "-c", command)
    assert done.text.splitlines()[0] == "['-c', 'a.b'] [1, \"a\", 0.5] ['a', 'b', 'c']"
    assert int(done.text.rpartition("@: ")[2]) > 1000
