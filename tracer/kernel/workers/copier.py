"""A process that empties the kernel's rings before anybody else gets the CPU, and does nothing else.

A ring is full after a tenth of a second, and tracer may wait longer than that for its turn behind what it traces. So a
fork of tracer, at a priority above all programs that have none of their own, copies what is in the rings into memory
that both share, as it is; tracer decodes it from there when its turn comes. It is a process and no thread, since a
thread would wait for the interpreter's lock until tracer has had the CPU.

It must never keep others from the CPU for long. It sleeps until a ring is a quarter full or tracer asks; after each
copy that nobody asked for it rests as long as the copy took; the memory that it fills is bounded, and once that is full
it sleeps; and the kernel ends it where it runs for half a second without a sleep (RLIMIT_RTTIME). It holds the rings
and two pipes, no probe, and ends with tracer, also by SIGKILL.

The memory is a page of words, a table of rounds, and their data. A row of the table says where the data are, when the
round began, whether it emptied all rings, and for each ring the position up to which it is emptied and the number of
bytes. A round is published once it is whole, and only then do the rings get their room back: so where somebody kills
the copier, tracer goes on by itself behind the last round, and nothing is lost or read twice.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import signal
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from tracer.host.polling import readable, reaped
from tracer.kernel import perf
from tracer.kernel.perf import Round

_PUBLISHED, _FREED, _FULL = range(3)
_SLOTS = 256
_WORD = 8
_KEPT = 16 << 20
"""Bytes that stay allocated when all that was copied has been read, and the most that is given back at a time."""
_SETTLED_S = 1.0
_PATIENCE_S = 5.0
_GONE_S = 2.0
_START_S = 20.0
"""How long it may take until it answers: a machine may be so busy that a new process waits for its turn."""
_AT_MOST_US = 500_000
_SHORTEST_REST_S = 0.0002

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_PRIORITIES = {
    b"f": "at real-time priority",
    b"n": "at nice -20: the kernel gives it no real-time priority",
    b"-": "at tracer's own priority, as the kernel gives it no other (CAP_SYS_NICE): a flood may lose events",
}


class Copier:
    """The tracer's side: starts the process, and takes rounds out of the memory in the order in which they came."""

    def __init__(self, rings: Sequence[perf.Ring], size: int) -> None:
        """Starts it, with so many bytes of memory. Raises `OSError` where there is no memory or no process."""
        self._rings = rings
        self._memory = _Memory(size, len(rings))
        self._seen = 0
        self.priority = ""
        """The priority with which it runs, for people."""
        go, self._go = os.pipe2(os.O_CLOEXEC)
        self._back, back = os.pipe2(os.O_CLOEXEC)
        try:
            parent = os.getpid()
            self.pid = os.fork()
            if self.pid == 0:
                _run(parent, rings, self._memory, go, back)
        except OSError:
            os.close(self._go)
            os.close(self._back)
            raise
        finally:
            os.close(go)
            os.close(back)
        began = time.monotonic()
        try:
            self.priority = _PRIORITIES.get(self._answer(_START_S), "")
        except OSError:
            self.close()
            raise
        if not self.priority:
            self.close()
            late = time.monotonic() - began >= _START_S
            raise ChildProcessError(errno.ECHILD, "it does not answer" if late else "it ended at once")

    @property
    def runs(self) -> bool:
        """Whether it empties the rings; else whoever has them does."""
        return self.pid > 0

    @property
    def is_full(self) -> bool:
        """Whether it found no room, and is to be asked once there is some."""
        return self._memory.words[_FULL] != 0

    def take(self) -> list[Round]:
        """Returns all rounds that were not taken yet, one of now among them; [] where there is no room for one."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        asked = any(ring.has_data for ring in self._rings)
        if asked:
            self._ask()
        published = self._memory.words[_PUBLISHED]
        rounds = [self._memory.round(number) for number in range(self._seen, published)]
        self._seen = published
        # A ring is emptied after its round is published: so there was nothing.
        return rounds if asked or rounds else [Round(now, True, ())]

    def free(self, done: Round) -> None:
        """Gives back the memory of this round and of those before it."""
        if done.number >= 0:
            self._memory.words[_FREED] = done.number + 1

    def close(self) -> None:
        """Ends the process; a second call does nothing. Rounds that were taken can still be read."""
        if self.pid <= 0:
            return
        os.close(self._go)
        os.close(self._back)
        # As long as it is not reaped the number is its own; where SIGCHLD is ignored the kernel has reaped it.
        with suppress(ProcessLookupError, ChildProcessError):
            if reaped(self.pid, 0) is None:
                os.kill(self.pid, signal.SIGKILL)
                reaped(self.pid, _GONE_S)
        self.pid = 0

    def _ask(self) -> None:
        """Asks for a round. Where the process does not answer, it is ended, and its last round is the one to go on
        from.
        """
        if not self.runs:
            return
        try:
            os.write(self._go, b"?")
            answer = self._answer()
        except OSError:  # it is gone, or not to be reached, which is the same
            answer = b""
        if not answer:
            self.close()
            published = self._memory.words[_PUBLISHED]
            if published:
                for ring, end in zip(self._rings, self._memory.ends(published - 1), strict=True):
                    ring.advance(end)

    def _answer(self, patience: float = _PATIENCE_S) -> bytes:
        return os.read(self._back, 1) if readable((self._back,), patience) else b""


class _Memory:
    """The memory that both processes see: words, and numbered rounds, each at an offset that a table tells."""

    def __init__(self, size: int, rings: int) -> None:
        self.size = size
        self._row = struct.Struct(f"={3 + 2 * rings}Q")
        page = mmap.PAGESIZE
        self._data_at = page - (-_SLOTS * self._row.size // page) * page
        self._map = mmap.mmap(-1, self._data_at + size)  # shared, and given by the kernel as it is written
        self._table = memoryview(self._map)[page : self._data_at]
        self.words = memoryview(self._map)[:page].cast("Q")
        self.data = memoryview(self._map)[self._data_at :]

    def write(self, number: int, start: int, began: int, complete: bool, ends: Sequence[int]) -> None:
        """Writes all of a round but its data, which begins at `start`; `ends`: for each ring the position and the
        number of bytes.
        """
        self._row.pack_into(self._table, number % _SLOTS * self._row.size, start, began, complete, *ends)

    def round(self, number: int) -> Round:
        """A published round that was not freed."""
        start, began, complete, *ends = self._row.unpack_from(self._table, number % _SLOTS * self._row.size)
        blocks = []
        for length in ends[1::2]:
            if length:
                blocks.append(self.data[start : start + length])
                start += length
        return Round(began, bool(complete), blocks, number)

    def ends(self, number: int) -> Sequence[int]:
        """The positions up to which a round emptied each ring; it must be the last."""
        return self._row.unpack_from(self._table, number % _SLOTS * self._row.size)[3::2]

    def give_back(self, start: int, length: int) -> None:
        """The kernel may have these pages, which nothing is in."""
        with suppress(OSError):  # then they stay
            self._map.madvise(mmap.MADV_REMOVE, self._data_at + start, length)


class _Copying:
    """The process's side: takes what is in the rings into the memory."""

    def __init__(self, rings: Sequence[perf.Ring], memory: _Memory) -> None:
        self._rings = rings
        self._memory = memory
        self._used: deque[tuple[int, int]] = deque()
        self._published = 0
        self._highest = 0

    @property
    def wants_rest(self) -> bool:
        """Whether there is memory to give back."""
        return self._highest > _KEPT

    def take(self, asked: bool) -> None:
        """Copies one round; where the rings are empty, only for one who asked."""
        memory = self._memory
        self._forget_freed()
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        spans = [ring.span for ring in self._rings]
        size = sum(head - tail for tail, head in spans)
        if not size and not asked:
            return
        free, end = self._room(size)
        if len(self._used) == _SLOTS:
            memory.words[_FULL] = 1
            return
        ends: list[int] = []
        start, complete = free, True
        for ring, (tail, head) in zip(self._rings, spans, strict=True):
            length = head - tail
            if free + length > end:
                head, length, complete = tail, 0, False
            elif length:
                ring.copy(tail, head, memory.data[free : free + length])
                free += length
            ends += (head, length)
        memory.words[_FULL] = not complete
        if not complete and free == start:
            return
        memory.write(self._published, start, began, complete, ends)
        self._used.append((start, free))
        self._highest = max(self._highest, free)
        self._published += 1
        memory.words[_PUBLISHED] = self._published
        for ring, head in zip(self._rings, ends[::2], strict=True):
            ring.advance(head)

    def give_back(self) -> None:
        """Gives back some of the memory, where all that was copied has been read."""
        self._forget_freed()
        if not self._used:
            length = min(self._highest - _KEPT, _KEPT)
            page = mmap.PAGESIZE
            self._highest = (self._highest - length) // page * page
            self._memory.give_back(self._highest, -(-length // page) * page)

    def _forget_freed(self) -> None:
        for _ in range(self._memory.words[_FREED] - (self._published - len(self._used))):
            self._used.popleft()

    def _room(self, wanted: int) -> tuple[int, int]:
        """The room into which a round of so many bytes may go; less where it does not fit anywhere. It never ends where
        the oldest begins: that would look as if nothing were used.
        """
        size = self._memory.size
        if not self._used:
            return 0, size
        oldest, end = self._used[0][0], self._used[-1][1]
        if end < oldest:
            return end, oldest - _WORD
        return (end, size) if wanted <= size - end or size - end >= oldest else (0, oldest - _WORD)


def _run(parent: int, rings: Sequence[perf.Ring], memory: _Memory, go: int, back: int) -> None:
    """The process; never returns. It is a fork: what else it has of tracer's it must not touch."""
    try:
        _live(parent, rings, memory, go, back)
    finally:
        os._exit(0)


def _live(parent: int, rings: Sequence[perf.Ring], memory: _Memory, go: int, back: int) -> None:
    import gc

    gc.disable()
    signal.set_wakeup_fd(-1)
    for number in (*_FOR_TRACER, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    kept = sorted({go, back, *(ring.fd for ring in rings)})
    highest = max(map(int, os.listdir("/proc/self/fd"))) + 1
    for low, high in zip([-1, *kept], [*kept, highest], strict=True):
        os.closerange(low + 1, high)
    # Not before: killed while it closes the descriptor of a probe, it could not take the breakpoint out (`watcher`).
    perf.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    perf.prctl(_PR_SET_NAME, b"tracer-copier")
    if os.getppid() != parent:
        return
    for ring in rings:
        ring.remap()
    os.write(back, _raise_priority())
    copying = _Copying(rings, memory)
    poll = select.poll()
    for fd in kept:
        if fd != back:
            poll.register(fd, select.POLLIN)
    while True:
        ready = poll.poll(_SETTLED_S * 1000 if copying.wants_rest else None)
        if not ready:
            copying.give_back()
            continue
        asked = False
        for fd, what in ready:
            if fd == go:
                if not os.read(go, 1):
                    return
                asked = True
            elif what != select.POLLIN:
                poll.unregister(fd)  # its CPU is gone: this would be told for ever
        begun = time.process_time()
        copying.take(asked)
        if asked:
            os.write(back, b".")
        else:
            time.sleep(max(time.process_time() - begun, _SHORTEST_REST_S))


_FOR_TRACER = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
"""What is sent to all processes of a terminal or a service: tracer ends, and then this one."""


def _raise_priority() -> bytes:
    """The highest that is allowed of those that harm nobody; which one, as a letter of `_PRIORITIES`."""
    import resource

    resource.setrlimit(resource.RLIMIT_RTTIME, (_AT_MOST_US, _AT_MOST_US))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return b"f"
    except OSError:  # no CAP_SYS_NICE, or a control group without a share of real time
        pass
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        return b"n"
    except OSError:
        return b"-"
