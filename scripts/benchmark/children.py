"""Runs a contestant: its time, its memory, all it prints; and ends it with all it started when it takes too long."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from scripts.benchmark.model import Cannot

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_GRACE_S = 5.0
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Ran:
    """A run that ended."""

    status: int
    seconds: float
    out: bytes
    err: bytes
    timed_out: bool

    @property
    def complaint(self) -> str | None:
        """Why the run counts for nothing, in a line; None where it ended well."""
        if self.timed_out:
            return f"ended after {self.seconds:.0f} s"
        if self.status == 0:
            return None
        said = [line for line in (self.err + self.out).decode(errors="replace").splitlines() if line.strip()]
        # The last is what it ended for; the first may be a warning.
        errors = [line for line in said if "rror" in line] or said or [""]
        return f"exit status {self.status}: {errors[-1].strip()[:160]}"


class Child:
    """A running process, in a process group of its own; what it prints is collected."""

    def __init__(self, process: subprocess.Popen[bytes], started: float) -> None:
        self.process = process
        self.started = started
        self.last_output = started
        """When something last came on its standard output."""
        self._out: list[bytes] = []
        self._err: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._collect, args=(process.stdout, self._out, True)),
            threading.Thread(target=self._collect, args=(process.stderr, self._err, False)),
        ]
        for thread in self._threads:
            thread.start()

    def _collect(self, pipe: IO[bytes], chunks: list[bytes], is_output: bool) -> None:
        while data := os.read(pipe.fileno(), _CHUNK):
            chunks.append(data)
            if is_output:
                self.last_output = time.perf_counter()
        pipe.close()

    @property
    def err(self) -> bytes:
        """The child's stderr so far."""
        return b"".join(self._err)

    @property
    def out(self) -> bytes:
        """The child's stdout so far."""
        return b"".join(self._out)

    def wait(self, timeout_s: float) -> Ran:
        """Waits for the child's end, brought about after `timeout_s`."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            end_group(self.process.pid)

        timer = threading.Timer(timeout_s, expire)
        timer.start()
        try:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            seconds = time.perf_counter() - self.started
        finally:
            timer.cancel()
        for thread in self._threads:
            thread.join(_GRACE_S)
            if thread.is_alive():  # somebody it started keeps the pipe open
                _signal_group(self.process.pid, signal.SIGKILL)
                thread.join(_GRACE_S)
        return Ran(self.process.wait(), seconds, self.out, self.err, expired.is_set())

    def interrupt(self) -> None:
        """Ctrl-C, to it and those it started."""
        _signal_group(self.process.pid, signal.SIGINT)


@contextmanager
def child(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    is_endless: bool = False,
) -> Iterator[Child]:
    """Starts a program; it and all of its group are ended when the block is left, if they still run.

    `is_endless`: it would outlive our SIGKILL, and is ended then too. That takes a fork, whose time grows with our
    memory; what ends by itself is started without. Raises Cannot where there is no such program.
    """
    started = time.perf_counter()
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            start_new_session=True,  # Ctrl-C is for us, who end it
            preexec_fn=_end_with_parent if is_endless else None,
        )
    except OSError as error:
        raise Cannot(f"{command[0]} cannot be started: {error.strerror}") from error
    running = Child(process, started)
    try:
        yield running
    finally:
        if process.returncode is None:
            end_group(process.pid)
            running.wait(_GRACE_S)


def run(command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None) -> Ran:
    """Runs a program to its end."""
    with child(command, environment) as running:
        return running.wait(timeout_s)


def end_group(leader: int) -> None:
    """SIGTERM, on which a tracer removes what it put into the kernel; SIGKILL to what is left after some seconds."""
    _signal_group(leader, signal.SIGTERM)
    end = time.monotonic() + _GRACE_S
    while time.monotonic() < end and _is_running(leader):
        time.sleep(0.02)
    _signal_group(leader, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _end_with_parent() -> None:
    """Runs in the child: our SIGKILL ends it too, by the signal on which tracers clean up."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
