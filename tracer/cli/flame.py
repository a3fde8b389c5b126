"""`tracer flame`: a flame graph, or another document of stacks, of a run or of what was saved of one."""

# Annotations are values here: Typer would evaluate each of their texts at every start.
import os
import sys
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tracer.cli.options import (
    Backend,
    BackendName,
    Child,
    Children,
    Duration,
    Expression,
    Follow,
    Pids,
    Quiet,
    StackFormat,
    Verbose,
    check_whom,
    command_of,
    processes_of,
    seconds_of,
)
from tracer.errors import Source, TracerError, UsageError

if TYPE_CHECKING:
    from tracer.cli.tracing.stacks import Wanted

_MOST_BYTES = 1 << 28

EXAMPLE = "sudo tracer flame -e 'uprobe:libc:malloc { @[ustack] = count(); }' -c 'ls /' -o malloc.html"


def command(
    files: Annotated[
        Optional[list[str]],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Argument(
            metavar="[FILE]…", help="Folded stacks, or what -f json printed (- is stdin).", show_default=False
        ),
    ] = None,
    expression: Expression = None,
    pids: Pids = None,
    children: Children = False,
    child: Child = None,
    follow: Follow = False,
    backend: Backend = "auto",
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to write; the ending chooses the format.", show_default=False
        ),
    ] = None,
    stacks: Annotated[
        Optional[StackFormat],  # noqa: UP045
        typer.Option("--stacks", help="The format; without it that of FILE, else html.", show_default=False),
    ] = None,
    maps: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--map", metavar="@NAME", help="Only this map; can be given several times.", show_default=False),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--diff", help="Show how the second of two maps or files differs from the first.")
    ] = False,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="A heading.", show_default=False)] = "",
    unit: Annotated[
        str, typer.Option("--unit", metavar="WORD", help="The unit of the values, such as bytes.", show_default=False)
    ] = "",
    duration: Duration = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Write a flame graph of a map of stacks.

    The map is that of a program (-e), or was saved by --stacks folded or -f json.
    """
    from tracer.cli.tracing.stacks import Wanted, check_output
    from tracer.render.stacks import format_of

    format = stacks or (format_of(output) if output is not None else None) or "html"
    check_output(format, output)
    wanted = Wanted(format, tuple(maps or ()), compare, title, unit)
    if expression is not None:
        if files:
            raise UsageError("a program and files cannot be used together", "tracer run --stacks takes $1, $2, …")
        seconds = seconds_of(duration)
        return _traced(
            Source(expression), wanted, pids, children, child, follow, backend, output, seconds, quiet, verbose
        )
    if pids or children or child is not None or follow or duration is not None:
        raise UsageError("-p, -c, --follow, --children and --duration need a program", "give one with -e 'PROGRAM'")
    _converted(files or ["-"], wanted, output)
    return 0


def _traced(
    source: Source, wanted: "Wanted", pids: "list[str] | None", children: bool, child: "str | None",
    follow: bool, backend: BackendName, output: "str | None", duration_s: "float | None", quiet: bool, verbose: bool,
) -> int:  # fmt: skip
    from tracer import pipeline
    from tracer.backends.choose import Activation
    from tracer.cli.tracing import Printing
    from tracer.cli.tracing.signals import looked_after
    from tracer.cli.tracing.trace import trace
    from tracer.probes.site import Target
    from tracer.tracing import Request

    check_whom(pids, child, follow, children)
    asked = Activation.of(child is not None, follow)
    argv, program = command_of(child)
    with processes_of(pids, children) as processes:
        target = Target(() if processes is None else processes.pids, program, follow)
        plan, warnings = pipeline.plan(source, (), target, os.environ)
        wanted.check(plan.program)
        if said := [each for each in warnings if each.lacking or not quiet]:
            from tracer.cli.errors import diagnostics_text

            sys.stderr.write(diagnostics_text(plan.program.source, said))
        with looked_after(plan):
            compiled = pipeline.compile(plan, None if backend == "auto" else backend, activation=asked)
            request = Request(processes, argv, follow, duration_s=duration_s, quiet=quiet, verbose=verbose)
            return trace(compiled, request, Printing(output=output, stacks=wanted))


def _converted(files: "list[str]", wanted: "Wanted", output: "str | None") -> None:
    from tracer.render.stacks import document_of
    from tracer.render.stacks.model import Page
    from tracer.render.stacks.read import read

    if files == ["-"] and sys.stdin.isatty():
        raise UsageError("no stacks", "name a file that --stacks folded or -f json wrote, or give a program with -e")
    chosen = wanted.chosen([read(_content(name), _shown(name)) for name in files], list(map(_shown, files)))
    title = wanted.title or " and ".join(dict.fromkeys(map(_shown, files)))
    made = document_of(wanted.format)(chosen, Page(title, wanted.compare))
    if output is None:
        sys.stdout.buffer.write(made)
        return
    try:
        with open(output, "wb") as file:
            file.write(made)
    except OSError as error:
        raise TracerError(f"cannot write {output}: {error.strerror}") from None


def _shown(name: str) -> str:
    return "stdin" if name == "-" else name


def _content(name: str) -> bytes:
    from tracer.opening import given

    try:
        return given(0 if name == "-" else name, _MOST_BYTES)
    except OSError as error:
        raise TracerError(f"cannot read {name}: {error.strerror}") from None
