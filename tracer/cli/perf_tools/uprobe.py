"""`tracer uprobe`: perf-tools' uprobe, and lines of uprobe_events."""

from typing import Annotated

import typer

from tracer.cli.options import tracing
from tracer.cli.perf_tools import run
from tracer.cli.perf_tools.options import Words

EXAMPLE = "sudo tracer uprobe 'r:bash:readline +0($retval):string'"


@tracing
def command(
    words: Words,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print hits and misses of every probe that stands in the kernel.")
    ] = False,
) -> int:
    r"""Trace with a line of perf-tools' uprobe or of uprobe_events.

    p:FILE:FUNCTION, r:FILE:FUNCTION, p:NAME FILE:0xOFFSET [NAME=]VALUE[:TYPE] …

    Values: %REG, @ADDRESS, @+OFFSET, $stack, $stackN, $retval, $comm, \NUMBER, +OFFSET(VALUE), -OFFSET(VALUE).
    Types: u8 to u64, s8 to s64, x8 to x64, char, string, ustring, b5@3/32, and an array of each, u32[4].
    """
    if profile:
        from tracer.cli import standing
        from tracer.errors import UsageError

        if words.definition is not None or words.listed is not None:
            raise UsageError("--profile takes no definition", "tracer uprobe --profile")
        return standing.profile(words.format == "json")
    return run(words, notes=False)
