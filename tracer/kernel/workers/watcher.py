"""The process that puts breakpoints into programs and takes them out, so that killing the tracer cannot.

A task with SIGKILL pending can do neither (uprobe_write_opcode gives up, for get_user_pages does): killed while it
attaches or detaches, a tracer leaves its breakpoints in every process, and the kernel logs "failed to unregister,
leaking uprobe" (of 1,501 in each of six processes up to all; Linux 6.18). A fatal SIGTERM or SIGUSR2 counts as SIGKILL
there. A task that exits can again: SIGKILL is no longer pending then.

So what is not to be killed is another process: people, shells, terminals and the OOM killer end the tracer, and this
one notices, finishes the call that it is in, closes what it has opened, and goes. It makes each call that may write
breakpoints: those that open links and perf events, the closing of either, and writes to an event's trigger file. It
hands its descriptors on and keeps its own, so that the tracer's is never the last: the tracer closes first, and then
asks for it. Enabling, disabling and filtering write no breakpoint and are the tracer's.

It also takes undo steps for what outlives its descriptors, each before the deed that it belongs to. When the tracer
ends without `forget`, they are done, newest first, until each has succeeded or found nothing to undo. A file is removed
only once all steps after it are done: it is the lock by which the next start sees that there is something to sweep.

No definition may be removed while a descriptor holds its event. Of an event with one place the kernel refuses that
(EBUSY); of one with many it frees all places but the last, whose breakpoints and handlers stay (6.18:
unregister_trace_uprobe looks at siblings before it looks whether they are in use). So the steps wait until the tracer
has ended altogether, its descriptors with it, and the lock is held here too. What the process itself does stands in
`watching`.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import time
from _socket import SHUT_WR, socket, socketpair
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from tracer.errors import TracerError
from tracer.host.polling import reaped
from tracer.host.stat import facts_of
from tracer.kernel.syscall import Call
from tracer.kernel.workers.messages import MOST_DESCRIPTORS, append, has_come, last_words, receive, rows_of, send
from tracer.kinds.site import FileSite

_NOT_UNDONE = "the process that removes the probes {}: tracer removed them itself"
_OURS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
"""Those that come to the whole of a terminal's group, or have handlers: they must not reach the child before it has
settled. All signals at once would take ten times as long to name as to block.
"""

AT_ONCE_S = 0.2
"""How long results wait for the removal of probes."""
_REMOVES_S, _HELD_S = 1.0, 2.0
"""When it is said that a removal takes long; and when, and how often, it is looked who holds up the kernel."""
_GONE_S = 0.2
"""How long to wait for the status of a process that has closed its end of the connection."""


class Gone(TracerError):
    """The process does nothing more for us; `why` says what became of it."""

    def __init__(self, why: str = "was killed") -> None:
        super().__init__(f"the process that attaches and removes probes {why}", "run the command again")


class Watcher:
    """The tracer's side: starts the process, hands it calls and steps, ends it."""

    def __init__(self) -> None:
        """Forks: a copy of this process needs half a millisecond, a new interpreter ten. Raises `TracerError`."""
        from tracer.kernel.workers.watcher_process import (
            run,  # here and not in the child, where each page that it touches is copied
        )

        tracer = os.getpid()
        ours, its = socketpair()
        self._connection = ours
        self._numbers: dict[int, int] = {}
        self._ended = self._is_left = False
        self._lost: str | None = None
        self._undone = True
        self._minds = False
        self.not_undone: str | None = None
        """What to say at the end, where it could not do all."""
        self.waits: Callable[[str], None] = lambda line: None
        """Called with a line where the kernel takes long."""
        self.patience_s: float | None = None
        """How long `close` waits from now on: for the rest `settle` does."""
        self._owed: list[float] = []
        self._told = False
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _become(run, its, tracer)
        except OSError as error:
            ours.close()
            its.close()
            message = f"cannot start the process that attaches probes: {error.strerror}"
            hint = "memory may be short, or the number of processes limited (ulimit -u) else run it again"
            raise TracerError(message, hint) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        its.close()

    def undo_write(self, path: str, text: str) -> None:
        """Takes a step that undoes the next deed: appending `text` to `path`. Returns once the process has the step."""
        self._undone = False
        self._tell("undo", "write", os.fsencode(path), text.encode("utf-8", "surrogateescape") + b"\n")

    def undo_unlink(self, path: str) -> None:
        """Takes a step that undoes the next deed: removing the file `path`."""
        self._undone = False
        self._tell("undo", "unlink", os.fsencode(path), b"")

    def undo_rmdir(self, path: str) -> None:
        """Takes a step that undoes the next deed: removing the directory `path`."""
        self._undone = False
        self._tell("undo", "rmdir", os.fsencode(path), b"")

    def undo_stop(self, pid: int) -> None:
        """Takes a step that undoes the next deed: letting the process go on if it is stopped."""
        facts = facts_of(pid)
        if facts is not None:
            self._undone = False
            self._tell("undo", "continue", b"%d %d" % (pid, facts.process.started), b"")

    def append(self, path: str, text: str) -> None:
        """Appends to a file by one write(2), here where the process is gone. Raises `OSError`."""
        data = text.encode("utf-8", "surrogateescape")
        try:
            self._ask("append", os.fsencode(path), data)
        except Gone:
            append(os.fsencode(path), data)

    def hold(self, *descriptors: int) -> None:
        """Keeps these of ours open, locks, until the process ends: where the tracer is killed, after its own
        descriptors and all steps. Raises `OSError`, and `Gone`.
        """
        for first in range(0, len(descriptors), MOST_DESCRIPTORS):
            self._ask("hold", descriptors=descriptors[first : first + MOST_DESCRIPTORS])

    def mind(self, sites: Sequence[FileSite], pids: Sequence[int]) -> None:
        """Tells it, before the first probe, where the trace has probes, in some processes or (without any) in all, so
        that every removal is one that the kernel can do, and what stays is found (see `removal`). Sites that come later
        are added.
        """
        from tracer.kernel.workers.removal import spots_of

        if spots := spots_of(sites):
            self._minds = True
            self._tell("mind", spots, [*pids])

    def check(self, sites: Sequence[FileSite]) -> None:
        """Has it look whether some sites are gone after their removal; no other site shares a place with them."""
        if self._minds and sites:
            self._check(sites)

    def _check(self, sites: Sequence[FileSite] | None) -> None:
        from tracer.kernel.workers.removal import spots_of, told

        with suppress(Gone):
            stayed, _ = self._ask("check", None if sites is None else spots_of(sites))
            self.not_undone = told(stayed) or self.not_undone

    def open(
        self, calls: Sequence[Call], passing: Sequence[int] = (), together: bool = False, last: bool = False
    ) -> list[int]:
        """Makes calls, in that order or all `together`; returns for each the descriptor, or the errno as a negative
        number. In order, none is made after the first that fails with another errno than those to pass over. `last`:
        they are closed only once no thread stays in a probe. Raises `Gone`; and `OSError` where what it opened cannot
        be handed on. Then nothing stays open.
        """
        answers: list[int] = []
        try:
            for first in range(0, len(calls), MOST_DESCRIPTORS):
                part = calls[first : first + MOST_DESCRIPTORS]
                answer = self._open(part, passing, together, last)
                answers += answer
                if len(answer) < len(part):
                    break
        except (OSError, Gone):
            self.close(fd for fd in answers if fd >= 0)
            raise
        return answers

    def _open(self, calls: Sequence[Call], passing: Sequence[int], together: bool, last: bool) -> list[int]:
        rows, ours = rows_of(calls)
        answer, passed = self._ask("open", rows, tuple(passing), together, last, descriptors=ours)
        opened = [number for number in answer if number >= 0]
        if len(opened) != len(passed):
            for fd in passed:
                os.close(fd)
            self._ask("close", opened, together)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self._numbers.update(zip(passed, opened, strict=True))
        fds = iter(passed)
        return [next(fds) if number >= 0 else number for number in answer]

    def try_code(self, file: int, calls: Sequence[Call]) -> list[int]:
        """Makes calls all together while it has the file in its memory as code that it never executes, and closes what
        they open. For each 0, or the errno as a negative number. Raises `Gone`; and `OSError` where the file cannot be
        mapped so.
        """
        rows, ours = rows_of(calls)
        answer, _ = self._ask("try", rows, ours.index(file), descriptors=ours)
        answers: list[int] = answer
        return answers

    def open_one(self, call: Call) -> int:
        """Makes one call. Raises `OSError`, and `Gone`."""
        (fd,) = self.open([call])
        if fd < 0:
            raise OSError(-fd, os.strerror(-fd))
        return fd

    def close(self, descriptors: Iterable[int], together: bool = False, idle: bool = False) -> None:
        """Closes what `open` returned; returns once the process has too, or after `patience_s` where that is set.
        `together`: the kernel's waits are one. `idle`: where it is set, the process closes them when it ends.
        """
        fds = [fd for fd in descriptors if fd in self._numbers]
        numbers = [self._numbers.pop(fd) for fd in fds]
        for fd in fds:
            os.close(fd)
        if numbers:
            try:
                if self.patience_s is None:
                    self._ask("close", numbers, together)
                    return
                self._send("idle" if idle else "close", numbers, together)
                if not self._owed and self._answered(self.patience_s):
                    self._receive()
                else:
                    self._owed.append(time.monotonic())
            except Gone:
                self._reap()  # it may hold them to its very end

    @property
    def settled(self) -> bool:
        """Whether all that was to be closed is."""
        return not self._owed

    def settle(self) -> None:
        """Returns once all that was to be closed is."""
        try:
            self._take_owed()
        except Gone:
            self._reap()

    def forget(self) -> None:
        """Drops the steps so far, as all is undone."""
        self._tell("forget")
        self._undone = True

    def leave(self) -> None:
        """Lets the process end, once it has done the steps that it still has. A second call does nothing."""
        if self._minds:
            self._minds = False
            self._check(None)
        self._tell("leave")
        self._hang_up()

    def end(self) -> None:
        """Lets it end, and waits for that; where it still has steps to do, it goes on alone."""
        self.settle()
        self.leave()
        if self._undone:
            self._reap()
        self._connection.close()

    def _reap(self) -> None:
        """Waits until it holds no probe any more, which it tells by closing its end; with steps that are left for our
        end it goes on alone.
        """
        if self._ended or self._connection.fileno() < 0:
            return
        self._hang_up()
        poll = select.poll()
        poll.register(self._connection.fileno(), 0)  # what it may have sent is of no use
        with suppress(OSError):
            self._wait(time.monotonic(), True, lambda timeout: bool(poll.poll(max(timeout, 0) * 1000)))
            poll.poll()
        self._status()

    def _hang_up(self) -> None:
        """Lets it read the end. Closing would take from it what it has not read yet, where it has sent something."""
        self._is_left = True
        with suppress(OSError):
            self._connection.shutdown(SHUT_WR)

    def _status(self) -> int | None:
        """The status with which it has ended, as waitpid(2) says; None where it goes on, or another has reaped it."""
        if self._ended:
            return None
        try:
            status = reaped(self.pid, _GONE_S)
        except ChildProcessError:  # SIGCHLD is ignored, and the kernel has reaped it
            self._ended = True
            return None
        self._ended = status is not None
        return status

    def _tell(self, *message: object) -> None:
        # Where it has gone the session goes on: its own undoing and `cleanup` remain.
        if not self._is_left:
            try:
                send(self._connection, message)
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError | str | None) -> str:
        """Gives it up: by an error of the connection, what it says of itself, or since it has closed its end. Returns
        what became of it: the first time counts, since what fails later fails for that.
        """
        if self._lost is not None:
            return self._lost
        if isinstance(error, OSError):
            error = last_words(self._connection) or error
        self._owed.clear()
        self._hang_up()
        status = self._status()
        if isinstance(error, str):
            why = f"failed ({error})"
        elif status is not None and os.WIFSIGNALED(status):
            why = "was killed"
        elif error is not None:  # that it has ended by now is for our hanging up
            why = f"cannot be reached ({error.strerror})"
        else:
            why = "has ended"
        self._lost = why
        self.not_undone = _NOT_UNDONE.format(why)
        return why

    def _ask(self, *message: object, descriptors: Sequence[int] = ()) -> tuple[Any, list[int]]:
        self._take_owed()
        self._send(*message, descriptors=descriptors)
        self._wait(time.monotonic(), message[0] == "close", self._answered)
        return self._receive()

    def _take_owed(self) -> None:
        while self._owed:
            self._wait(self._owed[0], True, self._answered)
            self._owed.pop(0)
            self._receive()

    def _send(self, *message: object, descriptors: Sequence[int] = ()) -> None:
        try:
            send(self._connection, message, descriptors)
        except OSError as error:
            raise Gone(self._lose(error)) from None

    def _receive(self) -> tuple[Any, list[int]]:
        try:
            received = receive(self._connection)
        except OSError as error:
            raise Gone(self._lose(error)) from None
        if received is None:
            raise Gone(self._lose(None))
        answer, passed = received
        if isinstance(answer, str):
            raise Gone(self._lose(answer))
        if isinstance(answer, int) and answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer, passed

    def _answered(self, timeout_s: float) -> bool:
        return has_come(self._connection, timeout_s)

    def _wait(self, begun: float, removes: bool, is_over: Callable[[float], bool]) -> None:
        """Until `is_over`, asked for so many seconds at a time, or it was said who holds up what began at `begun`."""
        looks = 0
        due = begun + (_REMOVES_S if removes and not self._told else _HELD_S)
        while not is_over(due - time.monotonic()):
            from tracer.kernel.workers.waiting import holder

            held = holder()
            if held is not None:
                doing = "removes" if removes else "attaches"
                self.waits(f"the kernel {doing} probes only once every probe that runs has ended: {held}")
                self._told = True
                return
            if removes and not looks and not self._told:
                self.waits("the kernel is still removing the probes")
                self._told = True
            looks += 1
            due = max(begun + _HELD_S * looks, time.monotonic() + _REMOVES_S)


def _become(run: Callable[[socket, int], None], connection: socket, tracer: int) -> NoReturn:
    """The child's side. Nothing of the tracer's own may run in it, however this ends."""
    # What the program around has left to its collector thinks that it has descriptors: here these numbers are others'.
    gc.disable()
    status = 1
    try:
        run(connection, tracer)
        status = 0
    finally:
        os._exit(status)
