"""Holds the perf descriptors of a process's threads in their places, and sees when an exec has taken them away.

The kernel ends all perf events of a task that execs a program which its caller may not look into: one that is
set-user-ID or set-group-ID for another identity (`begin_new_exec`, `perf_event_exit_task`). The process lives on under
its pid, and nothing would count any more. Where a thread that is not the main one execs, its own events go on, also as
those of the main thread that it becomes; those of all other threads end.

An event names the task that it was opened for, or inherited by, and a uprobe is placed where that task has its memory.
But the scheduler lets two tasks that have inherited the same events swap these (perf_event_context_sched_out): when the
main thread ends, the event that ends may be the one that names another, and what names the main thread, which has no
memory any more, stays with the other. What that maps from then on, by dlopen or by an exec, has no breakpoints (6.18:
half of the runs beside a busy CPU). Tasks with an inherited event that samples its own count (SAMPLE_READ, Linux 6.12)
are never swapped, so each thread has one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from tracer.backends.ftrace.attach.model import CannotOpen, ProcessEnded
from tracer.host.stat import ENDED, facts_of
from tracer.kernel import perf
from tracer.kernel.kin.inherited import Inherited

_SEPARATE = perf.SAMPLE_READ | perf.SAMPLE_TID | perf.SAMPLE_TIME


class Leader:
    """Descriptors on the threads of a process that measure nothing, and hang up (poll(2)) when they are taken away."""

    def __init__(self, pid: int, inherit_thread: bool, anchored: bool) -> None:
        """`anchored`: breakpoints do not depend on who is named. Raises `OSError`, ESRCH where there is none."""
        self._pid = pid
        self._inherited = _inherited(pid, inherit_thread, anchored)
        if not self._inherited.any:
            self.close()
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))

    @property
    def fd(self) -> int:
        """Readable when one has hung up, until `look`."""
        return self._inherited.fd

    def look(self) -> None:
        """Takes note of those that have hung up."""
        self._inherited.hung_up()

    @property
    def hung_up(self) -> bool:
        """Whether all have."""
        return not self._inherited.any

    def has_execed(self) -> bool:
        """Whether all hung up though the process has a living main thread, which then is another program's.

        A main thread that ended before the others stays as a zombie, and theirs are still counted.
        """
        facts = facts_of(self._pid) if self.hung_up else None
        return facts is not None and facts.state not in ENDED

    def close(self) -> None:
        """A second call does nothing."""
        self._inherited.close()


def _inherited(pid: int, inherit_thread: bool, anchored: bool) -> Inherited:
    """Opens them on each thread, where what threads inherit can be relied on; else on the main thread alone, whose end
    by another thread's exec is then answered by opening all anew.
    """
    flags = perf.INHERIT | perf.INHERIT_THREAD if inherit_thread else 0
    if flags:
        try:
            return Inherited(pid, flags, _SEPARATE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    return Inherited(pid, flags if anchored else 0)


class Leaders:
    """The main threads of a trace's processes; a process that ends has none any more."""

    def __init__(self, pids: Sequence[int], inherit_thread: bool, anchored: bool) -> None:
        """Raises `TracerError`, `ProcessEnded` where none of them runs."""
        self._how = inherit_thread, anchored
        self._by_process: dict[int, Leader] = {}
        try:
            for pid in pids:
                with suppress(ProcessEnded):
                    self.renew(pid)
        except BaseException:
            self.close()
            raise
        if pids and not self._by_process:
            raise ProcessEnded(pids[0])

    def renew(self, pid: int) -> None:
        """Another for what the process runs now. Raises `TracerError`."""
        self.drop(pid)
        try:
            self._by_process[pid] = Leader(pid, *self._how)
        except OSError as error:
            raise ProcessEnded(pid) if error.errno == errno.ESRCH else CannotOpen(error) from None

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable when one has hung up, until `look`."""
        return tuple(leader.fd for leader in self._by_process.values())

    def look(self) -> None:
        """Takes note of those that have hung up."""
        for leader in self._by_process.values():
            leader.look()

    def any_hung_up(self) -> bool:
        """Whether all have of a process that has not ended as far as is known: it may be about to exec."""
        for pid, leader in list(self._by_process.items()):
            if leader.hung_up:
                if facts_of(pid) is not None:
                    return True
                self.drop(pid)
        return False

    def execed(self) -> list[int]:
        """The processes that run another program now, without the descriptors."""
        return [pid for pid, leader in self._by_process.items() if leader.has_execed()]

    def drop(self, pid: int) -> None:
        """Closes that of one process, if it has one."""
        if (leader := self._by_process.pop(pid, None)) is not None:
            leader.close()

    def close(self) -> None:
        """A second call does nothing."""
        for pid in [*self._by_process]:
            self.drop(pid)


def takes_descriptors(program: str | None) -> bool:
    """Whether to exec this file can take descriptors away: it is set-user-ID or set-group-ID."""
    if program is None:
        return False
    try:
        return bool(os.stat(program).st_mode & (stat.S_ISUID | stat.S_ISGID))
    except OSError:
        return False
