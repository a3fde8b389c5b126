"""`tracer usdt`: perf-tools' usdt."""

from typing import Annotated

import typer

from tracer.cli.options import Backend, Quiet
from tracer.cli.perf_tools import Words, run
from tracer.cli.perf_tools.options import (
    Child,
    Definition,
    Filter,
    Force,
    Header,
    Listed,
    Output,
    Pid,
    Printed,
    Seconds,
    Show,
    Stack,
    Thread,
    View,
)

EXAMPLE = "sudo tracer usdt p:/usr/bin/python3:python:gc__start"


def command(
    definition: Definition = None,
    filter: Filter = None,
    listed: Listed = None,
    pid: Pid = None,
    thread: Thread = None,
    duration: Seconds = None,
    child: Child = None,
    header: Header = False,
    stack: Stack = False,
    view: View = False,
    enabled: Annotated[bool, typer.Option("-i", help="No effect: semaphores are always raised and lowered.")] = False,
    force: Force = False,
    show: Show = False,
    format: Printed = "text",
    output: Output = None,
    backend: Backend = "auto",
    quiet: Quiet = False,
) -> int:
    """Trace a USDT probe with a line of perf-tools.

    p:FILE:PROVIDER:NAME, p:FILE:NAME, p:NAME FILE:0xOFFSET [NAME=]VALUE[:TYPE] …

    Without values, the arguments that the note states are shown. Values and types are those of tracer uprobe.
    """
    return run(
        Words(
            True, definition, filter, listed, pid, thread, duration, child, header, stack, view, show, format, output,
            backend, quiet,
        )
    )  # fmt: skip
