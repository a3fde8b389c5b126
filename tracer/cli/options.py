"""What several commands share: the types of their options, as Typer wants them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Optional

import typer

from tracer.errors import UsageError
from tracer.render import RENDERERS

Format = Enum("Format", {name.upper(): name for name in RENDERERS}, type=str)  # type: ignore[misc]
"""`-f`."""


Buffering = Enum("Buffering", {"LINE": "line", "FULL": "full", "NONE": "none"}, type=str)
"""`-B`."""

BackendName = Enum("BackendName", {"AUTO": "auto", "BCC": "bcc", "FTRACE": "ftrace"}, type=str)
"""`--backend`."""

_STAGES = ("ast", "typed", "steps", "plan", "program", "bytecode")
Stage = Enum("Stage", {name.upper(): name for name in _STAGES}, type=str)  # type: ignore[misc]
"""`-d`."""

# Typer reads these at run time and its older versions know no `X | None` there.
Pid = Annotated[
    Optional[int],  # noqa: UP045 - see above
    typer.Option("-p", "--pid", metavar="PID", help="Only this process, with all its threads; ends with it."),
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say more.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def checked_pid(pid: int) -> int:
    """Raises `UsageError` for a number that can be no process."""
    if pid <= 0:
        raise UsageError(f"-p {pid}: a process number is positive")
    return pid
