"""The process of `-p`: already running, not ours, and the trace ends with it."""

from __future__ import annotations

import os

from tracer.errors import TracerError
from tracer.host.named import named
from tracer.host.polling import readable
from tracer.host.stat import ENDED, check_numbers, facts_of, has_others, status_of

_OF_KERNEL = 0x0020_0000  # PF_KTHREAD of linux/sched.h: it runs no program at all


class RunningProcess:
    """A process by its number; a descriptor on it keeps a later process of the same number from being taken for it."""

    def __init__(self, pid: int) -> None:
        """Raises `TracerError` where there is no such process, or `pid` is a mere thread of one, or of the kernel."""
        self.pid = pid
        check_numbers()
        group = _thread_group(pid)
        if group is None:
            raise _ended(pid)
        if group != pid:
            raise TracerError(f"{pid} is a thread of {named(group)}", f"-p {group} traces all its threads")
        facts = facts_of(pid)
        if facts is not None and facts.flags & _OF_KERNEL:
            raise TracerError(f"{pid} is a thread of the kernel", "only user programs have probes that can be traced")
        try:
            self.pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise _ended(pid) from None
        except OSError:  # before Linux 5.3
            self.pidfd = -1

    def ended(self) -> bool:
        """Whether it has ended; one that its parent has not reaped yet has."""
        if self.pidfd >= 0:
            return bool(readable([self.pidfd], 0))
        return _thread_group(self.pid) is None

    def close(self) -> None:
        """Lets go of it; the process is not touched."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def __enter__(self) -> RunningProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _ended(pid: int) -> TracerError:
    return TracerError(f"no process {pid}", "list processes with: ps -e")


def _thread_group(pid: int) -> int | None:
    """The process a thread belongs to, None where it has ended (proc(5), status: Tgid and State). A process whose main
    thread has ended goes on with its others.
    """
    try:
        fields = status_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    group = int(fields["Tgid"])
    if fields["State"].startswith(ENDED) and not (group == pid and has_others(pid)):
        return None
    return group
