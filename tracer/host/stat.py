"""Lists processes and threads, and reads what /proc/PID/stat tells of one. Source: proc(5).

Read here and not by psutil, which takes 30 ms to import at each start and tells neither a thread's numbers nor the
flags and the exact start of a process. Its names may wait for a page of the process.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

from tracer.dataclass import dataclass
from tracer.errors import TracerError

ENDED = ("Z", "X")
"""The states of what has ended."""

EXITING = 0x4  # PF_EXITING of linux/sched.h: it is about to
OF_KERNEL = 0x0020_0000  # PF_KTHREAD: it runs no program at all
_KILLED = 1 << 8  # the bit of SIGKILL


def threads_of(*processes: int) -> list[int]:
    """The threads of some processes, none of one that has ended."""
    threads: list[int] = []
    for pid in processes:
        with suppress(FileNotFoundError, ProcessLookupError):
            threads += sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    return threads


def directory(pid: int) -> str:
    """The directory of /proc that shows the memory and the files of a process: its own, or where its main thread has
    ended before the others that of one of these, which /proc has too though it does not list it.
    """
    facts = facts_of(pid)
    if facts is not None and facts.state in ENDED:
        for thread in threads_of(pid):
            facts = facts_of(pid, thread)
            if facts is not None and facts.state not in ENDED and not facts.flags & EXITING:
                return f"/proc/{thread}"
    return f"/proc/{pid}"


def has_others(pid: int) -> bool:
    """Whether a thread of a process beside the main one goes on; one that is being killed does not."""
    for thread in threads_of(pid):
        facts = facts_of(pid, thread) if thread != pid else None
        if facts is not None and facts.state not in ENDED and not facts.flags & EXITING:
            try:
                pending = int(status_of(f"{pid}/task/{thread}")["SigPnd"], 16)
            except (OSError, KeyError):
                continue
            if not pending & _KILLED:
                return True
    return False


@dataclass(frozen=True, slots=True)
class Process:
    """The identity of a process, even if its number is used again: the number and when it started, in clock ticks since
    boot.
    """

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Fields of /proc/PID/stat; `state` is a letter of proc(5), `flags` are the PF_ bits of linux/sched.h."""

    process: Process
    state: str
    parent: int
    flags: int


def facts_of(pid: int, thread: int | None = None) -> Facts | None:
    """The facts of a process, or of a thread of it; None where there is none. The second field of the line, a name in
    brackets, may hold anything.
    """
    try:
        with open(f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Facts(Process(pid, int(fields[19])), fields[0].decode(), int(fields[1]), int(fields[6]))


def has_ended(thread: int, began_ns: int) -> bool:
    """Whether the thread of that number has ended that ran at a time of the boot clock."""
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    facts = facts_of(thread)
    # One that began later, by more than the tick in which that is told, has only the number of ours.
    return facts is None or facts.state in ENDED or facts.process.started * tick_ns > began_ns + tick_ns


def status_of(pid: int | str) -> dict[str, str]:
    """The fields of /proc/PID/status. Raises `OSError`."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as lines:
        return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}


def pids() -> list[int]:
    """The numbers of all processes that are seen from here."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(of: Collection[int]) -> list[int]:
    """The processes that descend from some, are none of these, and run now. Tracer itself and what it has started are
    left out, and those through which it descends from one, as from a shell. psutil tells the same of one process, in
    twice the time.
    """
    every = {pid: facts for pid in pids() if (facts := facts_of(pid)) is not None}
    parents = {pid: facts.parent for pid, facts in every.items()}
    ended = {pid for pid, facts in every.items() if facts.state in ENDED}
    above = os.getpid()
    lineage = {above}
    while (above := parents.get(above, 0)) and above not in lineage:
        lineage.add(above)

    def counts(pid: int) -> bool:
        seen = {pid}
        if pid in lineage or pid in of:
            return False
        while (above := parents.get(pid, 0)) and above not in of and above not in seen:
            if above == os.getpid():
                return False
            seen.add(pid := above)
        return above in of

    return sorted(pid for pid in filter(counts, parents) if pid not in ended or has_others(pid))


def identity(pid: int) -> Process | None:
    """The process of a number with its start; None where there is none."""
    facts = facts_of(pid)
    return None if facts is None else facts.process


def check_numbers() -> None:
    """Raises `TracerError` where /proc is of another pid namespace: the process of our number is another one there."""
    try:
        known_as = os.readlink("/proc/self")
    except OSError:
        return  # it shows nothing of us, or is not mounted; what needs it says so
    if known_as != str(os.getpid()):
        hint = "mount this namespace's own: mount -t proc proc /proc (unshare has --mount-proc)"
        raise TracerError("/proc shows another pid namespace, whose process numbers differ", hint)


def gone(pid: int) -> TracerError:
    """The error for a process that does not exist."""
    return TracerError(f"there is no process {pid}", "it may have ended; `pgrep -a NAME` lists those that run")
