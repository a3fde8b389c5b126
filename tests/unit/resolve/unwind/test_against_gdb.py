"""Stacks as gdb finds them, and as we do; `gdb_by_hand.py` beside takes more of more programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.unwind.stops import HERE, compared
from tracer.resolve.unwind.walker import ELSEWHERE, WHOLE

FRAMES = (HERE / "frames.cc").read_text()
PYTHON = "import json, re; json.dumps([re.compile(str(i)).pattern for i in range(9)])"
BASH = "f() { local a=$1; [[ $a < 5 ]] && f 7; x=$(echo $a); }; for i in 1 2 3; do f $i; done"
PERL = "sub f { my $n = shift; return $n ? f($n - 1).'x' : '' } print f(5); $x =~ s/(a|b)+/c/ for 1..9"
NODE = "function f(n) { return n ? f(n - 1) + JSON.stringify({n}) : '' } for (let i = 0; i < 200; i++) f(i % 9)"


@pytest.mark.parametrize("flags", [("-O3", "-fomit-frame-pointer"), ("-O3", "-static"), ("-O1", "-fno-plt")])
def test_exceptions_signals_threads_and_aligned_stacks(build: Build, tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = build(FRAMES, *flags, "-pthread", name="frames", language="c++")
    unwinder, stops, equal = compared(tmp_path, [str(program)], "mark", 100)
    # Four lie on a signal handler's own stack: what it interrupted is in another, of which there is no copy.
    assert (stops, unwinder.endings) == (equal + 4, {WHOLE: stops - 4, ELSEWHERE: 4})
    assert stops > 50


def test_without_tables_by_frame_pointers(build: Build, tmp_path: Path) -> None:
    program = build(FRAMES, "-O0", "-fno-asynchronous-unwind-tables", "-pthread", name="frames", language="c++")
    unwinder, stops, equal = compared(tmp_path, [str(program)], "mark", 100)
    assert (stops, unwinder.endings[ELSEWHERE]) == (equal + 4, 4)


@pytest.mark.parametrize(
    ("argv", "breaks", "pass_by"),
    [
        (["/usr/bin/python3", "-c", PYTHON], "malloc,memcpy,read", 500),
        (["bash", "-c", BASH], "malloc", 300),
        (["ls", "-lR", "/usr/lib/python3"], "malloc,strlen", 30),
        (["perl", "-e", PERL], "malloc", 300),
        (["node", "-e", NODE], "malloc", 3000),
        (["java", "-version"], "malloc", 3000),
    ],
    ids=["python", "bash", "ls", "perl", "node", "java"],
)
def test_programs_of_the_distribution(tmp_path: Path, argv: list[str], breaks: str, pass_by: int) -> None:
    unwinder, stops, equal = compared(tmp_path, argv, breaks, 150, pass_by)
    assert (equal, unwinder.endings) == (stops, {WHOLE: stops})
    assert stops > 10


def test_go_by_debug_frame(tmp_path: Path) -> None:
    source = tmp_path / "g.go"
    source.write_text((HERE / "frames.go").read_text())
    program = tmp_path / "g"
    environment = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "build", "-o", str(program), str(source)], check=True, env=environment, capture_output=True)
    unwinder, stops, equal = compared(tmp_path, [str(program)], "main.mark", 100)
    assert (equal, unwinder.endings) == (stops, {WHOLE: stops})
    assert stops == 100


def test_rust(tmp_path: Path) -> None:
    program = tmp_path / "r"
    subprocess.run(["rustc", "-O", str(HERE / "frames.rs"), "-o", str(program)], check=True, capture_output=True)
    unwinder, stops, equal = compared(tmp_path, [str(program)], "malloc,free", 100)
    assert (equal, unwinder.endings) == (stops, {WHOLE: stops})
    assert stops == 100
