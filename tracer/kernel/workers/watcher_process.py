"""The process of the watcher (see `watcher`): it holds nothing of the tracer but one end of a connection."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import time
from _socket import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tracer.host.stat import facts_of
from tracer.kernel.syscall import Call
from tracer.kernel.workers.messages import append, receive, send, to_append
from tracer.kernel.workers.removal import Removal

_PATIENCE_S = 60.0
_IDLE_S = 0.5
_THREADS = 64
_MOST_DESCRIPTORS = 1 << 16

_GONE = {errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EINVAL}
"""There is nothing to undo."""

_SIGNALS = frozenset(range(1, signal.NSIG)) - {32, 33, 34}
"""All but those of libc's own threads."""

_T = TypeVar("_T")
_Step = tuple[str, bytes, bytes]


def run(connection: socket, tracer: int) -> None:
    """The forked process from its start to its end; `tracer` is the process that it was forked from."""
    with suppress(OSError):
        signal.pthread_sigmask(signal.SIG_SETMASK, _SIGNALS)
    _settle(connection.fileno(), tracer)
    _serve(connection, tracer)


def _settle(connection: int, tracer: int) -> None:
    """Makes the process small and hard to kill. None of that is needed for the work: where the kernel refuses a part,
    the others are done.
    """
    with suppress(OSError):
        os.setsid()  # no terminal, shell or killed process group means it
    with suppress(OSError):
        os.chdir("/")
    # Whoever waits for the end of a pipe that the tracer has must not wait for this process.
    with suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
    _close_others({connection})
    # Neither name holds the tracer's: `pkill -9 -f` of that would end both at once.
    _say("/proc/self/comm", b"uprobe-undo")
    _say("/proc/self/oom_score_adj", b"-1000")
    with suppress(OSError, ValueError), open("/proc/self/stat", "rb") as file:
        start, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
        words = b"uprobe-undo: takes out the probes of process %d when that ends" % tracer
        if 0 < start < end:
            ctypes.memmove(start, words[: end - start - 1].ljust(end - start, b"\0"), end - start)


def _close_others(kept: Collection[int]) -> None:
    """Closes all descriptors but these and the standard ones."""
    try:
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in kept:
                _close(int(name))  # or the listing's own, which is closed
    except OSError:  # no /proc, or no descriptor for it
        first = 3
        for number in (*sorted(kept), _MOST_DESCRIPTORS):
            os.closerange(first, number)
            first = number + 1


def _say(path: str, text: bytes) -> None:
    with suppress(OSError), open(path, "wb") as file:
        file.write(text)


def _serve(connection: socket, tracer: int) -> None:
    """Does what it is asked for until the tracer ends, then undoes what is left."""
    held: set[int] = set()
    last: set[int] = set()
    idle: list[int] = []
    is_left = locks = False
    steps: list[_Step] = []
    files: dict[bytes, int] = {}
    removal: Removal | None = None
    try:
        while (received := receive(connection)) is not None:
            (kind, *words), passed = received
            if kind == "undo":
                steps.append((words[0], words[1], words[2]))
                _keep(files, words[1])
            elif kind == "leave":
                is_left = True
                break
            elif kind == "mind":
                if removal is None:
                    removal = Removal(*words)
                else:
                    removal.add(words[0])
            elif kind == "check":
                stay = removal.check(words[0]) if removal is not None else []
                send(connection, [tuple(spot) for spot in stay])
                removal = removal if words[0] is not None else None
            elif kind == "forget":
                steps.clear()
            elif kind == "idle":
                idle += words[0]
                held.difference_update(words[0])
                send(connection, 0)
            else:
                locks = locks or kind == "hold"
                if removal is not None and kind in ("close", "append"):
                    removal.prepare()
                _answer(connection, held, last, kind, words, passed)
    except Exception as error:  # the connection has broken, or this is a fault of ours: the undoing is left to do
        with suppress(OSError):
            send(connection, _said(error))
    if removal is not None:
        with suppress(Exception):
            removal.prepare()
    events = {fd for fd in held - last if _disabled(fd)}
    _together(_close, list(held - last - events))  # links, whose programs run also at what is disabled
    _together(_close, list(events))
    _close_last(held & last)
    held.clear()
    _close_idle(idle)
    connection.close()  # before any wait for the tracer, which waits for this
    # A killed process's descriptors close one by one; its children get another parent only afterwards.
    while (steps or locks or removal is not None) and not is_left and os.getppid() == tracer:
        time.sleep(0.001)
    if removal is not None:
        with suppress(Exception):
            removal.check()
    _undo_all(steps, files)


def _said(error: Exception) -> str:
    """The error in words: the call that failed, where that can be told."""
    if isinstance(error, OSError):
        with suppress(Exception):
            from tracer.failed_calls import described

            return described(error)
    return f"{type(error).__name__}: {error}"


def _keep(files: dict[bytes, int], path: bytes) -> None:
    """Keeps the kernel's list of probes open: to remove them there may be no descriptor left then. An event's trigger
    file that is open would hold the event.
    """
    if path.endswith(b"/uprobe_events") and path not in files:
        with suppress(OSError):
            files[path] = to_append(path)


def _close_last(descriptors: Collection[int]) -> None:
    """Waits here for threads that stay in a probe: the kernel would wait for them with a lock that everybody needs."""
    if descriptors:
        from tracer.kernel.workers.waiting import settle  # on ftrace alone, which has it already

        with suppress(OSError):  # where nobody can look, the kernel waits itself
            settle()
        for descriptor in descriptors:
            _close(descriptor)


def _disabled(fd: int) -> bool:
    """Disables an event; False where it is none."""
    from tracer.kernel import perf  # which the tracer has

    try:
        perf.disable(fd)
    except OSError:
        return False
    return True


def _close_idle(descriptors: list[int]) -> None:
    """Closes events at whose hits nothing runs any more. Each takes a grace period of the kernel under a lock that all
    share: 42 ms on 6.18 however many threads close them, 15 s for the 360 of syscalls:sys_enter_*. So what takes long
    is left to a process of its own, and nobody waits for it.
    """
    for fd in descriptors:
        _disabled(fd)
    until = time.monotonic() + _IDLE_S
    while descriptors and time.monotonic() < until:
        _close(descriptors.pop())
    if not descriptors:
        return
    with suppress(OSError):  # else they are closed here
        if os.fork() == 0:
            try:
                _close_others({*descriptors})
                for fd in descriptors:
                    _close(fd)
            finally:
                os._exit(0)
    for fd in descriptors:
        _close(fd)


def _answer(
    connection: socket, held: set[int], last: set[int], kind: str, words: list[Any], passed: list[int]
) -> None:
    if kind == "open":
        rows, passing, together, is_last = words
        try:
            if together:
                answers = _together(lambda row: _open(row, passed, held), rows)
            else:
                answers = _in_order(connection, rows, passing, passed, held)
        finally:
            for fd in passed:
                os.close(fd)
        opened = [number for number in answers if number >= 0]
        last.update(opened if is_last else ())
        send(connection, answers, opened)
    elif kind == "close":
        numbers, together = words
        at_once = [number for number in numbers if number not in last]
        if together:
            _together(_close, at_once)
        else:
            for number in at_once:
                _close(number)
        held.difference_update(at_once)
        _close_last(last.intersection(numbers))
        held.difference_update(numbers)  # not before: where one of these steps fails, they are closed all the same
        last.difference_update(numbers)
        send(connection, 0)
    elif kind == "try":
        rows, file = words
        answer: list[int] | int
        try:
            answer = _try(rows, file, passed)
        except OSError as error:
            answer = -(error.errno or errno.EIO)
        finally:
            for fd in passed:
                os.close(fd)
        send(connection, answer)
    elif kind == "hold":
        send(connection, 0)  # kept open to the end
    else:
        assert kind == "append"
        try:
            append(words[0], words[1])
        except OSError as error:
            send(connection, -(error.errno or errno.EIO))
        else:
            send(connection, 0)


def _in_order(
    connection: socket, rows: Sequence[Any], passing: Sequence[int], passed: Sequence[int], held: set[int]
) -> list[int]:
    poll = select.poll()
    poll.register(connection.fileno(), 0)
    answers: list[int] = []
    for row in rows:
        with suppress(OSError):  # poll(2) wants memory: the answer will not reach a tracer that has gone
            if poll.poll(0):
                break  # the tracer has gone
        answers.append(_open(row, passed, held))
        if answers[-1] < 0 and -answers[-1] not in passing:
            break
    return answers


def _open(row: Any, passed: Sequence[int], held: set[int]) -> int:
    """The descriptor, which is `held` from then on, or the errno as a negative number."""
    number, structure, before, after, pointers, descriptors, paths = row
    ours = tuple((offset, passed[index]) for offset, index in descriptors)
    named = tuple((offset, passed[index]) for offset, index in paths)
    try:
        fd = Call(number, structure, before, after, pointers, ours, named).make()
    except OSError as error:
        return -(error.errno or errno.EIO)
    held.add(fd)
    return fd


def _try(rows: Sequence[Any], file: int, passed: Sequence[int]) -> list[int]:
    from mmap import MAP_PRIVATE, PROT_EXEC, PROT_READ, mmap

    def attempt(row: Any) -> int:
        fd = _open(row, passed, set())
        if fd >= 0:
            os.close(fd)
        return min(fd, 0)

    with mmap(passed[file], 0, MAP_PRIVATE, PROT_READ | PROT_EXEC):
        return _together(attempt, rows)


def _close(fd: int) -> None:
    with suppress(OSError):
        os.close(fd)


def _together(function: Callable[[Any], _T], items: Sequence[Any]) -> list[_T]:
    """Calls the function on each item, at the same time as far as there can be threads: the kernel makes them wait."""
    if len(items) < 2:
        return [function(item) for item in items]
    results: dict[int, _T] = {}
    numbers = iter(range(len(items)))  # of which each thread takes the next

    def work() -> None:
        for number in numbers:
            results[number] = function(items[number])

    threads: list[Thread] = []
    # RuntimeError: "can't start new thread", for pids.max, RLIMIT_NPROC, RLIMIT_AS; ImportError: for descriptors.
    with suppress(RuntimeError, MemoryError, OSError, ImportError):
        from threading import Thread

        for _ in range(min(len(items), _THREADS) - 1):
            thread = Thread(target=work)
            thread.start()
            threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    # A thread that has run out of memory has left one undone.
    return [results[number] if number in results else function(items[number]) for number in range(len(items))]


def _undo_all(steps: Sequence[_Step], files: dict[bytes, int]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    pause = 0.002
    while steps and time.monotonic() < deadline:
        remaining: list[_Step] = []
        for step in reversed(steps):
            # A trigger that stays holds its event.
            waits = remaining if step[0] == "unlink" else [one for one in remaining if one[1].endswith(b"/trigger")]
            if waits or not _undo(step, files):
                remaining.append(step)
        steps = remaining[::-1]
        if steps:
            time.sleep(pause)
            pause = min(pause * 2, 0.25)


def _undo(step: _Step, files: dict[bytes, int]) -> bool:
    kind, path, text = step
    try:
        if kind == "unlink":
            os.unlink(path)
        elif kind == "rmdir":
            os.rmdir(path)
        elif kind == "continue":
            _continue(*map(int, path.split()))
        elif path in files:
            os.write(files[path], text)
        else:
            append(path, text)
    except OSError as error:
        return error.errno in _GONE and not (error.errno == errno.EINVAL and _is_defined(path, text))
    return True


def _is_defined(path: bytes, text: bytes) -> bool:
    """Whether an event that was to be removed is still in the kernel's list."""
    with suppress(OSError), open(path, "rb") as file:
        return path.endswith(b"/uprobe_events") and b":%b " % text.strip().removeprefix(b"-:") in file.read()
    return False


def _continue(pid: int, started: int) -> None:
    facts = facts_of(pid)
    if facts is not None and facts.process.started == started and facts.state == "T":
        os.kill(pid, signal.SIGCONT)
