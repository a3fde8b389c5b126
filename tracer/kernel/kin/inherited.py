"""Perf descriptors that tell when they are taken away from a process's threads and from what these start."""

from __future__ import annotations

import errno
import mmap
import os
import select

from tracer.host.stat import threads_of
from tracer.kernel import perf

_ROUNDS = 4
"""How often a process is asked for threads that are not known yet: one that came in between may have been started by
one that had no descriptor to inherit.
"""


class Inherited:
    """A perf descriptor that measures nothing on each thread of a process, inherited by what that starts.

    Each hangs up (poll(2)) when the last task that has it ends, which wakes a waiting poll at once (tried on 6.1 and
    6.18; kernel/events/core.c, is_event_hup). A process that execs a program which is set-user-ID for somebody else
    loses it. Where another thread than the main one execs, its own go on.
    """

    def __init__(self, pid: int, flags: int = perf.INHERIT, sample_type: int = perf.SAMPLE_TIME) -> None:
        """Opens the event in each thread; without `perf.INHERIT` in the main thread alone. Raises `OSError`."""
        self._pid = pid
        self._flags = flags | perf.DISABLED
        self._sample_type = sample_type
        self._epoll = select.epoll()
        self._threads: dict[int, int] = {}
        # A descriptor polls as hung up where it has no ring, and an inherited one has a ring only on one CPU; which one
        # does not matter.
        self._cpu = perf.online_cpus()[0] if flags & perf.INHERIT else -1
        self._ring: perf.Ring | None = None
        try:
            self.cover()
        except BaseException:
            self.close()
            raise

    @property
    def fd(self) -> int:
        """Becomes readable when one has hung up, until `hung_up` has been asked."""
        return self._epoll.fileno()

    @property
    def any(self) -> bool:
        """Whether some have not hung up."""
        return bool(self._threads)

    def hung_up(self) -> int:
        """The number that have hung up since the last time; what else `watch` was told of counts too."""
        ready = self._epoll.poll(0)
        for fd, _ in ready:
            self._epoll.unregister(fd)
            if self._threads.pop(fd, None) is not None:
                self._close(fd)
        return len(ready)

    def watch(self, fd: int) -> None:
        """Lets the end of this wake who waits, too."""
        self._epoll.register(fd, select.EPOLLIN)

    def cover(self) -> None:
        """A descriptor for each thread that is not known to have one. Raises `OSError`."""
        every = bool(self._flags & perf.INHERIT)
        seen = set(self._threads.values())
        for _ in range(_ROUNDS):
            new = set(threads_of(self._pid) if every else [self._pid]) - seen
            seen |= new
            for thread in new:
                try:
                    fd = self._open(thread)
                except OSError as error:
                    if error.errno != errno.ESRCH:  # it has ended meanwhile
                        raise
                    continue
                self._threads[fd] = thread
                self._epoll.register(fd, 0)

    def close(self) -> None:
        """A second call does nothing."""
        for fd in self._threads:
            self._close(fd)
        self._threads = {}
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self._epoll.close()

    def _open(self, thread: int) -> int:
        """Opens the event in a thread. One ring serves all, and lives as long."""
        if self._ring is None:
            self._ring = perf.Ring(
                self._cpu, mmap.PAGESIZE, None, self._flags, pid=thread, sample_type=self._sample_type
            )
            return self._ring.fd
        return self._ring.share(thread)

    def _close(self, fd: int) -> None:
        if self._ring is None or fd != self._ring.fd:
            os.close(fd)
