"""A trace from start to end: what is asked, what it consists of, and the loop that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.dataclass import dataclass

if TYPE_CHECKING:
    from tracer.target.running import RunningProcesses


@dataclass(frozen=True, slots=True)
class Request:
    """Whom to trace: `processes`, or the command `argv`, or everybody; with `follow` what they start too. `max_rate` is
    the most hits a second of an attach point, `duration_s` how long there are probes at most. `activation`: the user
    wants semaphores raised by tracer. `quiet`: only what makes the answer incomplete is looked into; `verbose`: all
    there is.
    """

    processes: RunningProcesses | None = None
    argv: tuple[str, ...] | None = None
    follow: bool = False
    max_rate: int | None = None
    activation: bool = False
    duration_s: float | None = None
    quiet: bool = False
    verbose: bool = False
