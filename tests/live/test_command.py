"""What counts of the program of -c: all from its exec on, and nothing of what our own child did before."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tracer.cli.app import EXAMPLES

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

Place = Callable[[str], Path]

TRUE = shutil.which("true") or "/bin/true"
OURS = str(Path(sys.executable).resolve())
CALLED_ONCE = ("__libc_start_main", "__cxa_atexit", "exit", "_exit", "execve", "read", "__close", "pthread_mutex_lock")
"""By `true`: the first four, and the last (bpftrace 0.27.1). Our child called the others, and the last."""


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
    assert any(key.startswith("true,__libc_start_main") for key in answers[0]["@"])  # type: ignore[attr-defined]


def test_our_own_interpreter_does_not_count(backend: str) -> None:
    done = tracer("--backend", backend, "-e", f"uprobe:{OURS}:Py* {{ @ = count(); }}", "-c", TRUE)
    assert (done.status, done.out) == (0, b"")
    assert "\ntracer: no probe was hit" in done.err


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


def test_a_command_that_becomes_the_target_is_said_to_have_used_its_file(backend: str, place: Place) -> None:
    path = place("silent")
    done = tracer("--backend", backend, "-e", f"uprobe:{path}:unused {{ @ = count(); }}", "-c", f"env {path} 0.1")
    said = "no probe was hit: silent did not call it, and has ended"
    assert (done.status, done.err) == (0, f"Attached 1 probe\ntracer: {said}\n")


@pytest.mark.parametrize("by", ["script", "shell"])
def test_a_command_whose_child_is_the_target_suggests_to_follow(
    backend: str, place: Place, tmp_path: Path, by: str
) -> None:
    path, script = place("ticker"), tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{path} 0.1\n:\n")
    script.chmod(0o755)
    words = ("--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}")
    command, name = (str(script), "script") if by == "script" else (f"sh -c '{path} 0.1; :'", "sh")
    done = tracer(*words, "-c", command)
    hint = f"no probe was hit: {name} itself does not use {path}; --follow traces what it starts, too"
    assert (done.status, done.text, done.err) == (0, "10\n", f"Attached 1 probe\ntracer: {hint}\n")
    done = tracer(*words, "--follow", "-c", command)
    assert (done.status, done.text, done.err) == (0, "10\n@: 10\n", "Attached 1 probe\n")


def test_one_that_uses_the_file_and_passes_no_probe_is_not_told_to(backend: str, place: Place) -> None:
    path = place("ticker")
    words = ("--backend", backend, "-e", f"usdt:{path}:ticker:tick, uprobe:libc:fork {{ @ = count(); }}")
    done = tracer(*words, "-c", f"{path} 0")
    assert (done.status, done.text) == (0, "0\n")
    assert done.err.splitlines()[1:] == [
        f"tracer: usdt:{path}:ticker:tick was never hit: ticker did not run the code there, and has ended",
        "tracer: uprobe:libc:fork was never hit: ticker did not call it, and has ended",
    ]


@pytest.mark.parametrize(("compiler", "flags"), [("musl-gcc", ()), ("musl-gcc", ("-static",)), ("gcc", ("-static",))])
def test_a_program_with_another_c_library_is_told_which_it_has(
    backend: str, tmp_path: Path, compiler: str, flags: tuple[str, ...]
) -> None:
    source, path = tmp_path / "source.c", tmp_path / "says"
    source.write_text('#include <stdio.h>\nint main(void) { for (int i = 0; i < 11; i++) puts("x"); return 0; }\n')
    subprocess.run([compiler, "-O1", *flags, str(source), "-o", str(path)], check=True)
    point = "uprobe:{}:puts {{ @ = count(); }}"
    done = tracer("--backend", backend, "-e", point.format("libc"), "-c", str(path))
    found = re.fullmatch(r"tracer: no probe was hit: (says never loaded /\S+/libc.so.6: .*)", done.err.splitlines()[-1])
    assert found is not None
    if flags:
        own = str(path)
        assert found[1].endswith(f": it is linked statically, and uprobe:{own}:puts probes its own copy")
    else:
        own = os.path.realpath(next(Path("/lib").glob("ld-musl-*.so.1")))
        assert found[1].endswith(f": its C library is {own}, and uprobe:{own}:puts probes that")
    # As it says, and as without a path, where the library of another is not looked into.
    for named in own, "":
        done = tracer("--backend", backend, "-e", point.format(named), "-c", str(path))
        assert (done.text, done.err) == ("x\n" * 11 + "@: 11\n", "Attached 1 probe\n")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_help_run(example: str) -> None:
    sudo, name, *words = shlex.split(example)
    assert (sudo, name) == ("sudo", "tracer")
    done = tracer(*words)
    assert done.status == 0, done.err
    assert done.text.strip()
    assert "error" not in done.err
