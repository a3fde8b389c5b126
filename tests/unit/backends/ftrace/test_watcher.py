"""The watcher with files in place of tracefs: what it undoes, and when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tracer.backends.ftrace import watcher as watcher_module
from tracer.backends.ftrace.definitions import _no_watcher
from tracer.backends.ftrace.watcher import Watcher

ROOT = Path(__file__).resolve().parents[4]

SESSION = """
import os, sys, time
sys.path.insert(0, {root!r})
from tracer.backends.ftrace.watcher import Watcher
watcher = Watcher()
for path in sys.argv[1:]:
    watcher.undo_unlink(path)
print(watcher.pid, flush=True)
time.sleep(60)
"""


def gone(condition: Path, seconds: float = 5.0) -> bool:
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
    watcher.end(undone=False)
    deadline = time.monotonic() + 5
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
    watcher.end(undone=True)
    watcher.end(undone=True)
    assert not running(watcher.pid)
    assert file.exists()


def test_the_watcher_holds_nothing_of_the_tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = os.open(tmp_path / "kept", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(kept, True)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/needed")
    watcher = Watcher()
    try:
        watcher.wait_until_up()
        deadline = time.monotonic() + 5
        while set(held := descriptors(watcher.pid)) != {"0", "1", "2"} and time.monotonic() < deadline:
            time.sleep(0.01)
        assert held == {"0": held["0"], "1": "/dev/null", "2": "/dev/null"}
        assert held["0"].startswith("pipe:")
        assert os.getsid(watcher.pid) == watcher.pid
        assert Path(f"/proc/{watcher.pid}/environ").read_bytes() == b"LD_LIBRARY_PATH=/needed\0"
    finally:
        watcher.end(undone=True)
        os.close(kept)


@pytest.mark.parametrize("program", ["/bin/false", ""])
def test_a_process_that_does_not_come_up_is_noticed(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(OSError):
        watcher = Watcher()
        try:
            watcher.wait_until_up()
        finally:
            watcher.end(undone=True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import sys; sys.exit(3)", "it ended at once, with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL ended it"),
        ("import time; time.sleep(60)", "it has not come up within 0.2 seconds"),
    ],
)
def test_why_a_process_does_not_come_up_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    (tmp_path / "body.py").write_text(body)
    monkeypatch.setattr(watcher_module, "__file__", str(tmp_path / "body.py"))
    monkeypatch.setattr(watcher_module, "_START_S", 0.2 if "sleep" in body else 60.0)
    watcher = Watcher()
    with pytest.raises(OSError) as raised:
        watcher.wait_until_up()
    assert _no_watcher(raised.value).message == f"cannot start the process that cleans up: {said}"
    watcher.end(undone=True)
    assert not running(watcher.pid)


def test_a_session_whose_watcher_was_killed_goes_on_and_ends(tmp_path: Path) -> None:
    watcher = Watcher()
    watcher.wait_until_up()
    os.kill(watcher.pid, signal.SIGKILL)
    os.waitid(os.P_PID, watcher.pid, os.WEXITED | os.WNOWAIT)
    watcher.undo_unlink(str(tmp_path / "file"))
    watcher.end(undone=True)
    assert not running(watcher.pid)


def test_ignored_sigchld_does_not_disturb_the_end() -> None:
    text = (
        "import os, signal, sys, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from tracer.backends.ftrace.watcher import Watcher\n"
        "watcher = Watcher(); watcher.wait_until_up(); os.kill(watcher.pid, signal.SIGKILL)\n"
        "while os.path.exists(f'/proc/{watcher.pid}'): time.sleep(0.01)\n"
        "watcher.end(undone=True); Watcher().end(undone=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_lock_file_goes_last(tmp_path: Path) -> None:
    lock, busy = tmp_path / "lock", tmp_path / "busy"
    lock.touch()
    busy.mkdir()
    watcher = Watcher()
    watcher.undo_unlink(str(lock))
    watcher.undo_write(str(busy), "text")
    watcher.end(undone=False)
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
