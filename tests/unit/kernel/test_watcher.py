"""The watcher with files in place of tracefs: what it opens, holds and undoes, and when."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import os
import platform
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE_S, until
from tracer.errors import TracerError
from tracer.kernel.syscall import Call, call
from tracer.kernel.workers import watcher_process
from tracer.kernel.workers.watcher import AT_ONCE_S, Gone, Watcher
from tracer.kernel.workers.watcher_process import _said, _undo

ROOT = Path(__file__).resolve().parents[3]

# x86-64, aarch64: openat(2), whose second argument is a string in memory. With O_RDONLY and O_RDWR.
OPENAT = {"x86_64": 257, "aarch64": 56}[platform.machine()]
AT_FDCWD = -100

SESSION = """
import os, sys, time
sys.path.insert(0, {root!r})
from tracer.kernel.workers.watcher import Watcher
watcher = Watcher()
for path in sys.argv[1:]:
    watcher.undo_unlink(path)
print(watcher.pid, flush=True)
time.sleep(60)
"""


def gone(condition: Path, seconds: float = PATIENCE_S) -> bool:
    end = time.monotonic() + seconds
    while condition.exists() and time.monotonic() < end:
        time.sleep(0.005)
    return not condition.exists()


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_after_sigkill_of_the_session_everything_is_undone_and_the_watcher_ends(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two words", "three")]
    for file in files:
        file.touch()
    process = subprocess.Popen(
        [sys.executable, "-c", SESSION.format(root=str(ROOT)), *map(str, files)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    watcher = int(process.stdout.readline())
    os.kill(watcher, signal.SIGINT)
    os.kill(watcher, signal.SIGTERM)
    os.kill(watcher, signal.SIGHUP)
    time.sleep(0.1)
    assert running(watcher)
    assert files[0].exists()
    process.kill()
    process.wait()
    process.stdout.close()
    assert all(gone(file) for file in files)
    assert gone(Path(f"/proc/{watcher}"))


def test_a_step_that_fails_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").touch()
    log = tmp_path / "log"
    log.touch()
    watcher = Watcher()
    # Appending to a directory is refused until there is a file in its place.
    watcher.undo_write(str(tmp_path / "directory"), "late")
    watcher.undo_write(str(log), "in time")
    watcher.end()
    deadline = time.monotonic() + PATIENCE_S
    while log.read_text() != "in time\n" and time.monotonic() < deadline:
        time.sleep(0.01)
    (tmp_path / "directory" / "file").unlink()
    (tmp_path / "directory").rmdir()
    (tmp_path / "directory").touch()
    os.waitpid(watcher.pid, 0)
    assert log.read_text() == "in time\n"


def test_a_session_that_undid_everything_itself_leaves_no_watcher(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    watcher = Watcher()
    watcher.undo_unlink(str(file))
    watcher.forget()
    watcher.end()
    watcher.end()
    assert not running(watcher.pid)
    assert file.exists()


def opening(path: Path, flags: int = os.O_RDONLY) -> Call:
    return Call(OPENAT, os.fsencode(path) + b"\0", before=(AT_FDCWD,), after=(flags | os.O_CLOEXEC,))


def test_the_watcher_holds_nothing_of_the_tracer_but_a_connection(tmp_path: Path) -> None:
    kept = os.open(tmp_path / "kept", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(kept, True)
    watcher = Watcher()
    try:
        (fd,) = watcher.open([opening(tmp_path)])
        watcher.close([fd])
        held = descriptors(watcher.pid)
        assert [held.pop(number) for number in "012"] == ["/dev/null"] * 3
        assert [name.partition(":")[0] for name in held.values()] == ["socket"]
        assert os.getsid(watcher.pid) == watcher.pid
        assert os.readlink(f"/proc/{watcher.pid}/cwd") == "/"
    finally:
        watcher.end()
        os.close(kept)


def test_no_name_of_the_watcher_is_the_tracers_so_that_pkill_does_not_end_both(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SESSION.format(root=str(ROOT)), str(tmp_path / "tracer")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    watcher = Path(f"/proc/{int(process.stdout.readline())}")
    deadline = time.monotonic() + PATIENCE_S
    while not (words := (watcher / "cmdline").read_bytes()).startswith(b"uprobe-undo") and time.monotonic() < deadline:
        time.sleep(0.01)
    words = words.rstrip(b"\0")
    assert words == b"uprobe-undo: takes out the probes of process %d when that ends" % process.pid
    assert (watcher / "comm").read_text() == "uprobe-undo\n"
    process.kill()
    process.wait()
    process.stdout.close()


def test_what_it_opens_is_handed_on_and_held_until_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    watcher = Watcher()
    fds = watcher.open([opening(tmp_path / "file") for _ in range(600)])
    assert {os.pread(fd, 4, 0) for fd in fds} == {b"text"}
    assert [os.get_inheritable(fd) for fd in fds] == [False] * 600
    held = [name for name in descriptors(watcher.pid).values() if name == str(tmp_path / "file")]
    assert len(held) == 600
    watcher.close(fds[:400], together=True)
    watcher.close(fds[400:])
    assert str(tmp_path / "file") not in descriptors(watcher.pid).values()
    assert not any(Path(f"/proc/self/fd/{fd}").exists() for fd in fds)
    watcher.end()


class Kept:
    """A file that a collector would close, as of a program that uses tracer as a library."""

    def __init__(self, path: Path) -> None:
        self.itself, self.fd = self, os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.fd)


def test_the_watcher_closes_nothing_for_what_waits_for_the_collector(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    gc.collect()
    kept = [Kept(tmp_path / "file") for _ in range(40)]
    gc.collect(0)  # they are not looked at again soon
    kept.clear()
    watcher = Watcher()
    gc.collect()
    for _ in range(30):
        fds = watcher.open([opening(tmp_path / "file") for _ in range(240)], together=True)
        assert {os.pread(fd, 4, 0) for fd in fds} == {b"text"}
        held = [name for name in descriptors(watcher.pid).values() if name == str(tmp_path / "file")]
        assert len(held) == 240
        watcher.close(fds)
    watcher.end()


def test_calls_end_at_the_first_that_fails_but_for_those_to_pass_over(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    there, missing, below = (opening(tmp_path / name) for name in ("file", "missing", "file/below"))
    watcher = Watcher()
    for together in (False, True):
        found = watcher.open([there, missing, there, below, there], [errno.ENOENT], together)
        assert [min(fd, 0) for fd in found] == [
            0, -errno.ENOENT, 0, -errno.ENOTDIR, *([0] if together else [])
        ]  # fmt: skip
        watcher.close([fd for fd in found if fd >= 0])
    with pytest.raises(FileNotFoundError):
        watcher.open_one(missing)
    watcher.end()


def test_where_not_all_can_be_handed_on_nothing_stays_open(tmp_path: Path) -> None:
    """The calls of a second message, where the tracer may have no more descriptors."""
    (tmp_path / "file").touch()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for together in (False, True):
        watcher = Watcher()
        before = os.listdir("/proc/self/fd")
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                watcher.open([opening(tmp_path / "file") for _ in range(600)], together=together)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert os.listdir("/proc/self/fd") == before
        assert str(tmp_path / "file") not in descriptors(watcher.pid).values()
        watcher.end()


def test_what_is_tried_is_closed_again(tmp_path: Path) -> None:
    """openat(2) takes the structure for a name that is not there; dup(2) takes none."""
    (tmp_path / "code").write_bytes(bytes(4096))
    watcher = Watcher()
    code, folder = os.open(tmp_path / "code", os.O_RDONLY), os.open(tmp_path, os.O_RDONLY)
    dup = {"x86_64": 32, "aarch64": 23}[platform.machine()]
    there = Call(dup, b"\0" * 8, before=(1,), paths=((0, code),))
    missing = Call(OPENAT, b"\0" * 8, before=(AT_FDCWD,), after=(os.O_RDONLY,), paths=((0, code),))
    assert watcher.try_code(code, [there, missing, there]) == [0, -errno.ENOENT, 0]
    with pytest.raises(OSError, match="Invalid argument"):
        watcher.try_code(folder, [Call(dup, b"\0" * 8, before=(1,), paths=((0, folder),))])
    assert {name.partition(":")[0] for name in descriptors(watcher.pid).values()} == {"/dev/null", "socket"}
    assert "code" not in Path(f"/proc/{watcher.pid}/maps").read_text()
    watcher.end()
    os.close(code)
    os.close(folder)


def test_descriptors_of_the_caller_are_its_own_in_the_call(tmp_path: Path) -> None:
    """Into a structure go their numbers, and names by which they are found: both are another process's there."""
    (tmp_path / "file").write_text("text")
    ours = os.open(tmp_path / "file", os.O_RDONLY)
    # A structure of a pointer and a number is no argument of openat(2), but writev(2) takes one: of what is written
    # the kernel tells the length.
    writev = {"x86_64": 20, "aarch64": 66}[platform.machine()]
    into = os.open(tmp_path / "into", os.O_CREAT | os.O_RDWR)
    structure = b"\0" * 8 + (len("/proc/self/fd/")).to_bytes(8, sys.byteorder)
    assert Call(writev, structure, before=(into,), after=(1,), paths=((0, ours),)).make() == 14
    assert (tmp_path / "into").read_text() == "/proc/self/fd/"
    os.close(ours)
    os.close(into)


def test_a_call_that_the_kernel_wants_again_is_not_made_without_end() -> None:
    """read(2) of an empty pipe that does not wait says EAGAIN each time."""
    end, other = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    read = {"x86_64": 0, "aarch64": 63}[platform.machine()]
    with pytest.raises(BlockingIOError) as raised:
        call(read, end, ctypes.create_string_buffer(1), ctypes.c_ulong(1))
    assert raised.value.errno == errno.EAGAIN
    os.close(end)
    os.close(other)


def test_what_the_watcher_cannot_write_is_said(tmp_path: Path) -> None:
    watcher = Watcher()
    (tmp_path / "file").touch()
    watcher.append(str(tmp_path / "file"), "text")
    assert (tmp_path / "file").read_text() == "text"
    with pytest.raises(FileNotFoundError):
        watcher.append(str(tmp_path / "missing"), "text")
    watcher.end()


def test_a_process_that_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(TracerError) as raised:
        Watcher()
    said = "cannot start the process that attaches probes: Resource temporarily unavailable"
    assert raised.value.message == said
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_watcher_that_was_killed_is_noticed_and_what_it_opened_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    watcher = Watcher()
    fd = watcher.open_one(opening(tmp_path / "file"))
    os.kill(watcher.pid, signal.SIGKILL)
    os.waitid(os.P_PID, watcher.pid, os.WEXITED | os.WNOWAIT)
    assert os.pread(fd, 4, 0) == b"text"
    with pytest.raises(Gone):
        watcher.open_one(opening(tmp_path / "file"))
    watcher.close([fd])
    assert not Path(f"/proc/self/fd/{fd}").exists()
    watcher.end()


def test_a_watcher_in_the_middle_of_a_call_finishes_it_and_goes(tmp_path: Path) -> None:
    """Opening a pipe for writing waits until somebody reads it: the session is killed meanwhile."""
    fifo, after = tmp_path / "fifo", tmp_path / "after"
    os.mkfifo(fifo)
    after.touch()
    text = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.unit.kernel.test_watcher import *\n"
        f"watcher = Watcher(); watcher.undo_unlink({str(after)!r}); print(watcher.pid, flush=True)\n"
        f"watcher.open([opening(Path({str(fifo)!r}), os.O_WRONLY)])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    watcher = int(process.stdout.readline())
    time.sleep(0.2)
    process.kill()
    process.wait()
    process.stdout.close()
    time.sleep(0.1)
    assert running(watcher) and after.exists()
    reader = os.open(fifo, os.O_RDONLY)
    assert os.read(reader, 1) == b""  # it has opened, and closed
    assert gone(after) and gone(Path(f"/proc/{watcher}"))
    os.close(reader)


def test_what_broke_first_is_said_and_not_what_failed_for_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is real; one message is refused, and the process, which reads the end, closes its own."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    watcher = Watcher()
    with monkeypatch.context() as once:
        once.setattr("tracer.kernel.workers.watcher.send", refused)
        watcher.undo_unlink("/none")
    with pytest.raises(Gone) as raised:
        watcher.hold(0)
    what = "cannot be reached (No buffer space available)"
    assert raised.value.message == f"the process that attaches and removes probes {what}"
    assert watcher.not_undone == f"the process that removes the probes {what}: tracer removed them itself"
    watcher.end()


BROKEN = Call(OPENAT, "no bytes", before=(AT_FDCWD,), after=(0,))  # type: ignore[arg-type]


def test_what_it_had_opened_when_it_failed_it_closes(tmp_path: Path) -> None:
    """What is open holds an event, whose definition could not be removed."""
    passed = os.open(tmp_path / "passed", os.O_CREAT | os.O_RDWR)
    watcher = Watcher()
    watcher.undo_unlink(str(tmp_path / "none"))  # so it waits for our end
    path = os.fsencode(tmp_path).ljust(200, b"\0")
    call = Call(OPENAT, path, before=(AT_FDCWD,), after=(0,), descriptors=((len(path) - 8, passed),))
    with pytest.raises(Gone, match=r"failed \(\w+Error: "):
        watcher.open([call, BROKEN])
    assert running(watcher.pid)
    assert [name for name in descriptors(watcher.pid).values() if name.startswith(str(tmp_path))] == []
    os.close(passed)
    watcher.end()
    os.kill(watcher.pid, signal.SIGKILL)
    os.waitpid(watcher.pid, 0)


def test_its_own_words_count_and_not_the_error_of_the_message_that_came_after_them() -> None:
    watcher = Watcher()
    watcher._tell("open")
    while not select_hang_up(watcher):
        time.sleep(0.005)
    watcher.undo_unlink("/none")
    what = "failed (ValueError: not enough values to unpack (expected 4, got 0))"
    assert watcher.not_undone == f"the process that removes the probes {what}: tracer removed them itself"
    watcher.end()


def select_hang_up(watcher: Watcher) -> bool:
    poll = select.poll()
    poll.register(watcher._connection.fileno(), 0)
    return bool(poll.poll(0))


def test_an_error_of_a_call_is_told_with_its_call(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    try:
        os.listdir(path)
    except OSError as error:
        assert _said(error) == f"listdir of {path}: No such file or directory"
    assert _said(ValueError("x")) == "ValueError: x"


def test_an_answer_is_taken_also_where_poll_fails(tmp_path: Path) -> None:
    """poll(2) fails with EINVAL where it is asked for more descriptors than RLIMIT_NOFILE allows."""
    watcher = Watcher()
    fds = watcher.open([opening(tmp_path), opening(tmp_path)])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        watcher.close(fds)
        watcher.patience_s = 0.1
        os.kill(watcher.pid, signal.SIGSTOP)
        begun = time.monotonic()
        assert not watcher._answered(0.1) and 0.1 <= time.monotonic() - begun < 2
    finally:
        os.kill(watcher.pid, signal.SIGCONT)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    watcher.end()
    assert watcher.not_undone is None and not running(watcher.pid)


TOGETHER = """
import os, resource, threading
from tracer.kernel.workers.watcher_process import _together
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
if os.geteuid() == 0:
    os.setuid(65534)
def work(number):
    return number * 2, threading.current_thread() is threading.main_thread()
print(_together(work, range(5)))
"""


def test_where_no_thread_can_start_the_one_that_is_there_does_all() -> None:
    """EAGAIN of clone(2), as with pids.max."""
    done = subprocess.run([sys.executable, "-c", TOGETHER], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout, done.stderr) == (f"{[(2 * number, True) for number in range(5)]}\n", "")


def test_a_session_whose_watcher_was_killed_goes_on_and_ends(tmp_path: Path) -> None:
    watcher = Watcher()
    os.kill(watcher.pid, signal.SIGKILL)
    os.waitid(os.P_PID, watcher.pid, os.WEXITED | os.WNOWAIT)
    watcher.undo_unlink(str(tmp_path / "file"))
    watcher.forget()
    watcher.end()
    assert not running(watcher.pid)


def test_ignored_sigchld_does_not_disturb_the_end() -> None:
    text = (
        "import os, signal, sys, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from tracer.kernel.workers.watcher import Watcher\n"
        "watcher = Watcher(); os.kill(watcher.pid, signal.SIGKILL)\n"
        "while os.path.exists(f'/proc/{watcher.pid}'): time.sleep(0.01)\n"
        "watcher.end(); Watcher().end()\n"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_lock_file_goes_last(tmp_path: Path) -> None:
    lock, busy = tmp_path / "lock", tmp_path / "busy"
    lock.touch()
    busy.mkdir()
    watcher = Watcher()
    watcher.undo_unlink(str(lock))
    watcher.undo_write(str(busy), "text")
    watcher.end()
    time.sleep(0.3)
    assert lock.exists()
    busy.rmdir()
    os.waitpid(watcher.pid, 0)
    assert not lock.exists()


def descriptors(pid: int) -> dict[str, str]:
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            found[fd] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def test_nothing_is_undone_before_the_tracer_has_ended_altogether_and_its_lock_stays_until_then(tmp_path: Path) -> None:
    """A killed process's descriptors close one by one. While one of them holds an event of many places, to remove that
    would leave its breakpoints (Linux 6.18).
    """
    file, lock = tmp_path / "file", tmp_path / "lock"
    file.touch()
    text = (
        f"import fcntl, os, sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tracer.kernel.workers.watcher import Watcher\n"
        f"lock = os.open({str(lock)!r}, os.O_CREAT | os.O_RDWR); fcntl.flock(lock, fcntl.LOCK_EX)\n"
        f"watcher = Watcher(); watcher.undo_unlink({str(file)!r}); watcher.hold(lock)\n"
        "os.close(lock); os.close(watcher._connection.fileno())\n"
        "print(watcher.pid, flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    assert process.stdout is not None
    watcher = int(process.stdout.readline())
    time.sleep(0.3)
    assert file.exists() and running(watcher)
    held = os.open(lock, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.kill()
    process.wait()
    process.stdout.close()
    fcntl.flock(held, fcntl.LOCK_EX)
    assert not file.exists()
    os.close(held)
    assert gone(Path(f"/proc/{watcher}"))


def test_a_close_with_patience_goes_on_and_settle_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.kernel.workers.watcher._REMOVES_S", 0.1)
    monkeypatch.setattr("tracer.kernel.workers.watcher._HELD_S", 0.2)
    found = iter([None, "process 7 (x) is in a probe"])
    monkeypatch.setattr("tracer.kernel.workers.waiting.holder", lambda: next(found, None))
    watcher = Watcher()
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            os.kill(watcher.pid, signal.SIGCONT)

    watcher.waits = hear
    one, two = watcher.open([opening(tmp_path), opening(tmp_path)])
    watcher.patience_s = 0.05
    os.kill(watcher.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        watcher.close([one])
        watcher.close([two])
        assert time.monotonic() - begun < 5
        assert said == []
        watcher.settle()
    finally:
        os.kill(watcher.pid, signal.SIGCONT)
    assert watcher.settled
    assert said == [
        "the kernel is still removing the probes",
        "the kernel removes probes only once every probe that runs has ended: process 7 (x) is in a probe",
    ]
    assert str(tmp_path) not in descriptors(watcher.pid).values()
    watcher.end()
    assert watcher.not_undone is None and not running(watcher.pid)


def test_a_process_that_was_killed_while_it_owed_an_answer_is_told(tmp_path: Path) -> None:
    watcher = Watcher()
    (fd,) = watcher.open([opening(tmp_path)])
    watcher.patience_s = 0.0
    os.kill(watcher.pid, signal.SIGSTOP)
    watcher.close([fd])
    os.kill(watcher.pid, signal.SIGKILL)
    watcher.end()
    assert watcher.settled and not running(watcher.pid)
    assert watcher.not_undone == "the process that removes the probes was killed: tracer removed them itself"


def test_who_holds_up_an_attach_is_told_and_nothing_where_nobody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.kernel.workers.watcher._REMOVES_S", 0.01)
    monkeypatch.setattr("tracer.kernel.workers.watcher._HELD_S", 0.05)
    asked: list[None] = []
    watcher = Watcher()

    def found() -> str | None:
        asked.append(None)
        return "process 7 (x) is in a probe" if len(asked) == 3 else None

    def hear(line: str) -> None:
        said.append(line)
        os.kill(watcher.pid, signal.SIGCONT)

    monkeypatch.setattr("tracer.kernel.workers.waiting.holder", found)
    said: list[str] = []
    watcher.waits = hear
    os.kill(watcher.pid, signal.SIGSTOP)
    try:
        (fd,) = watcher.open([opening(tmp_path)])
    finally:
        os.kill(watcher.pid, signal.SIGCONT)
    watcher.close([fd])
    watcher.end()
    assert said == ["the kernel attaches probes only once every probe that runs has ended: process 7 (x) is in a probe"]


def failing(error: Exception) -> Callable[[], None]:
    def settle() -> None:
        raise error

    return settle


def test_it_closes_what_it_may_not_look_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc cannot be listed, it cannot see who is in a probe."""
    monkeypatch.setattr("tracer.kernel.workers.waiting.settle", failing(OSError(errno.EBADF, "no /proc")))
    watcher = Watcher()
    watcher.close(watcher.open([opening(tmp_path)], last=True))
    assert str(tmp_path) not in descriptors(watcher.pid).values()
    watcher.end()
    assert watcher.not_undone is None and not running(watcher.pid)


def test_what_it_fails_to_close_it_does_not_keep_while_it_has_steps_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that it held could not be removed."""
    monkeypatch.setattr("tracer.kernel.workers.waiting.settle", failing(LookupError("a fault of ours")))
    watcher = Watcher()
    watcher.undo_unlink(str(tmp_path / "event"))
    watcher.close(watcher.open([opening(tmp_path)], last=True))
    assert gone_from(watcher.pid, tmp_path)
    assert watcher.not_undone == (
        "the process that removes the probes failed (LookupError: a fault of ours): tracer removed them itself"
    )
    watcher.forget()
    watcher.end()


def gone_from(pid: int, path: Path) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while running(pid) and str(path) in descriptors(pid).values():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_an_event_that_is_still_listed_is_not_taken_for_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EINVAL is what older kernels say where there is none of that name."""
    listed = tmp_path / "uprobe_events"
    listed.write_text("p:tracer_7_ab/e0 /bin/shop:0x1130\n")

    def refused(path: bytes, text: bytes) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr("tracer.kernel.workers.watcher_process.append", refused)
    step = ("write", os.fsencode(listed), b"-:tracer_7_ab/e0\n")
    assert not _undo(step, {})
    assert _undo(("write", os.fsencode(listed), b"-:tracer_7_ab/e\n"), {})
    listed.write_text("")
    assert _undo(step, {})


@pytest.mark.parametrize("idle_s", [watcher_process._IDLE_S, -1])
def test_what_is_idle_is_closed_at_the_end_and_nobody_waits_where_that_takes_long(
    idle_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.kernel.workers.watcher_process._IDLE_S", idle_s)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    watcher = Watcher()
    fds = watcher.open([opening(fifo, os.O_RDWR), opening(fifo, os.O_RDWR), opening(tmp_path)])
    watcher.patience_s = AT_ONCE_S
    watcher.close(fds[:2], idle=True)
    assert [*descriptors(watcher.pid).values()].count(str(fifo)) == 2
    watcher.close(fds[2:])
    assert str(tmp_path) not in descriptors(watcher.pid).values()
    watcher.end()
    assert watcher.not_undone is None and not running(watcher.pid)
    until(lambda: not is_read(fifo))


def test_before_the_end_what_is_idle_is_closed_at_once(tmp_path: Path) -> None:
    watcher = Watcher()
    watcher.close(watcher.open([opening(tmp_path)]), idle=True)
    assert str(tmp_path) not in descriptors(watcher.pid).values()
    watcher.end()


def is_read(fifo: Path) -> bool:
    """Whether any process has it open for reading."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        assert error.errno == errno.ENXIO
        return False
    return True
