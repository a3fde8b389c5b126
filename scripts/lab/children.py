"""The programs that we have started and that must not outlive us, whichever thread looks after them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from scripts.lab import LabError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

_lock = threading.Lock()
_running: set[subprocess.Popen[bytes]] = set()
_ended = threading.Event()


@contextmanager
def child(
    command: Sequence[str], output: BinaryIO, directory: Path | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A running program, its two outputs together; ended with all that it has started when the block is left."""
    with _lock:
        if _ended.is_set():
            raise LabError("interrupted")
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C is for us, who end it
            preexec_fn=_end_with_parent,
        )
        _running.add(process)
    try:
        yield process
    finally:
        with _lock:
            _running.discard(process)
        _end(process)


def end_all() -> None:
    """Ends them all, so that the threads that wait for them go on; starts no others."""
    with _lock:
        _ended.set()
        for process in _running:
            _end_group(process)


def run(command: Sequence[str], output: BinaryIO, directory: Path | None = None, **environment: str) -> int:
    """Runs a program to its end; its exit status."""
    with child(command, output, directory, **environment) as process:
        return process.wait()


def _end_with_parent() -> None:
    """Runs in the child: our SIGKILL ends it too."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _end_group(process)
        process.wait()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
