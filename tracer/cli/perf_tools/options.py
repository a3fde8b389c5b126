"""The options that both commands have, as Typer wants them."""

from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from tracer.cli.options import Backend, Options, Quiet

if TYPE_CHECKING:
    Printing = str
else:
    Printing = Literal["text", "json"]

# Typer reads these at run time and its older versions know no `X | None` there.
Definition = Annotated[
    Optional[str],  # noqa: UP045 - see above
    typer.Argument(metavar="[DEFINITION]", help="Where to probe, and what to show.", show_default=False),
]
Filter = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(metavar="[FILTER]", help="A filter of the kernel's: 'a == 1 && s ~ \"x*\"'.", show_default=False),
]
Listed = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("-l", metavar="FILE", help="List what can be probed in FILE.", show_default=False),
]
Pid = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("-p", metavar="PID", help="Only this process, with all its threads.", show_default=False),
]
Thread = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("-L", metavar="TID", min=1, help="Only this thread.", show_default=False),
]
Seconds = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "-d", "--duration", metavar="SECONDS", help="End after so long; print in large pieces.", show_default=False
    ),
]
Child = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "-c", "--cmd", metavar="COMMAND", help="Start COMMAND, trace only it, end with it.", show_default=False
    ),
]
Header = Annotated[bool, typer.Option("-H", help="Print the heads of the columns.")]
Stack = Annotated[bool, typer.Option("-s", help="Print the user stack after each event.")]
View = Annotated[bool, typer.Option("-v", help="Print the fields that a filter can name, and trace nothing.")]
Force = Annotated[bool, typer.Option("-F", help="No effect: every place is checked before it is probed.")]
Show = Annotated[bool, typer.Option("--show", help="Print the program that the definition means, and trace nothing.")]
Printed = Annotated[Printing, typer.Option("-f", "--format", help="How to print results.")]
Output = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("-o", "--output", metavar="FILE", help="Where to print results.", show_default=False),
]


class Words(Options):
    """The words of a command line of perf-tools."""

    definition: Definition = None
    filter: Filter = None
    listed: Listed = None
    pid: Pid = None
    thread: Thread = None
    duration: Seconds = None
    child: Child = None
    header: Header = False
    stack: Stack = False
    view: View = False
    force: Force = False
    show: Show = False
    format: Printed = "text"
    output: Output = None
    backend: Backend = "auto"
    quiet: Quiet = False
