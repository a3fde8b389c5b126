"""What several commands share: the types of their options, as Typer wants them."""

from typing import Annotated, Literal, Optional

import typer

from tracer.errors import UsageError

Format = Literal["text", "json"]
"""`-f`: a name of `render.RENDERERS`."""
Buffering = Literal["line", "full", "none"]
"""`-B`."""
BackendName = Literal["auto", "bcc", "ftrace"]
"""`--backend`."""
Stage = Literal["ast", "typed", "steps", "plan", "program", "bytecode"]
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
