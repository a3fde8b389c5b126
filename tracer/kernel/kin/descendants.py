"""Tells when a process and all that descend from it have ended. Both backends use it; it needs no BPF."""

from __future__ import annotations

import os

from tracer.errors import TracerError
from tracer.host.polling import readable
from tracer.kernel.kin.inherited import Inherited


class Family:
    """A process and the descendants that it has from now on. A process that execs a program which is set-user-ID for
    somebody else loses its descriptor: the process itself gets another, a descendant is not waited for.
    """

    def __init__(self, pid: int, pidfd: int) -> None:
        """`pidfd` is of the process itself, -1 where there is none. Raises `TracerError`."""
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
        """Becomes readable when one of them has ended, until `ended` has been asked."""
        return self._inherited.fd

    def ended(self) -> bool:
        """Whether all have ended; the process itself only as far as a pidfd tells."""
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
        """A second call does nothing."""
        self._inherited.close()


def _cannot_follow(pid: int, error: OSError) -> TracerError:
    reason = os.strerror(error.errno or 0)
    hint = "without --follow that process alone can be traced"
    return TracerError(f"cannot follow process {pid} (perf_event_open): {reason}", hint)
