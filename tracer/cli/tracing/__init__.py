"""A trace as the command line runs it: signals, results on stdout, talk on stderr, and the end."""

from __future__ import annotations

from typing import Any

from tracer.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Printing:
    """How results are printed, and where: in `format`, maps of stacks as `stacks` says (`stacks.Wanted`, or None), to
    the file `output`, or to stdout. `failures`: what could not be read is told with the results, too. `warnings` are
    printed, what warnf() says too. `raw`: a terminal gets values as they are.
    """

    format: str = "text"
    output: str | None = None
    buffering: str = "line"
    stacks: Any = None
    failures: bool = False
    warnings: bool = True
    raw: bool = False
