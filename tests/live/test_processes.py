"""Whom a trace is about: the program of -c, the process of -p, or every process of the file."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.harness.cli import PATIENCE, goes_on, read_line, target, tell, tracer, tracing, until
from tests.live.answers import maps
from tests.live.conftest import need
from tests.targets.build import build

pytestmark = pytest.mark.live


# --- -c --------------------------------------------------------------------------------------------------------------


def test_the_program_of_c_is_traced_from_its_first_instruction(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("forks")
    done = tracer("--backend", backend, "-e", f"uprobe:{path}:main {{ @ = count(); }}", "-c", f"{path} 0 0")
    assert (done.status, done.text, done.err) == (0, "@: 1\n", "Attached 1 probe\n")


def test_the_children_of_the_program_of_c_are_not_traced(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("forks")
    program = f"usdt:{path}:forks:hit {{ @[arg0] = count(); @same[pid == cpid] = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 3 100")
    assert (done.status, done.text) == (0, "@[0]: 100\n@same[true]: 100\n")


def test_all_threads_of_the_program_of_c_are_traced(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("threads")
    program = f"usdt:{path}:threads:hit {{ @[arg0] = count(); @t[tid] = count(); }} END {{ @n = len(@t); clear(@t); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 8 500")
    assert (done.status, done.text) == (0, "done\n" + "".join(f"@[{n}]: 500\n" for n in range(8)) + "@n: 8\n")


def test_other_processes_of_the_program_of_c_are_not_traced(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("ticker")
    with target(path, "20", "1"):
        done = tracer("--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}", "-c", f"{path} 0.5 10")
    assert (done.status, done.text) == (0, "50\n@: 50\n")


def test_the_status_of_the_program_of_c_is_said_and_ours_is_ours(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("ticker")
    done = tracer("--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}", "-c", f"{path} 0.1 10 3")
    assert (done.status, done.text) == (0, "10\n@: 10\n")
    assert done.err == f"Attached 1 probe\ntracer: {path} ended with status 3\n"


def test_a_signal_that_ended_the_program_of_c_is_said(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    with tracing(
        tmp_path, "--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}", "-c", f"{path} 20 10"
    ) as running:
        child = child_of(running.pid, path)
        goes_on(child.pid)  # some ticks, so that there is something to tell
        child.send_signal(signal.SIGKILL)
        done = running.wait()
    assert done.status == 0
    assert done.err == f"Attached 1 probe\ntracer: {path} was ended by SIGKILL\n"


def test_the_program_of_c_is_ended_when_tracing_ends_first(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("ticker")
    done = tracer(
        "--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); if (arg0 == 4) {{ exit(); }} }}",
        "-c", f"{path} 500 10",
    )  # fmt: skip
    assert (done.status, done.text, done.err) == (0, "@: 5\n", "Attached 1 probe\n")
    assert not [process for process in psutil.process_iter(["exe"]) if process.info["exe"] == str(path)]


def child_of(pid: int, path: Path) -> psutil.Process:
    """The tracer's child that runs `path`."""

    def found() -> list[psutil.Process]:
        running = []
        for child in psutil.Process(pid).children():
            with suppress(psutil.Error):
                running += [child] if child.exe() == str(path) else []
        return running

    until(found, what=lambda: f"{pid} has no child that runs {path}")
    return found()[0]


def test_a_program_of_c_that_does_not_exist(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("ticker")
    done = tracer("--backend", backend, "-e", f"uprobe:{path}:main {{ @ = count(); }}", "-c", "/no/such/program")
    assert (done.status, done.out) == (1, b"")
    assert done.err == "tracer: error: cannot run /no/such/program: no such program\n"


def test_a_program_of_c_that_the_kernel_cannot_run(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    script = tmp_path / "script"
    script.write_text("no first line\n")
    script.chmod(0o755)
    done = tracer("--backend", backend, "-e", f"uprobe:{path}:main {{ @ = count(); }}", "-c", str(script))
    assert (done.status, done.out) == (1, b"")
    assert done.err == (
        f"Attached 1 probe\ntracer: error: cannot run {script}: not a program this kernel can run;"
        " does a script lack its first line, #!/bin/sh?\n"
    )


def test_the_words_of_c_are_split_as_a_shell_splits_them(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("depot")
    odd = tmp_path / "a 'quoted' name"
    odd.mkdir()
    moved = odd / "depot"
    path.rename(moved)
    program = f'usdt:"{moved}":depot:plain {{ @ = count(); }}'
    done = tracer("--backend", backend, "-e", program, "-c", f'"{moved}" 3')
    assert (done.status, done.text) == (0, "@: 3\n"), done.err


# --- -p --------------------------------------------------------------------------------------------------------------


def test_p_traces_all_threads_and_later_ones_too(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("threads")
    with target(path, "6", "2000", "wait") as process:
        program = "usdt::threads:hit { @[arg0] = count(); } uprobe::work { @work = count(); }"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            tell(process)
            assert read_line(process) == "done"
            done = running.stop()
    assert (done.status, done.text) == (0, "".join(f"@[{n}]: 2000\n" for n in range(6)) + "@work: 12000\n")


def test_p_traces_threads_that_live_for_a_moment(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("churn")
    with target(path, "3000", "5", "wait") as process:
        program = f"usdt:{path}:churn:hit {{ @ = count(); @k[arg0 / 100] = sum(arg1); }}"
        with tracing(tmp_path, "--backend", backend, "-f", "json", "-p", str(process.pid), "-e", program) as running:
            tell(process)
            assert read_line(process) == "done"
            done = running.stop()
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert maps(done) == {"@": 15000, "@k": {str(k): 100 * sum(range(5)) for k in range(30)}}


def test_a_process_that_becomes_another_program_is_followed(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path, other = place("depot"), place("ticker")
    script = f"read line; {path} 5; exec {other} 0.05 10"
    with target("/bin/sh", "-c", script) as process:
        program = f"usdt:{path}:depot:plain {{ @child = count(); }} usdt:{other}:ticker:tick {{ @ = count(); }}"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            tell(process)
            done = running.wait()
    assert (done.status, done.text) == (0, "@: 5\n")


def test_p_traces_that_process_alone(backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None) -> None:
    path = place("threads")
    with target(path, "2", "1000", "wait") as process, target(path, "2", "7777", "wait") as other:
        program = f"usdt:{path}:threads:hit {{ @ = count(); @p[pid] = count(); }}"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            for each in (other, process):
                tell(each)
                assert read_line(each) == "done"
            done = running.stop()
    assert (done.status, done.text) == (0, f"@: 2000\n@p[{process.pid}]: 2000\n")


def test_p_does_not_trace_the_children_of_the_process(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("forks")
    # A shell that waits, so that its pid is known before `forks` replaces it.
    with target("/bin/sh", "-c", f"read line; exec {path} 3 100") as process:
        program = f"usdt:{path}:forks:hit {{ @[arg0] = count(); }}"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            tell(process)
            done = running.wait()
    assert (done.status, done.text) == (0, "@[0]: 100\n")


def test_p_ends_with_the_process(backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None) -> None:
    path = place("ticker")
    with target(path, f"{4 * PATIENCE}", "10") as process:
        program = "usdt::ticker:tick { @ = count(); }"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            assert read_line(process) == f"{400 * PATIENCE:.0f}"
            process.wait()
            done = running.wait()
    assert done.status == 0
    assert done.out.startswith(b"@: ")


def test_p_finds_a_library_in_what_the_process_has_mapped(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("threads")
    with target(path, "2", "10", "wait") as process:
        program = "uprobe:libc:pthread_create { @ = count(); } uprobe:libc.so.6:puts { @puts = count(); }"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            tell(process)
            assert read_line(process) == "done"
            done = running.stop()
    assert (done.status, done.text) == (0, "@: 2\n@puts: 1\n")


def test_p_of_a_thread_of_the_kernel_is_an_error() -> None:
    need(Path("/proc/2/comm").read_text() == "kthreadd\n", "the first pid namespace")
    done = tracer("-p", "2", "-e", "uprobe:libc:malloc { @ = count(); }")
    assert (done.status, done.out) == (1, b"")
    assert done.err == (
        "tracer: error: 2 is a thread of the kernel; only user programs have probes that can be traced\n"
    )


# --- everybody -------------------------------------------------------------------------------------------------------


def test_without_p_and_c_every_process_is_traced(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("forks")
    with target(path, "0", "0"):
        pass
    program = (
        f"usdt:{path}:forks:hit {{ @[arg0] = count(); @pids[pid] = count(); }} END {{ @n = len(@pids); clear(@pids); }}"
    )
    with tracing(tmp_path, "--backend", backend, "-e", program) as running:
        for _ in range(2):
            subprocess.run([path, "3", "100"], check=True)
        done = running.stop()
    assert (done.status, done.text) == (0, "".join(f"@[{n}]: 200\n" for n in range(4)) + "@n: 8\n")


def test_a_process_that_started_before_is_traced(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("threads")
    with (
        target(path, "2", "1000", "wait") as process,
        tracing(tmp_path, "--backend", backend, "-e", f"usdt:{path}:threads:hit {{ @ = count(); }}") as running,
    ):
        tell(process)
        assert read_line(process) == "done"
        done = running.stop()
    assert (done.status, done.text) == (0, "@: 2000\n")


def test_uid_is_that_of_the_process(tmp_path: Path, clean: None) -> None:
    path = build("forks")  # where everybody can run it
    program = f"usdt:{path}:forks:hit {{ @[uid, gid, username] = count(); }}"
    with tracing(tmp_path, "--backend", "bcc", "-e", program) as running:
        subprocess.run([path, "0", "5"], check=True, user=65534, group=65534, extra_groups=[])
        subprocess.run([path, "0", "7"], check=True)
        done = running.stop()
    assert (done.status, done.text) == (0, "@[65534, 65534, nobody]: 5\n@[0, 0, root]: 7\n")


@pytest.mark.parametrize("missing", ["", "inherit_thread"])
@pytest.mark.parametrize("whom", ["-p", "everybody"])
def test_pid_is_the_process_and_tid_the_thread(
    whom: str, missing: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("threads")
    with target(path, 4, 100, "wait") as process, target(path, 1, 100, "wait") as other:
        # As a key, in a predicate that is user space's alone, and behind one that is the kernel's.
        program = (
            f"usdt:{path}:threads:hit {{ @[pid] = count(); @t[tid] = count(); }}"
            f" usdt:{path}:threads:hit /pid == {process.pid}/ {{ @p = count(); }}"
            f" uprobe:{path}:work /arg1 < 50 && pid == {process.pid}/ {{ @w = count(); }}"
            f" uprobe:{path}:work /arg1 < 50 && tid == {process.pid}/ {{ @none = count(); }}"
        )
        only = ["-p", str(process.pid)] if whom == "-p" else []
        environment = {"TRACER_WITHOUT": missing}
        with tracing(tmp_path, "--backend", backend, "-f", "json", *only, "-e", program, env=environment) as running:
            for one in (process, other):
                tell(one)
                assert read_line(one) == "done"
            done = running.stop()
    found = maps(done)
    processes = {str(process.pid): 400} | ({} if only else {str(other.pid): 100})
    assert found["@"] == processes
    assert sorted(found["@t"].values()) == [100] * (4 if only else 5)
    assert not {str(process.pid), str(other.pid)} & set(found["@t"])
    assert (found["@p"], found["@w"], found.get("@none")) == (400, 200, None)
