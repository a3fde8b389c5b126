"""`tracer usdt`: perf-tools' usdt."""

from typing import Annotated

import typer

from tracer.cli.options import tracing
from tracer.cli.perf_tools import run
from tracer.cli.perf_tools.options import Words

EXAMPLE = "sudo tracer usdt p:/usr/bin/python3:python:gc__start"


@tracing
def command(
    words: Words,
    enabled: Annotated[bool, typer.Option("-i", help="No effect: semaphores are always raised and lowered.")] = False,
) -> int:
    """Trace a USDT probe with a line of perf-tools.

    p:FILE:PROVIDER:NAME, p:FILE:NAME, p:NAME FILE:0xOFFSET [NAME=]VALUE[:TYPE] …

    Without values, the arguments that the note states are shown. Values and types are those of tracer uprobe.
    """
    return run(words, notes=True)
