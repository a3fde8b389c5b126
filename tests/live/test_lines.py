"""Probes at source lines: as many hits as the line was executed, whatever the compiler made of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.targets.build import HERE
from tracer.resolve.dwarf.lines.programs import LinePrograms
from tracer.resolve.elf.file import Elf

pytestmark = pytest.mark.live

ROUNDS = 3000
BUILDS = ("lines-O0", "lines-O2", "lines-nopie")
LINES = (HERE / "lines.c").read_text().splitlines()


def line(text: str) -> int:
    """The number of the one line that holds a text."""
    (number,) = (number for number, each in enumerate(LINES, 1) if text in each)
    return number


@pytest.mark.parametrize("name", BUILDS)
def test_lines_are_counted_exactly(backend: str, name: str, place: Callable[[str], Path], clean: None) -> None:
    program = place(name)
    text = (
        f"uprobe:{program}:lines.c:{line('inlined three times')} {{ @inlined[func] = count(); @p[probe] = count(); }}"
        f" uprobe:{program}@targets/lines.c:{line('every third')} {{ @third = count(); }}"
        f" uprobe:{program}:{HERE}/lines.c:{line('every order')} {{ @order = count(); }}"
        f" uprobe:{program}:lines.c:{line('the call')} /pid/ {{ @call = count(); }}"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    assert (done.status, done.err) == (0, "Attached 4 probes\n")
    thirds, refunds = ROUNDS // 3, ROUNDS // 5
    assert maps(done) == {
        "@inlined": {"order": ROUNDS + thirds, "refund": refunds},
        "@p": {f"uprobe:{program}:lines.c:{line('inlined three times')}": ROUNDS + thirds + refunds},
        "@third": thirds,
        "@order": ROUNDS,
        "@call": ROUNDS,
    }


@pytest.mark.parametrize("name", BUILDS)
def test_the_traced_program_answers_as_if_alone(backend: str, name: str, place: Callable[[str], Path]) -> None:
    """A breakpoint inside an instruction would show: every line is probed."""
    program = place(name)
    with Elf(str(program)) as elf:
        rows = [row for sequence in LinePrograms(elf).of_file("lines.c") for row in sequence]
    points = sorted({f"uprobe:{program}:lines.c:{row.line}:{row.column}" for row in rows if row.path and row.is_stmt})
    assert len(points) > 20
    text = f"{', '.join(points)} {{ @[probe] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    assert done.status == 0
    expected = sum(range(ROUNDS)) + sum(range(ROUNDS // 3)) - sum(range(0, ROUNDS, 5))
    assert str(expected) in done.text.split()


def test_registers_are_read_at_a_line(backend: str, place: Callable[[str], Path], clean: None) -> None:
    program = place("lines-O2")
    # gcc says that a function begins at the line of its brace.
    text = f"uprobe:{program}:lines.c:{line('long order') + 1} {{ @ = sum(arg0); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", f"{program} {ROUNDS}")
    assert maps(done) == {"@": sum(range(ROUNDS))}, done.err


@pytest.mark.parametrize(
    ("point", "name"),
    [
        ("usdt::depot:*", "depot"),
        (f"uprobe::lines.c:{line('every order')}", "lines-O2"),
        ("uprobe::order", "lines-O2"),
    ],
)
def test_with_a_command_the_path_may_be_left_out(
    backend: str, point: str, name: str, place: Callable[[str], Path], clean: None
) -> None:
    program = place(name)
    argument = ROUNDS if name.startswith("lines") else 50
    whole = point.replace("::", f":{program}:", 1)
    found = []
    for each in (f"{point} {{ @ = count(); }}", f"{whole} {{ @ = count(); }}"):
        found.append(maps(tracer("--backend", backend, "-f", "json", "-e", each, "-c", f"{program} {argument}")))
    assert found[0] == found[1]
    assert found[0]["@"] > 0
    if name.startswith("lines"):
        assert found[0] == {"@": ROUNDS}


def test_a_library_that_only_the_program_finds_is_searched(backend: str, tmp_path: Path, clean: None) -> None:
    compiler = shutil.which("gcc")
    assert compiler is not None
    (tmp_path / "lib").mkdir()
    (tmp_path / "tally.c").write_text("int tally(int x) { return x + 1; }\n")
    (tmp_path / "use.c").write_text(
        "int tally(int); int main(void) { int n = 0; while (n < 123) n = tally(n); return 0; }\n"
    )
    for command in (
        ["-shared", "-fPIC", "tally.c", "-o", "lib/libtally.so"],
        ["use.c", "-Llib", "-ltally", "-Wl,-rpath,$ORIGIN/lib", "-o", "use"],
    ):
        subprocess.run([compiler, "-O1", "-g", *command], check=True, cwd=tmp_path)
    for path in ("", "libtally", "libtally.so"):
        text = f"uprobe:{path}:tally {{ @ = count(); }}"
        done = tracer("--backend", backend, "-q", "-f", "json", "-e", text, "-c", str(tmp_path / "use"))
        assert maps(done) == {"@": 123}, done.err
