"""A fault of tracer's own, put in here: what was counted is printed before the fault, and -c's command goes on."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.cli import ROOT, read_line, target, tell, tracing
from tests.targets.build import build

pytestmark = pytest.mark.live

_FAULTY = """
import sys
from tracer.render.value_text import ValueText
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


def _free(pid: int) -> int:
    """The lowest descriptor that a process has not open."""
    time.sleep(0.002)
    held = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return min(set(range(max(held) + 2)) - held)


_BAR = f"|{'@' * 52}|"


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (
            "uprobe:{}:work {{ @ = lhist(arg0, 0, 100, 50); }}",
            f"@:\n[0, 50)               50 {_BAR}\n[50, 100)             50 {_BAR}\n\n",
        ),
        ("uprobe:{}:work {{ @[ustack(1)] = count(); }}", "]: 100\n"),
        ("usdt:{}:steady:hit {{ @ = count(); }}", "@: 100\n"),
    ],
)
def test_without_a_descriptor_from_the_attach_on_the_maps_are_printed(
    program: str, shown: str, backend: str, tmp_path: Path, clean: None
) -> None:
    path = build("steady")
    with target(path) as process:
        assert read_line(process) == "ready"
        options = ["--backend", backend, "-e", program.format(path), "-p", str(process.pid)]
        with tracing(tmp_path, *options) as run:
            lowest = min(_free(run.pid) for _ in range(20))  # one that is open for a moment would be free later
            resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (lowest, lowest))
            tell(process)
            assert read_line(process) == "answer 4661"
            time.sleep(0.5)
            done = run.stop()
    assert done.status == 0 and "error" not in done.err, done.err
    given_up = "tracer: no more looking for lost breakpoints, and why probes are silent: open of "
    unnamed = "tracer: addresses left without a name: open of "
    said = [line for line in done.err.splitlines() if line.endswith(": Too many open files")]
    assert said[0].startswith(given_up) and all(line.startswith(unnamed) for line in said[1:]), said
    assert done.out.startswith(b"@") and done.out.decode().endswith(shown), done.out
