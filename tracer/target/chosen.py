"""Processes by their names, and what is said of those that were chosen.

psutil tells the users and the beginnings. Names are read here: its `name()` and `cmdline()` wait for a page of the
process that may never come, where the name is long.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence

from tracer.errors import TracerError, and_more, printable
from tracer.host.memory import words_of
from tracer.host.named import CUT, comm_of, name_of, of_kernel, zombie
from tracer.host.stat import ENDED, OF_KERNEL, Facts, facts_of, has_others, pids

_SHOWN = 8
_DAY_S = 86400


def of_name(name: str) -> Iterator[int]:
    """The processes that have exactly that name, as the kernel keeps it or in full; this very process is none."""
    for pid in pids():
        comm = comm_of(pid)
        if comm != name and not (len(os.fsencode(comm)) >= CUT and name.startswith(comm) and name_of(pid) == name):
            continue
        facts = facts_of(pid)
        if facts is not None and pid != os.getpid() and _runs(facts):
            yield pid


def _runs(facts: Facts) -> bool:
    """Whether it runs a program."""
    return not facts.flags & OF_KERNEL and (facts.state not in ENDED or has_others(facts.process.pid))


def nobody(name: str) -> TracerError:
    """The error for a name that no process has, or none that can be traced."""
    from tracer.resolve.files.paths import did_you_mean

    names = set()
    for pid in pids():
        facts = facts_of(pid)
        if facts is None or pid == os.getpid():
            continue
        if _runs(facts):
            names.add(name_of(pid))
        elif comm_of(pid) == name:
            return of_kernel(f"process {pid} ({printable(name)})") if facts.flags & OF_KERNEL else zombie(pid)
    return TracerError(
        f"no process has the name {printable(name)}", did_you_mean(name, names) or "list processes with: ps -e"
    )


def said(chosen: Sequence[int]) -> str:
    """A line that names the chosen processes."""
    number = "process" if len(chosen) == 1 else f"{len(chosen)} processes:"
    return f"{number} {and_more(map(_about, chosen[:_SHOWN]), len(chosen))}"


def described(pid: int) -> str:
    """Describes a process with its command line: a line for those who want to know all."""
    try:
        words = words_of(pid).rstrip(b"\0").split(b"\0")
    except OSError:  # it has ended, or its page would have to be waited for
        return _about(pid)
    return f"{_about(pid)}: {' '.join(shlex.quote(printable(os.fsdecode(word))) for word in words)}"


def _about(pid: int) -> str:
    import psutil  # 30 ms, which only who names processes pays, or wants to know all

    try:
        process = psutil.Process(pid)
        about = f"{process.username()}, since {_moment(process.create_time())}"
    except (psutil.Error, OSError):
        about = "ended meanwhile"
    return f"{pid} {printable(name_of(pid))} ({about})"


def _moment(seconds: float) -> str:
    """The time of a day that is not yet over, else the date."""
    is_recent = time.time() - seconds < _DAY_S
    return time.strftime("%H:%M:%S" if is_recent else "%Y-%m-%d", time.localtime(seconds))
