"""The kernel removes probes only once no thread is in one: what is printed meanwhile, and who is said to hold it up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import Running, read_line, target, tracing, until
from tests.harness.kernel import uprobe_events
from tracer.kernel.workers.waiting import Patrol, holder

pytestmark = [pytest.mark.live, pytest.mark.clock, pytest.mark.usefixtures("clean")]  # all removals wait for it

STAYS_S = 5
"""After which the target's own alarm ends it: until then nothing on the machine can remove a probe."""

LEAVES = "Ctrl-C leaves that to a process in the background"


@contextmanager
def held_up(path: Path, folder: Path) -> Iterator[tuple[Running, subprocess.Popen[bytes]]]:
    """A trace, and a process that sleeps in its probe: ftrace reads strings in the kernel, of every process here."""
    program = f"uprobe:{path}:took {{ @[str(arg1)] = count(); }}"
    with tracing(folder, "--backend", "ftrace", "-e", program) as trace:
        trace.wait_for("Attached")
        with target(path, STAYS_S, 3) as process:
            assert read_line(process) == "ready"
            until(lambda: Path(f"/proc/{process.pid}/wchan").read_text() == "handle_userfault")
            yield trace, process


def test_results_print_at_once_and_a_line_names_the_process_that_holds_up_the_removal(
    place: Callable[[str], Path], tmp_path: Path
) -> None:
    with held_up(place("waits"), tmp_path) as (trace, process):
        held = f"process {process.pid} (waits) is in a probe and waits for a page that the owner of a userfaultfd"
        held = f"{held} has to supply, in handle_userfault: kill -9 {process.pid} frees it"
        assert holder() == held
        os.kill(trace.pid, signal.SIGINT)
        until(lambda: trace.out == b"@[text]: 3\n")
        until(lambda: "only once" in trace.err)
        assert process.poll() is None
        assert trace.process.poll() is None
        process.kill()
        begun = time.monotonic()
        done = trace.wait()
    assert time.monotonic() - begun < STAYS_S
    assert (done.status, done.text) == (0, "@[text]: 3\n")
    only = "the kernel removes probes only once every probe that runs has ended"
    assert f"tracer: {only}: {held}; {LEAVES}\n" in done.err


def test_ctrl_c_then_leaves_the_removal_to_the_process_in_the_background(
    place: Callable[[str], Path], tmp_path: Path
) -> None:
    path = place("waits")
    with held_up(path, tmp_path) as (trace, process):
        os.kill(trace.pid, signal.SIGINT)
        trace.wait_for(LEAVES)
        os.kill(trace.pid, signal.SIGINT)
        done = trace.wait(2)
        assert process.poll() is None
        process.kill()
    assert (done.status, done.text) == (1, "@[text]: 3\n")
    until(lambda: not any(str(path) in line for line in uprobe_events()))


def test_a_thread_that_hangs_in_a_call_in_place_of_a_trap_is_named_too(
    place: Callable[[str], Path], tmp_path: Path
) -> None:
    path = place("waits")
    with tracing(tmp_path, "--backend", "ftrace", "-e", f"uprobe:{path}:nop5 {{ @[str(arg1)] = count(); }}") as trace:
        with target(path, STAYS_S, 300) as process:
            assert read_line(process) == "ready"
            trace.wait_for(f"uprobe:{path}:nop5 was detached, so that no other thread comes to wait there: process")
            stack = Path(f"/proc/{process.pid}/stack").read_text()
            assert "handle_userfault" in stack and ("uprobe_notify_resume" in stack or "handle_syscall_uprobe" in stack)
            process.kill()
        done = trace.stop()
    assert done.text == "@[text]: 300\n"


def test_a_look_at_many_threads_is_short_and_each_sleep_is_told_once(
    place: Callable[[str], Path], tmp_path: Path
) -> None:
    with held_up(place("waits"), tmp_path) as (_, process):
        patrol, told, longest = Patrol(), [], 0.0
        end = time.monotonic() + 3
        while time.monotonic() < end:
            begun = time.thread_time()
            held = patrol.look()
            longest = max(longest, time.thread_time() - begun)
            told += [held] if held is not None and held.pid == process.pid else []
            time.sleep(0.1)
        process.kill()
    assert [(each.pid, each.thread) for each in told] == [(process.pid, process.pid)]
    assert longest < 0.1


def test_nobody_holds_it_up_where_no_thread_is_in_a_probe(place: Callable[[str], Path]) -> None:
    with target(place("waits"), STAYS_S) as process:
        assert read_line(process) == "ready"
        time.sleep(0.1)
        assert f"process {process.pid} " not in (holder() or "")
