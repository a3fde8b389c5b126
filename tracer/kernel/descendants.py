"""Tells when a process and all that descend from it have ended. Both backends use it; it needs no BPF."""

from __future__ import annotations

import errno
import mmap
import os
import select

from tracer.errors import TracerError
from tracer.kernel import perf
from tracer.resolve.processes.stat import threads_of

_ROUNDS = 4
"""How often a process is asked for threads that are not known yet: one that came in between may have been started by
one that had no descriptor to inherit.
"""


class Family:
    """A process and the descendants that it has from now on.

    Each of its threads gets a perf descriptor that measures nothing and is inherited by what that starts. It hangs
    up (poll(2)) when the last task that has it ends, which wakes a waiting poll at once (tried on 6.1 and 6.18;
    kernel/events/core.c, is_event_hup). A process that execs a program which is set-user-ID for somebody else loses it:
    the process itself gets another, a descendant is not waited for.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        """`pidfd` is of the process itself, -1 where there is none. Raises `TracerError`."""
        self._pid = pid
        self._epoll = select.epoll()
        self._rings: dict[int, perf.Ring] = {}
        self._threads: dict[int, int] = {}
        self._pidfd = pidfd
        try:
            if pidfd >= 0:
                self._epoll.register(pidfd, select.EPOLLIN)
            self._cover()
        except BaseException:
            self.close()
            raise

    @property
    def fd(self) -> int:
        """Becomes readable when one of them has ended, until `ended` has been asked."""
        return self._epoll.fileno()

    def ended(self) -> bool:
        """Whether all have ended; the process itself only as far as a pidfd tells."""
        hung_up = 0
        for fd, _ in self._epoll.poll(0):
            self._epoll.unregister(fd)
            if fd == self._pidfd:
                self._pidfd = -1
            else:
                self._rings.pop(fd).close()
                del self._threads[fd]
                hung_up += 1
        if hung_up and self._pidfd >= 0:
            self._cover()
        return self._pidfd < 0 and not self._rings

    def close(self) -> None:
        """A second call does nothing."""
        for ring in self._rings.values():
            ring.close()
        self._rings = {}
        self._epoll.close()

    def _cover(self) -> None:
        """A descriptor for each thread that is not known to have one."""
        seen = set(self._threads.values())
        for _ in range(_ROUNDS):
            new = set(threads_of(self._pid)) - seen
            seen |= new
            for thread in new:
                self._add(thread)

    def _add(self, thread: int) -> None:
        try:
            # Without a ring a descriptor always polls as hung up, and an inherited one has a ring only on one CPU;
            # which one does not matter.
            cpu = perf.online_cpus()[0]
            ring = perf.Ring(cpu, mmap.PAGESIZE, None, perf.INHERIT | perf.DISABLED, pid=thread)
        except OSError as error:
            if error.errno == errno.ESRCH:
                return  # it has ended meanwhile
            raise TracerError(
                f"cannot follow process {thread} (perf_event_open): {os.strerror(error.errno or 0)}",
                "without --follow that process alone can be traced",
            ) from None
        self._rings[ring.fd] = ring
        self._threads[ring.fd] = thread
        self._epoll.register(ring.fd, 0)
