"""Names processes, and raises the errors for those that run no program."""

from __future__ import annotations

import os
from contextlib import suppress

from tracer.errors import TracerError, printable

CUT = 15
"""The kernel keeps so many bytes of a name."""


def comm_of(pid: int) -> str:
    """The name that the kernel keeps, "" where there is no process. Source: proc(5)."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\n"))
    except OSError:
        return ""


def name_of(pid: int) -> str:
    """The name in full, where the kernel's is cut and the process has not written over its command line; never waits
    for that. "" where there is no process.
    """
    name = comm_of(pid)
    if len(os.fsencode(name)) >= CUT:
        from tracer.host.memory import words_of

        with suppress(OSError):
            longer = os.path.basename(os.fsdecode(words_of(pid).partition(b"\0")[0]))
            name = longer if longer.startswith(name) else name
    return name


def named(pid: int) -> str:
    """A process in an error: its number and its name."""
    name = name_of(pid)
    return f"process {pid} ({printable(name)})" if name else f"process {pid}"


def of_kernel(who: str) -> TracerError:
    """The error for what runs no program."""
    return TracerError(f"{who} is a thread of the kernel", "only user programs have probes that can be traced")


def zombie(pid: int) -> TracerError:
    """The error for what is listed and runs no more."""
    return TracerError(f"{named(pid)} has ended, and is listed until its parent asks for its status (a zombie)")
