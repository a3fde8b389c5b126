"""Sees when a process has exec'ed in a way that took its descriptors away.

The kernel ends all perf events of a task that execs a program which its caller may not look into: one that is
set-user-ID or set-group-ID for another identity (`begin_new_exec`, `perf_event_exit_task`). The same happens to those
of the main thread where another thread execs. The process lives on under its pid, and nothing would count any more.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat

from tracer.backends.ftrace.read.descriptors import CannotOpen, ProcessEnded
from tracer.kernel import perf
from tracer.resolve.processes.stat import facts_of


class Leader:
    """A descriptor on the main thread that measures nothing and hangs up (poll(2)) when it is taken away."""

    def __init__(self, pid: int) -> None:
        """Raises `OSError`, ESRCH where the process has ended."""
        self._pid = pid
        # Without a ring a perf descriptor always polls as hung up.
        self._ring = perf.Ring(-1, mmap.PAGESIZE, None, pid=pid)
        self.hung_up = False

    @property
    def fd(self) -> int:
        """To be polled while it has not `hung_up`."""
        return self._ring.fd

    def has_execed(self) -> bool:
        """Whether it hung up though the process has a living main thread, which then is another program's.

        A main thread that ended before the others stays as a zombie, and theirs are still counted.
        """
        facts = facts_of(self._pid) if self.hung_up else None
        return facts is not None and facts.state not in ("Z", "X")

    def close(self) -> None:
        """A second call does nothing."""
        self._ring.close()


def leader_of(pid: int | None) -> Leader | None:
    """The leader of a process; None for no process. Raises `TracerError`."""
    if pid is None:
        return None
    try:
        return Leader(pid)
    except OSError as error:
        raise ProcessEnded(pid) if error.errno == errno.ESRCH else CannotOpen(error) from None


def takes_descriptors(program: str | None) -> bool:
    """Whether to exec this file can take descriptors away: it is set-user-ID or set-group-ID."""
    if program is None:
        return False
    try:
        return bool(os.stat(program).st_mode & (stat.S_ISUID | stat.S_ISGID))
    except OSError:
        return False
