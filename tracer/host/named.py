"""What a process is called in an error."""

from __future__ import annotations

import os
from contextlib import suppress

from tracer.errors import printable

_CUT = 15
"""The kernel keeps so many bytes of a name."""


def named(pid: int) -> str:
    """A process in an error: its number and its name."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = os.fsdecode(file.read().rstrip(b"\n"))
    except OSError:
        return f"process {pid}"
    if len(name) >= _CUT:
        from tracer.host.memory import words_of

        with suppress(OSError):
            longer = os.path.basename(os.fsdecode(words_of(pid).partition(b"\0")[0]))
            name = longer if longer.startswith(name) else name
    return f"process {pid} ({printable(name)})"
