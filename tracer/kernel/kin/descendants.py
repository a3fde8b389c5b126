"""Tells when processes and all that descend from them have ended. Both backends use it; it needs no BPF."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable

from tracer.errors import TracerError
from tracer.host.polling import readable
from tracer.kernel.kin.inherited import Inherited


class Family:
    """Some processes and the descendants that they have from now on. A process that execs a program which is
    set-user-ID for somebody else loses its descriptor: one of these gets another, a descendant is not waited for.
    """

    def __init__(self, processes: Iterable[tuple[int, int]]) -> None:
        """Follows each of the processes, which come with a pidfd, -1 where there is none. Raises `TracerError`."""
        self._epoll = select.epoll()
        self._branches: list[_Branch] = []
        try:
            for pid, pidfd in processes:
                self._branches.append(_Branch(pid, pidfd))
                self._epoll.register(self._branches[-1].fd, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    @property
    def fd(self) -> int:
        """Becomes readable when one of them has ended, until `ended` has been asked."""
        return self._epoll.fileno()

    def ended(self) -> bool:
        """Whether all have ended; the processes themselves only as far as a pidfd tells."""
        return all([branch.ended() for branch in self._branches])  # all are asked: that ends what woke who waited

    def close(self) -> None:
        """A second call does nothing."""
        for branch in self._branches:
            branch.close()
        self._epoll.close()


class _Branch:
    """One process with its descendants."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self._pid = pid
        self._pidfd = pidfd
        try:
            self._inherited = Inherited(pid)
            if pidfd >= 0:
                self._inherited.watch(pidfd)
        except OSError as error:
            raise _cannot_follow(pid, error) from None

    @property
    def fd(self) -> int:
        return self._inherited.fd

    def ended(self) -> bool:
        if self._inherited.hung_up():
            if self._pidfd >= 0 and readable([self._pidfd], 0):
                self._pidfd = -1
            if self._pidfd >= 0:
                try:
                    self._inherited.cover()
                except OSError as error:
                    raise _cannot_follow(self._pid, error) from None
        return self._pidfd < 0 and not self._inherited.any

    def close(self) -> None:
        self._inherited.close()


def _cannot_follow(pid: int, error: OSError) -> TracerError:
    reason = os.strerror(error.errno or 0)
    hint = "without --follow that process alone can be traced"
    return TracerError(f"cannot follow process {pid} (perf_event_open): {reason}", hint)
