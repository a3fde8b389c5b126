"""Who a process is when its main thread ends, and when another thread execs and takes its place."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import TRACER, environment, read_line, target, tell, tracer, tracing, until

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

Place = Callable[[str], Path]

STEPS = {"leader": 20, "thread": 20, "thread thread": 30, "gone": 30, "gone leader thread": 50, "vfork thread": 20}
"""What the process does one after the other, and its hits; those of what it forks are not its own."""

FOLLOWED = {"thread": 20, "thread thread": 30, "vfork thread": 40, "fork gone thread": 60, "thread fork thread": 50}


def counting(path: Path) -> str:
    return f"uprobe:{path}:work {{ @w = count(); }} usdt:{path}:execs:hit {{ @u = count(); }}"


@pytest.mark.parametrize("steps", STEPS)
def test_every_program_of_the_command_is_traced(backend: str, steps: str, place: Place) -> None:
    path = place("execs")
    done = tracer("--backend", backend, "-e", counting(path), "-c", f"{path} {steps}")
    assert (done.status, done.text, done.err) == (
        0, f"@u: {STEPS[steps]}\n@w: {STEPS[steps]}\n", "Attached 2 probes\n",
    )  # fmt: skip


@pytest.mark.parametrize("steps", FOLLOWED)
def test_every_program_of_what_descends_from_it_is_traced_once(backend: str, steps: str, place: Place) -> None:
    path = place("execs")
    done = tracer("--backend", backend, "--follow", "-e", counting(path), "-c", f"{path} {steps}")
    assert (done.status, done.text, done.err) == (
        0, f"@u: {FOLLOWED[steps]}\n@w: {FOLLOWED[steps]}\n", "Attached 2 probes\n",
    )  # fmt: skip


def test_what_is_loaded_after_the_main_thread_has_ended_is_traced(backend: str, place: Place) -> None:
    path, library = place("execs"), place("answer-1")
    program = f"uprobe:{library}:answer {{ @[pid == cpid, tid == pid] = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} load {library}")
    assert (done.status, done.text, done.err) == (0, "@[true, false]: 10\n", "Attached 1 probe\n")


def test_a_max_rate_takes_every_breakpoint_out_after_an_exec(backend: str, place: Place) -> None:
    path = place("execs")
    options = ("--backend", backend, "--max-rate", "1", "-q")
    done = tracer(*options, "-e", f"uprobe:{path}:work {{ @ = count(); }}", "-c", f"{path} gone gone gone")
    assert done.status == 0
    assert "hits in" in done.err and "--max-rate 1" in done.err


def bytes_at(pid: int, address: int, size: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        return os.pread(memory.fileno(), size, address)


def probes_are_set(process: subprocess.Popen[bytes], plain: bytes) -> Callable[[], bool]:
    """Of the program that has just said where its function is, whose code is `plain`, and its semaphore: whether the
    function's beginning and its USDT probe are breakpoints, and the semaphore is raised.
    """
    work, semaphore = map(int, read_line(process).split())

    def are_set() -> bool:
        code = bytes_at(process.pid, work, len(plain))
        return code[0] != plain[0] and code[1:] != plain[1:] and any(bytes_at(process.pid, semaphore, 2))

    return are_set


def test_a_running_process_is_traced_over_the_exec_of_a_thread(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("execs")
    steps = ("thread", "gone", "thread")
    with target(path, *steps, env={"EXECS_WAIT": "1"}) as process:
        work, _ = map(int, read_line(process).split())
        plain = bytes_at(process.pid, work, 64)
        with tracing(tmp_path, "--backend", backend, "-e", counting(path), "-p", str(process.pid)) as running:
            tell(process)
            for _ in steps:
                # On bcc the process is not stopped at the exec, for its parent would be told of that: it waits here
                # until its probes are set again.
                until(probes_are_set(process, plain))
                tell(process)
            done = running.wait()
    assert (done.status, done.text) == (0, "@u: 50\n@w: 50\n")
    said = "" if backend == "ftrace" else (
        f"tracer: a thread of process {process.pid} that was not its main one ran another program:"
        " what that did until its probes were set again was not seen\n"
    )  # fmt: skip
    assert done.err == f"Attached 2 probes\n{said}"


def test_where_the_kernel_has_no_such_links_it_is_said(place: Place) -> None:
    path = place("execs")
    options = ("--backend", "bcc", "-e", f"uprobe:{path}:work {{ @ = count(); }}", "-c")
    without = {"TRACER_WITHOUT": "uprobe_multi"}
    assert tracer(*options, f"{path} leader", env=without).err == "Attached 1 probe\n"
    done = tracer(*options, f"{path} thread", env=without)
    assert (done.status, done.text) == (0, "@: 10\n")
    pid = re.findall(r"process (\d+)", done.err)[0]
    assert done.err == (
        f"Attached 1 probe\ntracer: the main thread of process {pid} has ended, and what the process loaded afterwards"
        " could not be probed: the kernel has no links for that (Linux 6.6)\n"
    )


def test_a_process_is_traced_whose_main_thread_has_ended(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("execs")
    program = f"usdt::execs:hit {{ @u = count(); }} uprobe:{path}:work {{ @[ustack(3)] = count(); }}"
    with (
        target(path, "stay") as process,
        tracing(tmp_path, "--backend", backend, "-e", program, "-p", str(process.pid)) as running,
    ):
        assert read_line(process) == "ready"
        for _ in range(3):
            tell(process)
            assert read_line(process) == "done"
        done = running.stop()
    names = re.sub(r"\+\d+", "", done.text).split()
    assert names == ["@[", "work", "hits", "staying", "]:", "30", "@u:", "30"]
    assert (done.status, done.err) == (0, "Attached 2 probes\n")


def test_a_command_that_is_stopped_at_its_exec_goes_on_where_tracer_is_killed(place: Place) -> None:
    path = place("execs")
    command = [*TRACER, "--backend", "bcc", "-e", counting(path), "-c", f"{path} gone gone gone stay"]
    for _ in range(3):
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        ) as running:
            until(lambda: _children(running.pid, b"execs"))
            (child,) = _children(running.pid, b"execs")
            os.kill(running.pid, signal.SIGSTOP)  # so that nobody lets the command go on
            until(lambda: _state(child) == "T")  # noqa: B023
            os.kill(running.pid, signal.SIGKILL)
            until(lambda: _state(child) != "T")  # noqa: B023
            os.kill(child, signal.SIGKILL)


def _children(pid: int, name: bytes) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            fields = (each / "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[1]) == pid and (each / "comm").read_bytes().strip() == name:
                found.append(int(each.name))
        except OSError:
            continue
    return found


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
