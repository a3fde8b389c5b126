"""What is said when a trace has ended: what makes its answer incomplete, and why it may be silent."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tracer.render.loss import loss_messages

if TYPE_CHECKING:
    from tracer.plan.model import Plan
    from tracer.resolve.model import Target
    from tracer.tracing import Outcome


def closing_lines(
    plan: Plan, target: Target, outcome: Outcome, backend: str | None = None, quiet: bool = False
) -> Iterator[str]:
    """The lines, without an end of line; none where all is well. `quiet` leaves out why nothing was hit."""
    yield from loss_messages(outcome.loss, plan.program)
    if backend == "ftrace" and outcome.loss.events and _says_exit(plan):
        # Its exit() is found in the events; that of bcc is a flag in the kernel, which nothing can lose.
        yield "exit() may be among what was lost: what came after it may have been counted"
    if outcome.attached and outcome.hits == 0 and not quiet:
        yield from _silence(plan, target)


def _says_exit(plan: Plan) -> bool:
    """Whether a probe, not an interval, can end the trace."""
    from tracer.lang.typed import Exit
    from tracer.lang.walk import walk_clause

    return any(isinstance(node, Exit) for probe in plan.probes for node in walk_clause(probe.clause))


def _silence(plan: Plan, target: Target) -> Iterator[str]:
    """Why nothing may have been hit: the file is not in use, or simply nothing came by."""
    paths = sorted({site.path for site in plan.sites})
    if target.program is not None and not target.follow and (others := _not_its_own(target.program, paths)):
        name = os.path.basename(target.program)
        yield f"no probe was hit: {name} itself does not use {others}; --follow traces what it starts, too"
        return
    if target.pid is not None and not os.path.exists(f"/proc/{target.pid}"):
        yield "no probe was hit"
        return
    pid = None if target.follow else target.pid
    unused = ", ".join(path for path in paths if not _is_mapped(path, pid))
    if not unused:
        yield "no probe was hit"
    elif pid is not None:
        from tracer.resolve.processes.stat import named

        yield f"no probe was hit: {named(pid)} has not loaded {unused}"
    else:
        yield f"no probe was hit: no process that runs now has loaded {unused}"


def _not_its_own(program: str, paths: Collection[str]) -> str:
    """The files, if all are neither the program of `-c`, nor what runs it, nor one of their libraries: then it may be
    what the program starts that uses them. "" else.
    """
    from tracer.errors import TracerError
    from tracer.resolve.files.loaded import loaded_files

    try:
        own = loaded_files(program)
        others = [path for path in paths if not any(os.path.samefile(path, each) for each in own)]
    except (OSError, TracerError):
        return ""
    return ", ".join(others) if len(others) == len(paths) else ""


def _is_mapped(path: str, pid: int | None) -> bool:
    """Whether the process, or any for None, has this very file mapped to run; True where the file is gone."""
    from tracer.resolve.processes.maps import users

    try:
        inode = os.stat(path).st_ino
    except OSError:
        return True
    return bool(users({inode}, pid))
