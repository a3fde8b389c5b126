"""`tracer uprobe`: perf-tools' uprobe, and lines of uprobe_events."""

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
    Profile,
    Seconds,
    Show,
    Stack,
    Thread,
    View,
)

EXAMPLE = "sudo tracer uprobe 'r:bash:readline +0($retval):string'"


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
    force: Force = False,
    show: Show = False,
    profile: Profile = False,
    format: Printed = "text",
    output: Output = None,
    backend: Backend = "auto",
    quiet: Quiet = False,
) -> int:
    r"""Trace with a line of perf-tools' uprobe or of uprobe_events.

    p:FILE:FUNCTION, r:FILE:FUNCTION, p:NAME FILE:0xOFFSET [NAME=]VALUE[:TYPE] …

    Values: %REG, @ADDRESS, @+OFFSET, $stack, $stackN, $retval, $comm, \NUMBER, +OFFSET(VALUE), -OFFSET(VALUE).
    Types: u8 to u64, s8 to s64, x8 to x64, char, string, ustring, b5@3/32, and an array of each, u32[4].
    """
    if profile:
        from tracer.cli import standing
        from tracer.errors import UsageError

        if definition is not None or listed is not None:
            raise UsageError("--profile takes no definition", "tracer uprobe --profile")
        return standing.profile(format == "json")
    return run(
        Words(
            False, definition, filter, listed, pid, thread, duration, child, header, stack, view, show, format, output,
            backend, quiet,
        )
    )  # fmt: skip
