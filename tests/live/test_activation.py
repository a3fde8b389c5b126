"""`--usdt-file-activation` where the kernel does not count semaphores: the tracer raises them, and lowers them again.

The kernel here can; it is told not to (TRACER_WITHOUT=ref_ctr).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.harness.cli import Done, Running, goes_on, read_line, target, tracer, tracing, until
from tests.targets.build import build
from tests.targets.symbols import symbol_addresses
from tracer.backends.activation import Process, semaphores
from tracer.errors import Source
from tracer.kernel.workers.semaphores import Counting
from tracer.pipeline import plan

pytestmark = pytest.mark.live

WITHOUT = {"TRACER_WITHOUT": "ref_ctr"}
FLAG = "--usdt-file-activation"
REASON = "the kernel does not count semaphores (ref_ctr, Linux 4.20)"


class Gated:
    """A running program with a semaphore, and its forks."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self.process = process
        self.pid = process.pid
        self.address = symbol_addresses(build(name))["gated_tick_semaphore"]
        self.pie = "nopie" not in name
        self.forked: list[int] = []
        read_line(process)

    def value(self, pid: int | None = None) -> int:
        """The semaphore in the process's memory."""
        pid = pid or self.pid
        first = Path(f"/proc/{pid}/maps").read_text().partition("-")[0]
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(self.address + (int(first, 16) if self.pie else 0))
            return int.from_bytes(memory.read(2), "little")

    def write(self, value: int) -> None:
        first = Path(f"/proc/{self.pid}/maps").read_text().partition("-")[0]
        with open(f"/proc/{self.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(self.address + (int(first, 16) if self.pie else 0))
            memory.write(value.to_bytes(2, "little"))

    def fork(self) -> int:
        self.process.send_signal(signal.SIGUSR1)
        child = int(read_line(self.process))
        self.forked.append(child)
        return child

    def exec(self) -> None:
        self.process.send_signal(signal.SIGUSR2)
        assert int(read_line(self.process)) == self.pid

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def gated(path: Path, name: str = "gated") -> Iterator[Gated]:
    with target(path, "2") as process:
        running = Gated(process, name)
        try:
            yield running
        finally:
            for child in running.forked:
                os.kill(child, signal.SIGKILL)


@contextmanager
def activated(tmp_path: Path, backend: str, path: Path, *options: object, body: str = "") -> Iterator[Running]:
    program = f"usdt:{path}:gated:tick {{ @[arg0] = count(); }} {body}"
    words = ["--backend", backend, FLAG, *map(str, options), "-e", program]
    with tracing(tmp_path, *words, env=WITHOUT) as running:
        yield running


def counters(running: Running) -> list[psutil.Process]:
    """The processes that count for it."""
    found = []
    for child in psutil.Process(running.pid).children():
        with suppress(psutil.NoSuchProcess):  # others come and go at the start
            found += [child] if any("semaphore_process.py" in word for word in child.cmdline()) else []
    return found


def counts(done: Done) -> dict[int, int]:
    """The hits of each process."""
    rows = [line.partition(": ") for line in done.text.splitlines() if line]
    return {int(key.strip("@[]")): int(count) for key, _, count in rows}


@pytest.mark.parametrize(
    ("name", "whom", "number"),
    [
        ("gated", "-p", signal.SIGINT),
        ("gated", "everybody", signal.SIGTERM),
        ("gated", "everybody", signal.SIGKILL),
        ("gated-nopie", "-p", signal.SIGKILL),
        ("gated-nopie", "everybody", signal.SIGINT),
    ],
)
def test_a_semaphore_is_1_while_traced_and_0_after_a_signal(
    name: str, whom: str, number: int, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place(name)
    with gated(path, name) as one, gated(path, name) as other:
        options = ["-p", one.pid] if whom == "-p" else []
        with activated(tmp_path, backend, path, *options) as running:
            assert (one.value(), other.value()) == ((1, 0) if whom == "-p" else (1, 1))
            said = f"process {one.pid}" if whom == "-p" else "2 processes"
            assert running.err == (
                f"tracer: semaphores raised in {said}; processes started later are not seen\nAttached 1 probe\n"
            )
            goes_on(one.pid, other.pid)  # for some hits
            running.signal(number)
            done = running.wait()
            if number == signal.SIGKILL:
                until(lambda: (one.value(), other.value()) == (0, 0))
            assert (one.value(), other.value()) == (0, 0)
        if number != signal.SIGKILL:
            assert set(counts(done)) == ({one.pid} if whom == "-p" else {one.pid, other.pid})


def test_every_hit_counts_from_the_first_to_the_end_of_the_process(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @n = count(); @first = min(arg0); @last = max(arg0); }}"
    with target(path, "6", "20") as process:
        done = tracer("--backend", backend, FLAG, "-p", str(process.pid), "-e", program, env=WITHOUT)
    assert done.status == 0, done.err
    found = {name: int(value) for name, _, value in (line.partition(": ") for line in done.text.splitlines() if line)}
    assert found["@last"] == 299
    assert found["@n"] == 300 - found["@first"]


def test_many_probes_and_clauses_raise_a_semaphore_once(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with gated(path) as one, activated(tmp_path, backend, path, body=f"usdt:{path}:* {{ @all = count(); }}") as running:
        assert one.value() == 1
        running.stop()
        assert one.value() == 0


def test_an_end_before_attaching_and_an_error_in_it_leave_a_semaphore_as_it_was(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("gated")
    program = f"usdt:{path}:gated:tick {{ @ = count(); }}"
    with gated(path) as one:
        done = tracer("--backend", backend, FLAG, "-e", f"{program} BEGIN {{ exit(3); }}", env=WITHOUT)
        assert (done.status, one.value()) == (3, 0)
        # Nobody can take the lock there.
        read_only = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none /run; exec "$@"', "sh")
        done = tracer("--backend", backend, FLAG, "-e", program, env=WITHOUT, prefix=read_only)
        assert (done.status, one.value()) == (1, 0)
        if backend == "bcc":
            assert done.err == (
                "tracer: error: semaphores cannot be raised: /run/tracer: Read-only file system; "
                "tracers take turns with a lock there\n"
            )


def test_ctrl_c_ends_the_wait_for_another_tracer(place: Callable[[str], Path], tmp_path: Path, clean: None) -> None:
    path = place("gated")
    taken = "while flock -n /run/tracer true; do sleep 0.02; done"
    held = f'mount -t tmpfs none /run; mkdir /run/tracer; flock /run/tracer sleep 100 & {taken}; exec "$@"'
    words = ("--backend", "ftrace", FLAG, "-e", f"usdt:{path}:gated:tick {{ @ = count(); }}")
    prefix = ("unshare", "-m", "sh", "-c", held, "sh")
    with gated(path) as one, tracing(tmp_path, *words, env=WITHOUT, prefix=prefix, ready=None) as running:
        until(lambda: counters(running))
        done = running.stop()
        assert (done.status, done.err, one.value()) == (
            1,
            "tracer: error: the process that counts semaphores has ended, or does not answer; run the command again\n",
            0,
        )


def test_semaphores_are_raised_beside_more_than_a_thousand_descriptors(place: Callable[[str], Path]) -> None:
    many = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for number in range(3, 1100):
    os.dup2(0, number)
os.execvp(sys.argv[1], sys.argv[1:])
"""
    path = place("gated")
    words = ("--backend", "ftrace", FLAG, "-e", f"usdt:{path}:gated:tick {{ exit(); }}")
    with gated(path) as one:
        done = tracer(*words, env=WITHOUT, prefix=(sys.executable, "-c", many))
        assert (done.status, one.value()) == (0, 0), done.err


def test_two_tracers_share_a_semaphore(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with gated(path) as one, ExitStack() as stack:
        tracers = [stack.enter_context(activated(tmp_path, backend, path)) for _ in range(2)]
        assert one.value() == 2
        tracers[0].process.kill()
        until(lambda: one.value() == 1, what=lambda: str(one.value()))
        tracers[1].stop()
        assert one.value() == 0


def test_tracers_that_come_and_go_at_once_lose_no_count(
    place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    program = f"usdt:{path}:gated:tick {{ @ = count(); }}"
    with gated(path) as one:
        with ExitStack() as stack:
            tracers = [
                stack.enter_context(
                    tracing(tmp_path, "--backend", backend, FLAG, "-e", program, env=WITHOUT, ready=None)
                )
                for backend in ("ftrace", "bcc", "ftrace", "bcc")
            ]
            for each in tracers:
                each.wait_for("Attached")
            assert one.value() == 4
            for each in tracers:
                each.signal(signal.SIGINT)
            for each in tracers:
                each.wait()
        assert one.value() == 0


@pytest.mark.parametrize(("whom", "number"), [("-p", signal.SIGKILL), ("everybody", signal.SIGINT)])
def test_forks_inherit_a_raised_semaphore_and_are_lowered_too(
    whom: str, number: int, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with gated(path) as one:
        before = one.fork()
        with activated(tmp_path, backend, path, *(["-p", one.pid] if whom == "-p" else [])) as running:
            child = one.fork()
            assert one.value(child) == 1
            os.kill(child, signal.SIGUSR1)
            grandchild = int(read_line(one.process))
            one.forked.append(grandchild)
            assert one.value(grandchild) == 1
            assert one.value(before) == (0 if whom == "-p" else 1)
            os.kill(child, signal.SIGKILL)  # the grandchild is an orphan now
            one.forked.remove(child)
            until(lambda: not Path(f"/proc/{child}").exists())
            running.signal(number)
            running.wait()
            family = [one.pid, before, grandchild]
            until(lambda: not any(map(one.value, family)), what=lambda: str([*map(one.value, family)]))


def test_a_child_in_its_parents_memory_is_not_lowered_a_second_time(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with gated(path) as one, activated(tmp_path, backend, path), activated(tmp_path, backend, path) as second:
        one.process.send_signal(signal.SIGHUP)
        child = int(read_line(one.process))
        assert (one.value(), one.value(child)) == (2, 2)
        second.stop()
        assert Path(f"/proc/{child}").exists(), "it slept too short a time"
        assert (one.value(), one.value(child)) == (1, 1)


def test_memory_that_two_processes_share_is_raised_once(place: Callable[[str], Path], tmp_path: Path) -> None:
    path = place("gated")
    program = plan(Source(f"usdt:{path}:gated:tick {{ @ = count(); }}"))[0]
    counting = Counting(semaphores(program, kernel=False), str(tmp_path / "lock"))
    with gated(path) as one:
        one.process.send_signal(signal.SIGHUP)
        child = int(read_line(one.process))
        counting.raise_all()
        assert (one.value(), one.value(child)) == (1, 1)
        until(lambda: not Path(f"/proc/{child}").exists())
        counting.lower_all()
        assert one.value() == 0


def test_a_program_that_execs_is_not_lowered_in_its_new_memory(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated-nopie")  # the semaphore has the same address afterwards
    with gated(path, "gated-nopie") as one, activated(tmp_path, backend, path) as running:
        assert one.value() == 1
        one.exec()
        assert one.value() == 0
        one.write(5)  # somebody else's
        running.stop()
        assert one.value() == 5


@pytest.mark.parametrize("value", [0xFFFF, 0xFFFE])
def test_a_semaphore_never_wraps_around(
    value: int, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with gated(path) as one:
        one.write(value)
        with activated(tmp_path, backend, path) as running:
            assert one.value() == 0xFFFF
            running.stop()
        assert one.value() == value
        one.write(0)
        with activated(tmp_path, backend, path) as running:
            one.write(0)  # somebody has lowered it twice
            running.stop()
        assert one.value() == 0


def test_a_process_of_another_file_is_not_touched(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o755)
    with gated(path) as one, gated(copy) as other, activated(tmp_path, backend, path) as running:
        assert (one.value(), other.value()) == (1, 0)
        running.stop()
        assert (one.value(), other.value()) == (0, 0)


def test_a_process_that_ends_meanwhile_is_no_trouble(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with gated(path) as one, gated(path) as other, activated(tmp_path, backend, path) as running:
        one.end()
        done = running.stop()
        assert (done.status, other.value()) == (0, 0)


def test_a_process_that_has_not_loaded_the_file_is_named(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with target("sleep", "60") as other, activated(tmp_path, backend, path, "-p", other.pid) as running:
        assert running.err.splitlines()[0] == (
            f"tracer: semaphores raised in no process: {other.pid} has not loaded the file; "
            "processes started later are not seen"
        )


def test_without_the_flag_it_is_refused_under_the_probe(place: Callable[[str], Path]) -> None:
    path = place("gated")
    program = f"usdt:{path}:gated:tick {{ @ = count(); }}"
    for backend in ("bcc", "ftrace"):
        done = tracer("--backend", backend, "-e", program, env=WITHOUT)
        assert (done.status, done.out) == (1, b"")
        assert done.err == (
            f"{program}\n{'^' * len(program)} error: the semaphore of usdt:{path}:gated:tick is not available with "
            f"{backend}: {REASON}; --usdt-file-activation raises them in the processes that run now\n"
        )


def test_with_a_command_of_its_own_the_remedy_is_another(place: Callable[[str], Path]) -> None:
    path = place("gated")
    program = f"usdt:{path}:gated:tick {{ @ = count(); }}"
    for words in ([], [FLAG]):
        done = tracer("--backend", "ftrace", *words, "-c", str(path), "-e", program, env=WITHOUT)
        assert (done.status, done.out) == (1, b"")
        assert done.err == (
            f"{program}\n{'^' * len(program)} error: the semaphore of usdt:{path}:gated:tick is not available with "
            f"ftrace: {REASON}; start the program first, then trace it with -p PID --usdt-file-activation\n"
        )


def test_with_follow_the_remedy_is_to_leave_that_out(place: Callable[[str], Path]) -> None:
    path = place("gated")
    program = f"usdt:{path}:gated:tick {{ @ = count(); }}"
    with gated(path) as one:
        done = tracer("--backend", "bcc", FLAG, "--follow", "-p", str(one.pid), "-e", program, env=WITHOUT)
        assert (done.status, done.out, one.value()) == (1, b"", 0)
        assert done.err.endswith(
            f"{REASON}; leave out --follow: -p PID --usdt-file-activation traces the process alone\n"
        )


def test_a_dry_run_says_who_raises_them(backend: str, place: Callable[[str], Path]) -> None:
    path = place("gated")
    program = f"usdt:{path}:gated:tick {{ @ = count(); }}"
    done = tracer("--dry-run", "--backend", backend, FLAG, "-e", program, env=WITHOUT)
    assert done.status == 0, done.err
    assert "  semaphores: raised by tracer itself, in the processes that run then\n" in done.text
    if backend == "ftrace":
        assert "(0x" not in done.text


def test_where_the_kernel_counts_the_flag_changes_nothing(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    done = tracer("-v", "--backend", backend, FLAG, "-e", program, "-c", f"{path} 0.3 10")
    assert (done.status, done.text) == (0, "30\n@: 30\n")
    assert "tracer: --usdt-file-activation changes nothing: the kernel counts semaphores\n" in done.err


def test_when_the_process_that_lowers_is_killed_it_is_said(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    with gated(path) as one, activated(tmp_path, backend, path) as running:
        (counter,) = counters(running)
        counter.kill()
        done = running.stop()
        assert one.value() == 1
        assert done.status == 0
        assert done.err.splitlines()[2:] == [
            "tracer: the process that lowers semaphores has ended, or does not answer: they may stay raised"
        ]


def test_nothing_is_left_of_semaphores_that_were_never_raised() -> None:
    assert Process().lower_all()
