"""The program of `-c`: what it sees, when it runs, how it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, PATIENCE_S
from tracer.errors import TracerError, UsageError
from tracer.target import exec_stop
from tracer.target.child import Child, find_program, parse_command
from tracer.target.exec_stop import ExecStop


def run_to_end(child: Child, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not child.ended():
        assert time.monotonic() < deadline, "the child did not end"
        time.sleep(0.005)


def test_runs_nothing_before_it_is_told(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    with Child(["touch", str(flag)]) as child:
        time.sleep(0.05)
        assert not flag.exists()
        assert not child.ended()
        child.start()
        run_to_end(child)
        assert flag.exists()
        assert child.failure() is None


def test_keeps_its_pid_over_exec(tmp_path: Path) -> None:
    out = tmp_path / "pid"
    with Child(["/bin/sh", "-c", f"echo $$ > {out}"]) as child:
        child.start()
        run_to_end(child)
        assert int(out.read_text()) == child.pid


def test_a_child_that_was_never_started_leaves_without_running(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    with Child(["touch", str(flag)]) as child:
        pid = child.pid
    assert not flag.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_holds_none_of_our_descriptors_and_no_changed_signal(tmp_path: Path) -> None:
    out = tmp_path / "state"
    leak = fcntl.fcntl(0, fcntl.F_DUPFD, 50)  # inheritable, and no number that the shell takes for itself
    previous = signal.signal(signal.SIGUSR2, lambda number, frame: None)
    try:
        # Its signals are read by grep of itself: a shell blocks all of its own for a moment while it forks.
        script = f"ls /proc/$$/fd > {out}; grep -E 'Sig(Ign|Cgt|Blk)' /proc/self/status >> {out}"
        with Child(["/bin/sh", "-c", script]) as child:
            child.start()
            run_to_end(child)
    finally:
        signal.signal(signal.SIGUSR2, previous)
        os.close(leak)
    lines = out.read_text().split("\n")
    assert str(leak) not in lines
    assert {line for line in lines if line.isdigit()} <= {"0", "1", "2", "10"}  # 10: the shell's own
    ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
    assert not ignored >> (signal.SIGPIPE - 1) & 1
    assert not ignored >> (signal.SIGXFSZ - 1) & 1
    blocked = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk"))
    assert blocked == 0


def test_stays_in_our_process_group() -> None:
    with Child(["sleep", "5"]) as child:
        child.start()
        assert os.getpgid(child.pid) == os.getpgrp()


def test_ends_and_reaps_a_running_program_in_silence() -> None:
    with Child(["sleep", "100"]) as child:
        child.start()
        begun = time.monotonic()
        child.end()
        assert time.monotonic() - begun < 1 * PATIENCE
        assert child.status is not None
        assert os.WTERMSIG(child.status) == signal.SIGTERM
        assert child.failure() is None


def test_kills_a_program_that_does_not_heed_sigterm() -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(100)"
    read, write = os.pipe()
    saved = os.dup(1)
    os.dup2(write, 1)
    try:
        child = Child([sys.executable, "-c", script], patience_s=0.1)
        child.start()
        assert os.read(read, 1) == b"\n"
    finally:
        os.dup2(saved, 1)
        for descriptor in (saved, read, write):
            os.close(descriptor)
    child.end()
    assert child.failure() == f"{sys.executable} was ended by SIGKILL"


@pytest.mark.parametrize(
    ("script", "said"),
    [("exit 3", "/bin/sh ended with status 3"), ("kill -SEGV $$", "/bin/sh was ended by SIGSEGV"), ("exit 0", None)],
)
def test_says_how_it_failed(script: str, said: str | None) -> None:
    with Child(["/bin/sh", "-c", script]) as child:
        child.start()
        run_to_end(child)
    assert child.failure() == said


def test_a_file_that_is_no_program_is_one_error(tmp_path: Path) -> None:
    file = tmp_path / "noise"
    file.write_bytes(b"\0\1\2\3" * 10)
    file.chmod(0o755)
    with Child([str(file)]) as child:
        with pytest.raises(TracerError) as caught:
            child.start()
        assert caught.value.message == f"cannot run {file}: not a program this kernel can run"
        assert child.ended()


def test_finds_programs_through_path_and_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    monkeypatch.setenv("PATH", f"/usr/bin:{tmp_path}")
    assert find_program("env") == "/usr/bin/env"
    for name, said in (
        ("no-such-program", "cannot run no-such-program: no such program"),
        (str(plain), f"cannot run {plain}: it is not executable"),
        ("/tmp", "cannot run /tmp: it is a directory"),
    ):
        with pytest.raises(TracerError) as caught:
            find_program(name)
        assert caught.value.message == said


def test_splits_a_command_as_a_shell_does_and_runs_none() -> None:
    assert parse_command('a \'b c\' "d\\"e" $HOME * f\\ g') == ("a", "b c", 'd"e', "$HOME", "*", "f g")
    for text, said in (("  ", "-c needs a command"), ("a 'b", "-c: no closing quotation")):
        with pytest.raises(UsageError) as caught:
            parse_command(text)
        assert caught.value.message == said


def test_the_child_leaves_when_the_tracer_is_killed_before_the_start(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from tracer.target.child import Child\n"
        "child = Child(['sleep', '100'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout is not None
        pid = int(tracer.stdout.readline())
        tracer.kill()
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < deadline, "the child outlived its tracer"
        time.sleep(0.01)


def test_a_child_is_held_when_its_program_is_in_memory_and_has_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    seen: list[tuple[str, bool]] = []
    with Child(("touch", str(made))) as child:
        child.start(lambda: seen.append((os.readlink(f"/proc/{child.pid}/exe"), made.exists())))
        run_to_end(child)
        assert child.failure() is None
    assert seen == [(os.path.realpath(find_program("touch")), False)] and made.exists()


@pytest.mark.parametrize(
    ("at_once", "said"),
    [
        (lambda *_: os._exit(0), "the process that was to become it has ended"),
        (lambda *_: time.sleep(60), "the process that is to become it does not run: none of it came in 0.2 s"),
    ],
)
def test_a_child_that_does_not_come_to_wait_is_an_error(
    at_once: Callable[..., None], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.target.child._wait_and_exec", at_once)
    monkeypatch.setattr("tracer.target.child._COMES_S", 0.2)
    with Child(("touch", "/none")) as child, pytest.raises(TracerError) as caught:
        child.start()
    assert caught.value.message == f"cannot run touch: {said}" and child.ended()


def test_a_held_child_whose_exec_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\x7fELF, but not really")
    (tmp_path / "text").chmod(0o755)
    seen: list[int] = []
    with Child((str(tmp_path / "text"),)) as child, pytest.raises(TracerError) as caught:
        child.start(lambda: seen.append(1))
    assert "not a program this kernel can run" in caught.value.message and not seen


def test_a_signal_that_comes_before_a_held_child_execs_is_not_lost() -> None:
    with Child(("sleep", "60")) as child:
        child.wait()
        os.kill(child.pid, signal.SIGTERM)
        child.start(lambda: None)
        run_to_end(child)
        assert child.failure() == "sleep was ended by SIGTERM"


def test_a_held_child_never_runs_where_what_it_is_held_for_fails(tmp_path: Path) -> None:
    made = tmp_path / "made"

    def fail() -> None:
        raise TracerError("no")

    with Child(("touch", str(made))) as child, pytest.raises(TracerError, match="no"):
        child.start(fail)
    run_to_end(child)
    assert child.status is not None and os.WTERMSIG(child.status) == signal.SIGKILL and not made.exists()


@pytest.mark.parametrize("number", [errno.EPERM, errno.ESRCH])
def test_a_held_child_that_cannot_be_let_go_does_not_stay_stopped(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag, called = tmp_path / "ran", ExecStop._call

    def refusing(self: ExecStop, request: int, data: int) -> None:
        if request == exec_stop._DETACH:
            raise OSError(number, os.strerror(number))
        called(self, request, data)

    monkeypatch.setattr(ExecStop, "_call", refusing)
    with Child(["touch", str(flag)]) as child:
        child.hold()
        with pytest.raises(TracerError, match=r"touch cannot be let go \(ptrace\): "):
            child.start()
        run_to_end(child)
    assert not flag.exists()
