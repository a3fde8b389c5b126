"""Memory whose pages never come: of a userfaultfd that nobody serves, and of a file system that does not answer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import Done, Running, read_line, target, tell, tracer, tracing, until
from tests.harness.silent_files import silent_file, unmount
from tracer.resolve.elf.file import Elf

pytestmark = [pytest.mark.live, pytest.mark.clock, pytest.mark.usefixtures("clean")]  # all removals wait for it

READS = "uprobe:{}:take {{ @[arg0, str(arg1)] = count(); }}"
LEFT_OUT = (
    "tracer: 5 hits left out: an argument or string could not be read there; its memory was not mapped,"
    " has to come from another process or machine, or holds no such value\n"
)


@pytest.fixture(params=["userfaultfd", "silent file"])
def words(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str | Path]]:
    """What the target is told: how many rounds, and which file."""
    if request.param == "userfaultfd":
        yield ["5"]
        return
    with silent_file(tmp_path) as file:
        yield ["5", file]


def _counted(done: Done) -> None:
    assert done.status == 0
    assert done.out == b"ready\ndone\n@[2, \x7fELF\x02\x01\x01]: 5\n@[3, warm]: 5\n"
    assert done.err == f"Attached 1 probe\n{LEFT_OUT}"


def test_bcc_leaves_such_hits_out_and_waits_for_other_pages(
    place: Callable[[str], Path], words: list[str | Path]
) -> None:
    program = place("unserved")
    started = time.monotonic()
    _counted(
        tracer("--backend", "bcc", "-e", READS.format(program), "-c", " ".join(map(str, [program, *words])), timeout=9)
    )
    assert time.monotonic() - started < 9


@pytest.mark.parametrize("read", ["*(uint64 *)arg1", "buf(arg1, 16)", "str(arg1, 8)", "strncmp(str(arg1), \"x\", 1)"])
def test_every_way_of_reading_on_bcc_leaves_them_out(place: Callable[[str], Path], read: str) -> None:
    program = place("unserved")
    text = f"uprobe:{program}:take /arg0 == 1/ {{ @ = count(); @x[arg0] = {read}; }}"
    done = tracer("--backend", "bcc", "-e", text, "-c", f"{program} 5", timeout=9)
    assert done.err == f"Attached 1 probe\n{LEFT_OUT}"
    assert done.out.startswith(b"ready\ndone\n")


WHAT = {
    "userfaultfd": "memory that a userfaultfd serves",
    "silent file": "a file of the file system fuse in its memory",
}


def test_ftrace_reads_nothing_in_a_process_that_has_such_memory(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    program, what = place("unserved"), WHAT[request.node.callspec.params["words"]]
    file = words[1] if len(words) > 1 else "-"
    with target(program, "5", file, "wait") as process:
        assert read_line(process) == "ready"
        text = READS.format(program)
        done = tracer("--backend", "ftrace", "-e", text, "-p", str(process.pid), timeout=8)
        assert done.status == 1
        assert done.err == (
            f"{text}\n{'^' * text.index(' ')} error: process {process.pid} (unserved) has {what}, whose pages another"
            " process or machine brings: a read there waits in the kernel, and may never end;"
            " --backend bcc reads without waiting for such pages; or read no memory, as count() does\n"
        )
        counts = f"uprobe:{program}:take {{ @[arg0] = count(); if (arg0 == 3) {{ @n++; if (@n == 5) {{ exit(); }} }} }}"
        with tracing(program.parent, "--backend", "ftrace", "-e", counts, "-p", str(process.pid)) as running:
            tell(process)
            assert read_line(process) == "done"
            assert running.wait().out == b"@[1]: 5\n@[2]: 5\n@[3]: 5\n@n: 5\n"


def test_ftrace_detaches_what_reads_when_such_memory_comes_during_the_trace(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    program, what = place("unserved"), WHAT[request.node.callspec.params["words"]]
    file = words[1] if len(words) > 1 else "-"
    with target(program, "later", "5", file, "wait") as process:
        text = READS.format(program)
        with tracing(program.parent, "--backend", "ftrace", "-e", text, "-p", str(process.pid)) as running:
            tell(process)
            assert read_line(process) == "ready"
            time.sleep(3)  # it is looked at every second
            tell(process)
            assert read_line(process, timeout=3) == "done"
            done = running.stop()
        assert (done.status, done.out) == (0, b"")
        assert (
            "the output is incomplete: what reads memory was detached, since process"
            f" {process.pid} (unserved) has {what} now, whose pages another process or machine brings: a read there"
            " waits in the kernel, and may never end; --backend bcc does not wait for them\n"
        ) in done.err


FREED = {
    "userfaultfd": (
        "a page that the owner of a userfaultfd has to supply, in handle_userfault: kill -9 {pid} frees it"
    ),
    "silent file": (
        "a page of a file whose FUSE file system does not answer, in request_wait_answer: kill -9 does not free it, the"
        " end of what serves {folder} does"
    ),
}


@contextmanager
def hanging(
    place: Callable[[str], Path], words: list[str | Path], which: str, *options: str
) -> Iterator[tuple[Running, Path, int, str]]:
    """A trace on ftrace, its program, a process that hangs in its probe, and how that is said."""
    program = place("unserved")
    with tracing(program.parent, "--backend", "ftrace", "-e", READS.format(program), *options) as running:
        running.wait_for("Attached")
        with target(program, *words) as process:
            assert read_line(process) == "ready"
            folder = Path(words[-1]).parent
            waits = FREED[which].format(pid=process.pid, folder=folder)
            held = f"process {process.pid} (unserved) is in a probe and waits for {waits}"
            try:
                yield running, program, process.pid, held
            finally:
                free(process.pid, words)


def free(pid: int, words: list[str | Path]) -> None:
    """Lets a process go on to its end that waits for a page."""
    os.kill(pid, signal.SIGKILL)
    if len(words) > 1:
        unmount(Path(words[1]).parent)


def test_a_thread_that_hangs_in_any_process_is_named_and_what_reads_is_detached(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    with hanging(place, words, request.node.callspec.params["words"]) as (running, program, pid, held):
        point = f"uprobe:{program}:take"
        running.wait_for("was detached")
        said = f"tracer: {point} was detached, so that no other thread comes to wait there: {held}"
        assert [line for line in running.err.splitlines() if line.startswith(said)] != []
        # Nobody else hangs in it, and another trace attaches, counts and prints.
        counts = f"uprobe:{program}:take {{ @[arg0] = count(); }}"
        with tracing(program.parent, "--backend", "bcc", "-e", counts) as other:
            other.wait_for("Attached")
            with target(program, "5") as process:
                assert (read_line(process), read_line(process, timeout=3)) == ("ready", "done")
            other.signal(signal.SIGINT)
            until(lambda: other.out == b"@[1]: 5\n@[2]: 5\n@[3]: 5\n")
            free(pid, words)
            other.wait()
        done = running.stop()
    assert done.out == b""
    assert (
        f"tracer: the output is incomplete: {point} was detached, since process {pid} waited there for a page that did"
        " not come; --backend bcc does not wait for such pages\n"
    ) in done.err
    assert "never hit" not in done.err and "no probe was hit" not in done.err


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGKILL])
def test_who_removes_probes_waits_with_no_lock_and_no_breakpoint(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest, ends: signal.Signals
) -> None:
    with hanging(place, words, request.node.callspec.params["words"]) as (running, program, pid, held):
        until(lambda: held.split(", in ")[1].split(":")[0] in Path(f"/proc/{pid}/stack").read_text())
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        undo = next(each for each in children if Path(f"/proc/{each}/comm").read_text() == "uprobe-undo\n")
        running.signal(ends)
        if ends == signal.SIGINT:
            running.wait_for(f"only once every probe that runs has ended: {held}")
        # Another program that removes probes meanwhile can hold the lock until the thread goes on.
        where = Path(f"/proc/{undo}/wchan")
        until(lambda: where.read_text() in ("hrtimer_nanosleep", "perf_trace_destroy"))
        if where.read_text() == "hrtimer_nanosleep":
            with target(program, "5") as process:
                assert (read_line(process), read_line(process, timeout=3)) == ("ready", "done")
        free(pid, words)
        until(lambda: not Path(f"/proc/{undo}").exists())
        assert str(program) not in Path("/sys/kernel/tracing/uprobe_events").read_text()


HOLDS_A_LOCK = """
import os, sys
from tracer.kernel import perf
file = os.open(sys.argv[1], os.O_RDONLY)
event = perf.uprobe_call(file, int(sys.argv[2]), pid=None).make()
print("opened", flush=True)
sys.stdin.readline()
os.close(event)
"""
"""Closes a probe as any program may: in the kernel, with the lock, it waits for all threads that are in one."""


def test_where_another_program_holds_the_lock_reads_end_all_the_same_and_who_waits_says_for_whom(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    depot = place("depot")
    lines = subprocess.run(["nm", depot], capture_output=True, text=True, check=True).stdout.splitlines()
    offset = Elf(str(depot)).offset_of(int(next(line for line in lines if line.endswith(" T main")).split()[0], 16))
    with (
        target(sys.executable, "-c", HOLDS_A_LOCK, depot, str(offset)) as holder,
        hanging(place, words, request.node.callspec.params["words"]) as (running, program, pid, held),
    ):
        assert read_line(holder) == "opened"
        until(lambda: "uprobe_notify_resume" in Path(f"/proc/{pid}/stack").read_text())
        tell(holder)
        until(lambda: "perf_" in Path(f"/proc/{holder.pid}/stack").read_text())
        running.wait_for("was detached")
        with target(program, "5") as process:
            assert (read_line(process), read_line(process, timeout=3)) == ("ready", "done")
        counts = f"uprobe:{depot}:main {{ @ = count(); }} interval:ms:1 {{ exit(); }}"
        said = f"tracer: another trace holds a lock of the kernel until every probe that runs has ended: {held}"
        with tracing(program.parent, "--backend", "ftrace", "-e", counts, ready=said) as other:
            free(pid, words)
            assert other.wait().status == 0
        running.stop()


def test_a_command_that_hangs_at_once_is_named_and_ends_with_the_trace(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    program = place("unserved")
    command = " ".join(map(str, [program, *words]))
    with tracing(program.parent, "--backend", "ftrace", "-e", READS.format(program), "-c", command) as running:
        running.wait_for(f"tracer: uprobe:{program}:take was detached, so that no other thread comes to wait there: ")
        (pid,) = set(re.findall(r"process (\d+) \(unserved\) is in a probe", running.err))
        running.signal(signal.SIGINT)
        if len(words) > 1:
            free(int(pid), words)
        done = running.wait(9)
    assert done.out == b"ready\n"
    assert "tracer: the output is incomplete: " in done.err and f" was detached, since process {pid} " in done.err


def test_what_a_followed_process_starts_is_looked_at_too(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    program, what = place("unserved"), WHAT[request.node.callspec.params["words"]]
    command = f"read line; {program} 5 {words[1] if len(words) > 1 else '-'} wait; exit 0"
    with target("sh", "-c", command) as shell:
        text = READS.format(program)
        follow = ("-p", str(shell.pid), "--follow")
        with tracing(program.parent, "--backend", "ftrace", "-e", text, *follow) as running:
            tell(shell)
            assert read_line(shell) == "ready"
            (pid,) = Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()
            time.sleep(2)  # it is looked at ten times a second
            tell(shell)
            assert read_line(shell, timeout=3) == "done"
            done = running.stop()
    assert f"what reads memory was detached, since process {pid} (unserved) has {what} now, whose pages" in done.err


def test_silence_is_explained_beside_such_memory(
    place: Callable[[str], Path], words: list[str | Path], backend: str
) -> None:
    program = place("unserved")
    with target(program, "5", words[1] if len(words) > 1 else "-", "wait") as process:
        assert read_line(process) == "ready"
        text = f"uprobe:{program}:take {{ @ = count(); }} interval:s:1 {{ exit(); }}"
        begun = time.monotonic()
        done = tracer("--backend", backend, "-e", text, "-p", str(process.pid), timeout=9)
        assert time.monotonic() - begun < 9
    assert (done.status, done.out) == (0, b"")
    why = f"process {process.pid} (unserved) has loaded {program}, but did not call it"
    assert done.err == f"Attached 2 probes\ntracer: no probe was hit: {why}\n"
