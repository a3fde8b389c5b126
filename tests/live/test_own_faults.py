"""A fault of tracer's own, put in here: what was counted is printed before the fault, and -c's command goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import ROOT
from tests.targets.build import build

pytestmark = pytest.mark.live

_FAULTY = """
import sys
from tracer.render.values import ValueText
def fail(self, symbol):
    raise AttributeError("put in")
ValueText._symbol = fail
from tracer.cli.app import main
sys.exit(main())
"""
_SAID = "tracer: error: internal error: AttributeError: put in; please report it, with what -v adds\n"


def faulty(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _FAULTY, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_map_that_cannot_be_shown_does_not_keep_the_others_back(backend: str, format: str, clean: None) -> None:
    path = build("pairs")
    program = f'uprobe:{path}:inner {{ @a = count(); @b[usym(reg("ip"))] = count(); @c = sum(5); }}'
    shown = {
        "text": "\n\n@a: 1\n@c: 5\n",
        "json": '{"type": "map", "data": {"@a": 1}}\n{"type": "map", "data": {"@c": 5}}\n',
    }
    status, out, err = faulty("-q", "--backend", backend, "-f", format, "-e", program, "-c", str(path))
    assert (status, out, err) == (1, shown[format], _SAID)


def test_maps_come_before_the_fault_and_the_command_goes_on(backend: str, clean: None, tmp_path: Path) -> None:
    path, mark = build("pairs"), tmp_path / "mark"
    program = (
        f'uprobe:{path}:inner {{ @hits = count(); print(usym(reg("ip"))); printf("not reached\\n"); }}'
        ' END { printf("nor is this\\n"); }'
    )
    command = f"sh -c '{path}; sleep 0.7; echo whole > {mark}'"
    status, out, err = faulty("-q", "--backend", backend, "--follow", "-e", program, "-c", command)
    assert (status, out, err, mark.read_text()) == (1, "\n\n@hits: 1\n", _SAID, "whole\n")


def test_where_proc_is_not_mounted_a_file_that_is_there_is_not_said_to_be_missing(backend: str, clean: None) -> None:
    path = build("pairs")
    command = [sys.executable, "-m", "tracer", "--backend", backend, "-e", f"uprobe:{path}:inner {{ @ = count(); }}"]
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", *command]
    done = subprocess.run(hidden, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {path}: cannot be read: /proc is not mounted\n" in done.stderr


def test_a_ring_that_there_is_no_memory_for_is_said_with_the_call(clean: None) -> None:
    path = build("pairs")
    limited = ["prlimit", f"--as={64 << 20}", "--", sys.executable, "-m", "tracer", "--backend", "ftrace"]
    program = f"uprobe:{path}:inner {{ @[ustack] = count(); }}"
    done = subprocess.run(
        [*limited, "-e", program, "-c", str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    said = (
        "tracer: error: the kernel refused to read a probe (mmap of a perf ring): Cannot allocate memory;"
        " ulimit -v or the control group's limit may be the reason\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
