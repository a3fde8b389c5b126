"""Workers: processes that outlive the tracer by a moment, to undo what it leaves however it ends.

Each holds nothing of the tracer but the reading end of a pipe, which ends when the tracer does, and the writing end of
another for its answers. It is in a session of its own, with the signals of a terminal blocked.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from tracer.dataclass import dataclass
from tracer.host.polling import readable, reaped

_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Worker:
    """The process, the pipe to its standard input, and the one from its standard output."""

    pid: int
    to: int
    back: int

    def ask(self, question: str) -> None:
        """Sends it a line."""
        with suppress(BrokenPipeError):
            os.write(self.to, f"{question}\n".encode())

    def answer(self, patience_s: float = 0) -> str | None:
        """The text that it has written at once; "" of one that died, None where there is nothing yet."""
        return os.read(self.back, 4096).decode() if readable((self.back,), patience_s) else None

    def end(self, wait: bool = True) -> None:
        """Closes both pipes, and takes note of its end, which is waited for but not without an end."""
        os.close(self.to)
        os.close(self.back)
        self.reap(wait)

    def reap(self, wait: bool = True) -> None:
        """Takes note of its end."""
        with suppress(ChildProcessError):  # SIGCHLD is ignored, and the kernel has reaped it
            reaped(self.pid, _PATIENCE_S if wait else 0)


def inherited() -> dict[str, str]:
    """The part of our environment that a child has: what an interpreter built with a shared library may need.

    Nothing else: an `ARCH` that was meant for the build of a kernel would have libbcc compile for another machine.
    """
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


def start(file: str) -> Worker:
    """Runs a Python file with an interpreter that loads nothing else. Raises `OSError` where that fails."""
    import signal

    if not sys.executable:
        raise FileNotFoundError(2, "this Python does not know its own program")
    read, to = os.pipe2(os.O_CLOEXEC)
    back, write = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", os.path.abspath(file)],
            inherited(),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read, 0),
                (os.POSIX_SPAWN_DUP2, write, 1),
                (os.POSIX_SPAWN_DUP2, null, 2),
            ],
            setsid=True,
            setsigmask=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1],
        )
    except OSError:
        os.close(to)
        os.close(back)
        raise
    finally:
        os.close(read)
        os.close(write)
        os.close(null)
    return Worker(pid, to, back)


def agrees(file: str, question: str, patience_s: float) -> bool:
    """Whether such a process answers "true". It is waited for no longer than that; then it ends by itself, later."""
    try:
        process = start(file)
    except OSError:
        return False
    answer = None
    try:
        process.ask(question)
        answer = process.answer(patience_s)
    except OSError:
        return False
    finally:
        process.end(wait=answer is not None)
    return answer == "true\n"
