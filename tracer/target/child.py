"""The program of `-c`: started behind a pipe, so that probes are in place before its first instruction.

A fork waits on the pipe; told to go, it execs. It does both in code of its own (`gate`), so that nothing of what it
runs before can be at a probe. The process keeps our process group, so that Ctrl-C at a terminal reaches both, and it
holds none of our descriptors. SIGSTOP would disturb job control; ptrace is used where nothing else will do
(`exec_stop`).
"""

from __future__ import annotations

import errno
import gc
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.errors import TracerError, UsageError
from tracer.host.polling import readable
from tracer.host.stat import check_numbers
from tracer.opening import await_server
from tracer.target.gate import Gate

if TYPE_CHECKING:
    from tracer.target.exec_stop import ExecStop

PATIENCE_S = 3.0  # between SIGTERM and SIGKILL
_COMES_S = 20.0  # from the fork to the place where the child waits
_GO = b"g"
_PLAIN = re.compile(r"[\w./=:,+@%-]+(?: [\w./=:,+@%-]+)*", re.A)
"""Words that no shell would change."""
_NUMBER = 8  # bytes of what is reported where a call fails: the negative error number


class Child:
    """The process of the command: waiting, running, or ended. A context manager: leaving it ends and reaps the process.
    `in_python` says why it waits in Python, so that what it runs there can be hit; None where it does not.
    """

    def __init__(self, argv: Sequence[str], patience_s: float = PATIENCE_S) -> None:
        """Forks. Raises `TracerError` where there is no such program, it fails, or /proc is of another namespace."""
        self.argv = tuple(argv)
        self.status: int | None = None
        self.ended_by_us = False
        self._patience_s = patience_s
        self.path = path = find_program(self.argv[0])
        check_numbers()
        self.in_python: str | None = None
        gate = None
        try:
            gate = Gate()
        except OSError as error:
            self.in_python = error.strerror
        go_read, self._go = os.pipe2(os.O_CLOEXEC)
        self._failure, failure_write = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = os.fork()
        except OSError as error:
            for descriptor in (go_read, self._go, self._failure, failure_write):
                os.close(descriptor)
            raise TracerError(f"cannot start {self.argv[0]}: {error.strerror}") from None
        if self.pid == 0:
            _wait_and_exec(path, self.argv, go_read, failure_write, gate)
        os.close(go_read)
        os.close(failure_write)
        self._report = b""
        self._told = False
        self._held: ExecStop | None = None
        self.pidfd = _pidfd(self.pid)

    def wait(self) -> None:
        """Returns when the child waits: before, what is attached to it would see it on its way there. Raises
        `TracerError` where it does not come there.
        """
        if not self._report:
            if not readable((self._failure,), _COMES_S):
                raise self._cannot(f"the process that is to become it does not run: none of it came in {_COMES_S:g} s")
            self._report = os.read(self._failure, 1)  # nothing where it is gone already

    def hold(self) -> None:
        """Its program is in memory when this returns, and has not run yet: `start` lets it. Raises as `start`."""
        if self._go < 0:
            return
        self.wait()
        self._held = self._exec_stop()
        self._let_go()
        if self._held is not None:
            self.status = self._held.wait()
        if self._held is None or self.status is not None:
            self.start()  # which says why there is no such program

    def start(self, before: Callable[[], None] | None = None) -> None:
        """Lets it run. `before` is called when its program is in memory and has not run yet; where that fails it never
        does. Raises `TracerError` where the exec fails, or the child cannot be held for that.
        """
        if self._failure < 0:
            return
        if before is not None:
            self.hold()
        if self._go >= 0:
            self.wait()
            self._let_go()
        stop, self._held = self._held, None
        if stop is not None:
            try:
                if self.status is None and before is not None:
                    before()
            except BaseException:
                self._signal(signal.SIGKILL)  # nothing of it has run yet, and nothing shall
                raise
            finally:
                self._release(stop)
        if self._failure < 0:
            return
        report = self._report + _read_all(self._failure)
        os.close(self._failure)
        self._failure = -1
        if len(report) >= _NUMBER:
            if self.status is None:
                self._reap(block=True)
            number = -int.from_bytes(report[-_NUMBER:], sys.byteorder, signed=True)
            reason = "not a program this kernel can run" if number == errno.ENOEXEC else os.strerror(number)
            hint = "does a script lack its first line, #!/bin/sh?" if number == errno.ENOEXEC else None
            raise self._cannot(reason, hint)
        if not (self._told and report):
            if self.status is None:
                self._reap(block=True)
            if self.status is not None and os.WIFEXITED(self.status):  # else `failure` tells who ended it
                raise self._cannot("the process that was to become it has ended", "run the command again")

    def _release(self, stop: ExecStop) -> None:
        try:
            stop.release()
        except OSError as error:
            if self.ended():
                return
            self._signal(signal.SIGKILL)  # else it would be stopped for ever
            raise TracerError(f"{self.argv[0]} cannot be let go (ptrace): {error.strerror}") from None

    def _cannot(self, reason: str, hint: str | None = None) -> TracerError:
        return TracerError(f"cannot run {self.argv[0]}: {reason}", hint)

    def _let_go(self) -> None:
        """It goes on to its exec."""
        with suppress(BrokenPipeError):  # it is gone already
            self._told = os.write(self._go, _GO) == len(_GO)
        os.close(self._go)
        self._go = -1

    @property
    def started(self) -> bool:
        """Whether it was let run."""
        return self._go < 0 and self._held is None

    def _exec_stop(self) -> ExecStop | None:
        from tracer.target.exec_stop import ExecStop

        try:
            return ExecStop(self.pid)
        except OSError as error:
            # Of one that has ended and was not waited for, Linux says that it may not be held (ptrace_attach).
            if error.errno in (errno.ESRCH, errno.EPERM) and self.ended():
                return None
            message = f"{self.argv[0]} cannot be held before it runs (ptrace): {error.strerror}"
            raise TracerError(message, "start it first, then trace it with -p PID") from None

    def ended(self) -> bool:
        """Whether it has ended; reaps it then."""
        if self.status is None:
            self._reap(block=False)
        return self.status is not None

    def end(self) -> None:
        """Ends it with SIGTERM, after `patience_s` with SIGKILL, and reaps it."""
        self._close_pipes()
        if self._held is not None:
            self._signal(signal.SIGKILL)  # nothing of it has run yet, and nothing shall
            with suppress(OSError):
                self._held.release()
            self._held = None
            self.ended_by_us = True
        if not self.ended():
            self.ended_by_us = True
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + self._patience_s
            while not self.ended() and time.monotonic() < deadline:
                self._wait_for_end(deadline - time.monotonic())
            if not self.ended():
                self._signal(signal.SIGKILL)
                self._reap(block=True)
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    @property
    def trapped(self) -> bool:
        """Whether a breakpoint has ended it that nobody took for theirs."""
        return self.status is not None and os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGTRAP

    def failure(self) -> str | None:
        """The message about the child's end: None where that was status 0, or our own SIGTERM."""
        if self.status is None:
            return None
        if os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            if self.ended_by_us and number == signal.SIGTERM:
                return None
            return f"{self.argv[0]} was ended by {_signal_name(number)}"
        code = os.WEXITSTATUS(self.status)
        if code == 0 or self.ended_by_us:
            return None
        return f"{self.argv[0]} ended with status {code}"

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def _wait_for_end(self, timeout_s: float) -> None:
        if self.pidfd >= 0:
            readable([self.pidfd], timeout_s)
        else:
            time.sleep(min(max(timeout_s, 0), 0.01))

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)  # not yet reaped, so the number is still this process

    def _reap(self, block: bool) -> None:
        try:
            pid, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
        except ChildProcessError:  # SIGCHLD is ignored: the kernel reaped it and keeps no status
            pid, status = self.pid, 0
        if pid == self.pid:
            self.status = status

    def _close_pipes(self) -> None:
        # The pipe's end is what a child that still waits takes as the order to leave.
        for descriptor in (self._go, self._failure):
            if descriptor >= 0:
                os.close(descriptor)
        self._go = self._failure = -1


def parse_command(text: str) -> tuple[str, ...]:
    """The words of `-c`, split as a shell splits them; no shell runs. Raises `UsageError`."""
    try:
        words = tuple(text.split(" ") if _PLAIN.fullmatch(text) else _split(text))
    except ValueError as error:
        raise UsageError(f"-c: {str(error).lower()}", f"the command is: {text}") from None
    if not words:
        raise UsageError("-c needs a command", "for example -c 'sleep 1'")
    return words


def _split(text: str) -> list[str]:
    import shlex

    return shlex.split(text)


def _quoted(name: str) -> str:
    import shlex

    return shlex.quote(name)


def find_program(name: str) -> str:
    """The file that will run. Raises `TracerError` where there is none, or it may not be run."""
    for path in [name] if "/" in name else os.get_exec_path():
        await_server(path)
    program = shutil.which(name)
    if program is not None:
        return os.path.abspath(program)
    if os.path.isdir(name):
        raise TracerError(f"cannot run {name}: it is a directory")
    if "/" in name and os.path.exists(name):
        raise TracerError(f"cannot run {name}: it is not executable", f"chmod +x {_quoted(name)}")
    raise TracerError(f"cannot run {name}: no such program")


def _wait_and_exec(path: str, argv: tuple[str, ...], go: int, failure: int, gate: Gate | None) -> None:
    """The child's side; never returns. Only system calls here: the parent's Python state is not ours to touch."""
    gc.disable()  # what the program around has left to its collector would close descriptors here that are others'
    status = 127
    try:
        keep = sorted({0, 1, 2, go, failure})
        for low, high in zip(keep, [*keep[1:], _highest_descriptor()], strict=True):
            os.closerange(low + 1, high)
        for number in signal.valid_signals():
            # Python ignores SIGPIPE and SIGXFSZ, and exec hands on what is ignored. nohup's SIGHUP stays ignored.
            if number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", None)) or callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        if gate is not None:
            gate.wait_and_exec(go, failure, path, argv)
        os.write(failure, _GO)
        if os.read(go, 1) == _GO:
            os.execv(path, argv)
        status = 0
    except OSError as error:
        os.write(failure, (-(error.errno or errno.EIO)).to_bytes(_NUMBER, sys.byteorder, signed=True))
    finally:
        os._exit(status)


def _highest_descriptor() -> int:
    """One more than the highest descriptor that is open: RLIMIT_NOFILE may be a billion."""
    try:
        return max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    except (OSError, ValueError):
        return 4096


def _pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; -1 before Linux 5.3."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 64):
        parts.append(part)
    return b"".join(parts)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
