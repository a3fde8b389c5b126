"""`scripts/tracer` on a machine where nothing of tracer is installed yet. Needs the network that pip needs."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, ROOT
from tracer import __version__

LEAVE_OUT = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", "tests", ".hypothesis")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project under a path with a blank and a quote, set up by two calls at once from elsewhere."""
    root = tmp_path_factory.mktemp("it's a clone") / "tracer project"
    shutil.copytree(ROOT, root, ignore=LEAVE_OUT)
    command = [str(root / "scripts" / "tracer"), "--version"]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(command, cwd="/", stdout=pipe, stderr=pipe) for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=300 * PATIENCE)
        assert (process.returncode, out) == (0, f"tracer {__version__}\n".encode()), err.decode()
    return root


def test_the_second_time_it_says_nothing_and_goes_on(fresh: Path) -> None:
    done = subprocess.run([fresh / "scripts" / "tracer", "--version"], cwd="/", capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tracer {__version__}\n", "")


def cpu_of_children() -> float:
    """Seconds of those that have ended: when they get the CPU is a matter of what runs beside them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_second_time_it_adds_less_than_30_ms(fresh: Path) -> None:
    script = [str(fresh / "scripts" / "tracer"), "--version"]
    direct = [str(fresh / ".venv" / "bin" / "python"), "-I", "-m", "tracer", "--version"]
    added = []
    for _ in range(9):
        times = []
        for command in (script, direct):
            begun = cpu_of_children()
            subprocess.run(command, check=True, capture_output=True)
            times.append(cpu_of_children() - begun)
        added.append(times[0] - times[1])
    assert statistics.median(added) < 0.030


def test_a_link_to_it_works_from_anywhere(fresh: Path, tmp_path: Path) -> None:
    link = tmp_path / "tracer"
    link.symlink_to(fresh / "scripts" / "tracer")
    for command, cwd in (([str(link), "--version"], "/"), (["./tracer", "--version"], str(tmp_path))):
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"tracer {__version__}\n"), done.stderr


def test_the_callers_directory_and_environment_choose_no_module(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('imported from the working directory')")
    done = subprocess.run(
        [fresh / "scripts" / "tracer", "run", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_it_traces_with_the_installed_c(fresh: Path) -> None:
    program = "uprobe:libc:malloc { @ = count(); }"
    command = [str(fresh / "scripts" / "tracer"), "-q", "--backend", "bcc", "-e", program, "-c", "/bin/ls /"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n@: " in done.stdout


def test_where_something_is_missing_and_we_are_not_root_it_says_the_command(tmp_path: Path) -> None:
    """In a root of its own where apt-get is there and the BCC binding is not."""
    root = tmp_path / "clone"
    shutil.copytree(ROOT, root, ignore=LEAVE_OUT)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("id", "apt-get"):
        (tools / name).write_text("#!/bin/sh\necho 1000\n")
        (tools / name).chmod(0o755)
    # An interpreter that knows no bcc stands for a machine without it.
    without = "".join(f"{line}\n" for line in (root / "scripts" / "set-up.sh").read_text().splitlines())
    (root / "scripts" / "set-up.sh").write_text(without.replace("import bcc; bcc.BPF", "import no_such_binding"))
    done = subprocess.run(
        [root / "scripts" / "tracer", "--version"],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "set-up: missing: bcc; install with: sudo apt-get install python3-bpfcc (or start this script with sudo once)\n"
    )
    assert not (root / ".venv").exists()


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("dnf", "sudo dnf install python3-bcc"),
        ("zypper", "sudo zypper install python3-bcc"),
        ("apk", "sudo apk add bcc-tools py3-bcc"),
    ],
)
def test_where_there_is_no_apt_get_it_prints_the_command_of_that_system(
    tmp_path: Path, manager: str, command: str
) -> None:
    root = tmp_path / "clone"
    shutil.copytree(ROOT, root, ignore=LEAVE_OUT)
    script = (root / "scripts" / "set-up.sh").read_text()
    (root / "scripts" / "set-up.sh").write_text(script.replace("import bcc; bcc.BPF", "import no_such_binding"))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "readlink", "id", "flock"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / manager).write_text("#!/bin/sh\nexit 9\n")
    (tools / manager).chmod(0o755)
    done = subprocess.run(
        [root / "scripts" / "tracer", "--version"], env={"PATH": str(tools)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"set-up: missing: bcc; install with: {command}\n"
