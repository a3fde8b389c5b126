"""What counts of the program of -c: all from its exec on, and nothing of what our own child did before."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

Place = Callable[[str], Path]

TRUE = shutil.which("true") or "/bin/true"
OURS = str(Path(sys.executable).resolve())
CALLED_ONCE = ("__libc_start_main", "__cxa_atexit", "exit", "_exit", "execve", "read", "__close", "pthread_mutex_lock")
"""By `true`: the first four, and the last (gdb, and bpftrace 0.27.1). Our child called the others, and the last."""


def started(backend: str, program: str, command: str, *options: str) -> dict[str, object]:
    """The maps of a run with `-c`."""
    done = tracer("--backend", backend, "-f", "json", *options, "-e", program, "-c", command)
    assert done.status == 0, done.err
    return maps(done)


@pytest.mark.parametrize("options", [(), ("--follow",)], ids=str)
def test_nothing_before_the_exec_counts(backend: str, options: tuple[str, ...]) -> None:
    points = ", ".join(f"uprobe:libc:{name}" for name in CALLED_ONCE)
    found = started(backend, f"{points} {{ @[comm, probe] = count(); @whose[pid == cpid] = count(); }}", TRUE, *options)
    assert list(found["@whose"]) == ["true"]  # type: ignore[call-overload]
    keys = {key.partition(",") for key in found["@"]}  # type: ignore[attr-defined]
    assert {comm for comm, _, _ in keys} == {"true"}
    called = {probe.rpartition(":")[2] for *_, probe in keys}
    assert called & {"execve", "read", "__close"} == set()
    assert {"__cxa_atexit", "exit", "_exit"} <= called


def test_of_a_whole_library_both_backends_count_the_same_calls() -> None:
    """Each call of `true`, that of the dynamic loader into libc before main too."""
    answers = [started(backend, "uprobe:libc:* { @[comm, func] = count(); }", TRUE) for backend in ("bcc", "ftrace")]
    assert answers[0] == answers[1]
    assert {key.partition(",")[0] for key in answers[0]["@"]} == {"true"}  # type: ignore[attr-defined]
    assert "true,__libc_start_main_impl" in answers[0]["@"]  # type: ignore[operator]


def test_our_own_interpreter_does_not_count(backend: str) -> None:
    done = tracer("--backend", backend, "-e", f"uprobe:{OURS}:Py* {{ @ = count(); }}", "-c", TRUE)
    assert (done.status, done.out) == (0, b"")
    assert done.err.endswith("no probe was hit\n")


def test_but_that_of_the_command_does(backend: str) -> None:
    program = f"uprobe:{OURS}:Py_BytesMain, uprobe:{OURS}:Py_FinalizeEx {{ @[probe] = count(); }}"
    found = started(backend, program, f"{OURS} -I -S -c pass")
    assert found == {"@": {f"uprobe:{OURS}:Py_BytesMain": 1, f"uprobe:{OURS}:Py_FinalizeEx": 1}}


def test_a_set_user_id_program_counts_from_its_start(backend: str, place: Place) -> None:
    path = place("forks")
    path.chmod(0o4755)
    program = f"uprobe:{path}:main, uprobe:libc:exit, uprobe:libc:read {{ @[comm, func] = count(); }}"
    found = started(backend, program, f"{path} 0 0")
    assert found == {"@": {"forks,main": 1, "forks,exit": 1}}


def test_a_script_and_what_it_execs_count(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("depot")
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\nexec {path} 5\n")
    script.chmod(0o755)
    program = f"uprobe:libc:__libc_start_main {{ @[comm] = count(); }} usdt:{path}:depot:plain {{ @hits = count(); }}"
    assert started(backend, program, str(script)) == {"@": {"script": 1, "depot": 1}, "@hits": 5}
