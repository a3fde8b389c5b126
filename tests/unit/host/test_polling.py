"""Waiting on descriptors where poll(2) fails: it does where RLIMIT_NOFILE is below the number of descriptors."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracer.host.polling import readable, reaped
from tracer.kernel.workers import spawn


@contextmanager
def failing() -> Iterator[tuple[int, int]]:
    """poll(2) fails; gives the limits that were."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield before
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_poll_that_fails_for_a_moment_is_made_again() -> None:
    read, write = os.pipe()
    os.write(write, b"x")
    with failing() as before:
        previous = signal.signal(signal.SIGALRM, lambda *_: resource.setrlimit(resource.RLIMIT_NOFILE, before))
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        try:
            assert readable([read], 5) == [read]
        finally:
            signal.signal(signal.SIGALRM, previous)
    os.close(read)
    os.close(write)


def test_one_that_goes_on_failing_is_an_error() -> None:
    with failing(), pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        readable([0], 5)


def test_a_child_is_not_waited_for_without_an_end() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    assert reaped(pid, 0.05) is None
    os.kill(pid, signal.SIGKILL)
    assert reaped(pid, 5) == signal.SIGKILL
    with pytest.raises(ChildProcessError):
        reaped(pid, 5)


def test_a_worker_that_does_not_end_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "_PATIENCE_S", 0.1)
    (tmp_path / "worker.py").write_text("import time; time.sleep(60)")
    worker = spawn.start(str(tmp_path / "worker.py"))
    begun = time.monotonic()
    worker.end()
    assert time.monotonic() - begun < 5
    os.kill(worker.pid, signal.SIGKILL)
    os.waitpid(worker.pid, 0)
