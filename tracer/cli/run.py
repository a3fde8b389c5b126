"""`tracer run`: the program, from the words of the command line to the last map."""

# Annotations are values here: Typer would evaluate each of their texts at every start.
import sys
from contextlib import ExitStack
from typing import Annotated, Optional

import typer

from tracer.cli.options import Also, Asked, Buffering, Format, StackFormat, Stage, Words, beside, tracing
from tracer.errors import UsageError

EXAMPLE = "sudo tracer -e 'uprobe:libc:malloc { @bytes = hist(arg0); }' -c 'ls /'"


@tracing
def command(
    asked: Asked,
    words: Words = None,
    format: Annotated[Format, typer.Option("-f", "--format", help="How to print results.")] = "text",
    stacks: Annotated[
        Optional[StackFormat],  # noqa: UP045
        typer.Option(
            "--stacks", help="How to print maps of stacks; all but folded are whole documents.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("-o", "--output", metavar="FILE", help="Where to print results.", show_default=False),
    ] = None,
    also: Also = None,
    buffering: Annotated[
        Buffering,
        typer.Option(
            "-B", help="When to write results: as they come (line), in large pieces (full), or each by itself (none)."
        ),
    ] = "line",
    raw: Annotated[
        bool, typer.Option("--raw", help="Let control characters in values reach a terminal unescaped.")
    ] = False,
    failed_reads: Annotated[
        bool, typer.Option("-k", "--warnings", help="Report unreadable memory in JSON too; stderr always has it.")
    ] = False,
    stage: Annotated[
        Optional[Stage],  # noqa: UP045
        typer.Option("-d", "--debug", help="Print a stage of the program, and trace nothing.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print sites, backend and kernel program, and attach nothing.")
    ] = False,
    fmt: Annotated[
        bool, typer.Option("--fmt", help="Print the program in its usual layout, and trace nothing.")
    ] = False,
    unwound: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option(
            "--dwarf-pid", metavar="PID", help="No effect: stacks of every process are unwound by its tables.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Trace with a program."""
    source, params = asked.source(words or [])
    if fmt:
        from tracer.lang.printing.formatted import laid_out

        sys.stdout.write(laid_out(source))
        return 0
    files, wanted = beside(also, output), None
    if stacks is not None:
        from tracer.cli.tracing.stacks import Wanted, check_output

        if format != "text":
            raise UsageError(f"--stacks and -f {format} cannot be used together", "-f json has stacks as text")
        check_output(stacks, output)
        wanted = Wanted(stacks)
    from tracer.cli.tracing import Printing, compiled

    printing = Printing(format, output, files, buffering, wanted, failed_reads, not asked.no_warnings, raw)
    with asked.prepared(source, params) as prepared, ExitStack() as stack:
        if stage is not None:
            from tracer.cli.tracing.dry_run import steering_nothing

            print(steering_nothing(prepared.dump(stage)), end="")
            return 0
        plan = compiled(prepared, printing, stack, need_usable=not dry_run)
        if dry_run:
            from tracer.cli.tracing.dry_run import dry_run_text, steering_nothing

            print(steering_nothing(dry_run_text(plan, prepared.request.backend)), end="")
            return 0
        from tracer.cli.tracing.trace import trace

        return trace(prepared, printing)
