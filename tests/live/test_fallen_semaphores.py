"""A program that writes its own semaphore anew while it is traced keeps no breakpoint, however the trace ends.

The kernel would leave it for ever: it takes none out where the semaphore would fall below 0. So each test looks at the
bytes in the program's memory and at the kernel's log.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tracer, tracing, until
from tests.harness.kernel import KernelLog
from tests.live.breakpoints import texts_of
from tracer.resolve.binary import Binary

# What the kernel does not take out at once is mended by another try, and its log has the first.
pytestmark = [pytest.mark.live, pytest.mark.leaks("uprobe-undo")]

ENDS = (signal.SIGINT, signal.SIGKILL)


@pytest.fixture
def zeroes(place: Callable[[str], Path]) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    path = place("zeroes")
    with target(path) as process:
        assert read_line(process) == str(process.pid)
        yield path, process
        assert process.poll() is None


def asked(process: subprocess.Popen[bytes], number: int) -> int:
    process.send_signal(number)
    return int(read_line(process))


@contextmanager
def leaving_no_word_in_the_log(path: Path) -> Iterator[None]:
    """Fails where the kernel says that it left a breakpoint of this file, which is the test's alone."""
    log, inode = KernelLog(), path.stat().st_ino
    try:
        yield
        assert [line for line in log.leaks() if f"inode: {inode:#x} " in line] == []
    finally:
        log.close()


def await_altered(path: Path, pid: int, number: int) -> None:
    until(lambda: altered(path, pid) == [number])


def altered(path: Path, *pids: int) -> list[int]:
    return [text.altered() for text in texts_of(path, pids)]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: signal.Signals(end).name)
@pytest.mark.parametrize("whom", ["-p", "everybody"])
@pytest.mark.parametrize("write", [signal.SIGUSR1, signal.SIGWINCH], ids=["zero", "negative"])
def test_a_program_that_sets_its_semaphore_back_keeps_no_breakpoint(
    write: int, whom: str, end: int, backend: str, zeroes: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path,
    clean: None,
) -> None:  # fmt: skip
    path, process = zeroes
    options = ["-p", str(process.pid)] if whom == "-p" else []
    program = f"usdt:{path}:zeroes:tick {{ @ = count(); }}"
    with leaving_no_word_in_the_log(path):
        with tracing(tmp_path, "--backend", backend, *options, "-e", program) as trace:
            assert altered(path, process.pid) == [1]
            asked(process, write)
            trace.signal(end)
            trace.wait()
            until(lambda: altered(path, process.pid) == [0])
        assert "stays" not in trace.err


def test_a_fork_that_sets_it_back_keeps_none(
    backend: str, zeroes: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path, clean: None
) -> None:
    path, process = zeroes
    program = f"usdt:{path}:zeroes:tick {{ @ = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as trace:
        # With -p the kernel itself takes it out of the child at a hit, and fails at each, until the end.
        child = asked(process, signal.SIGHUP)
        try:
            assert altered(path, process.pid, child) == [1, 1]
            trace.stop()
            assert altered(path, process.pid, child) == [0, 0]
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_what_another_tracer_has_there_stays_and_is_not_told(
    backend: str, zeroes: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path, clean: None
) -> None:
    path, process = zeroes
    program = f"usdt:{path}:zeroes:tick {{ @ = count(); }}"
    for each in ("first", "second"):
        (tmp_path / each).mkdir()
    with tracing(tmp_path / "first", "--backend", backend, "-p", str(process.pid), "-e", program) as first:
        with tracing(tmp_path / "second", "--backend", backend, "-p", str(process.pid), "-e", program) as second:
            asked(process, signal.SIGUSR1)
            second.stop()
            assert "stays" not in second.err
        assert altered(path, process.pid) == [1]
        first.stop()
        assert altered(path, process.pid) == [0]


def test_nor_after_the_guard_has_detached_its_attach_point(
    backend: str, zeroes: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path, clean: None
) -> None:
    """At once, though the trace goes on."""
    path, process = zeroes
    program = f"usdt:{path}:zeroes:tick {{ @ = count(); }} interval:s:60 {{ @ = count(); }}"
    for number, options in enumerate(((), ("-p", str(process.pid)))):
        (tmp_path / str(number)).mkdir()
        options = "--backend", backend, "--max-rate", "120", *options
        with leaving_no_word_in_the_log(path), tracing(tmp_path / str(number), *options, "-e", program) as trace:
            assert altered(path, process.pid) == [1]
            asked(process, signal.SIGUSR1)
            assert "detached" not in trace.err
            trace.wait_for("detached")
            until(lambda: altered(path, process.pid) == [0])
            assert trace.process.poll() is None
            assert "stays" not in trace.stop().err


def test_nor_after_exit(
    backend: str, zeroes: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path, clean: None
) -> None:
    path, process = zeroes
    program = f"usdt:{path}:zeroes:tick {{ @ = count(); }} interval:ms:700 {{ exit(); }}"
    for options in ((), ("-p", str(process.pid))):
        with leaving_no_word_in_the_log(path):
            with tracing(tmp_path, "--backend", backend, *options, "-e", program) as trace:
                asked(process, signal.SIGUSR1)
                assert altered(path, process.pid) == [1]
                done = trace.wait()
            assert (done.status, altered(path, process.pid)) == (0, [0])
        assert "stays" not in done.err


def test_nor_does_the_fork_that_outlives_a_command(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    """The kernel's log may have what it tried before the end, at hits of the fork, which is not traced."""
    path, said = place("zeroes"), tmp_path / "child"
    done = tracer("--backend", backend, "-e", f"usdt:{path}:zeroes:tick {{ @ = count(); }}", "-c", f"{path} {said}")
    until(lambda: said.exists() and said.read_text().endswith("\n"))
    try:
        assert (done.status, done.text.endswith("@: 10\n"), "stays" in done.err) == (0, True, False)
        assert altered(path, int(said.read_text())) == [0]
    finally:
        os.kill(int(said.read_text()), signal.SIGKILL)


def test_nor_after_several_tracers_at_once(
    zeroes: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path, clean: None
) -> None:
    """Of both backends, of one process and of all, which end one after the other, the first of them killed."""
    path, process = zeroes
    program = f"usdt:{path}:zeroes:tick {{ @ = count(); }}"
    ways = [(each, options) for options in ((), ("-p", str(process.pid))) for each in ("bcc", "ftrace")]
    with leaving_no_word_in_the_log(path), ExitStack() as stack:
        traces = []
        for number, (each, options) in enumerate(ways):
            (tmp_path / str(number)).mkdir()
            command = "--backend", each, *options, "-e", program
            traces.append(stack.enter_context(tracing(tmp_path / str(number), *command)))
        for number, trace in enumerate(traces):
            asked(process, signal.SIGUSR1)
            trace.signal(ENDS[number < 2])
            assert "stays" not in trace.wait().err
            await_altered(path, process.pid, 0 if trace is traces[-1] else 1)


@pytest.mark.leaks("uprobe-undo")
def test_what_cannot_be_taken_out_is_told(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("zeroes")
    with target(path) as process:
        assert read_line(process) == str(process.pid)
        (note,) = Binary(str(path)).usdt  # its text lies at the same offset as in memory
        program = f"usdt:{path}:zeroes:tick {{ @ = count(); }}"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as trace:
            asked(process, signal.SIGUSR2)
            done = trace.stop()
        (text,) = texts_of(path, [process.pid])
        said = (
            f"tracer: the breakpoint at {path}:{note.address:#x} stays in process {process.pid} (zeroes), where hits go"
            " on costing a trap until it ends: its semaphore is below what the kernel takes off\n"
        )
        assert (text.altered(), said in done.err) in ((1, True), (0, False))
