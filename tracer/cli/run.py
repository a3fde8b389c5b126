"""`tracer run`: the program, from the words of the command line to the last map."""

# Annotations are values here: Typer would evaluate each of their texts at every start.
import os
import sys
from contextlib import ExitStack
from typing import Annotated, Optional

import typer

from tracer.cli.options import (
    Backend,
    Buffering,
    Child,
    Children,
    DebugInfo,
    Duration,
    Expression,
    Follow,
    Format,
    Included,
    IncludePaths,
    MaxProbes,
    NoWarnings,
    Pids,
    Quiet,
    StackFormat,
    Stage,
    UnsafeReturns,
    Verbose,
    Words,
    check_whom,
    command_of,
    look_for_debug_files_in,
    processes_of,
    program_text,
    seconds_of,
    settings_of,
    switch_off,
)
from tracer.errors import UsageError

EXAMPLE = "sudo tracer -e 'uprobe:libc:malloc { @bytes = hist(arg0); }' -c 'ls /'"


def command(
    words: Words = None,
    expression: Expression = None,
    included: Included = None,
    include_paths: IncludePaths = None,
    debug_folders: DebugInfo = None,
    pids: Pids = None,
    children: Children = False,
    child: Child = None,
    follow: Follow = False,
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
    buffering: Annotated[
        Buffering,
        typer.Option(
            "-B", help="When to write results: as they come (line), in large pieces (full), or each by itself (none)."
        ),
    ] = "line",
    raw: Annotated[
        bool, typer.Option("--raw", help="Let control characters in values reach a terminal unescaped.")
    ] = False,
    quiet: Quiet = False,
    no_warnings: NoWarnings = False,
    failed_reads: Annotated[
        bool, typer.Option("-k", "--warnings", help="Report unreadable memory in JSON too; stderr always has it.")
    ] = False,
    verbose: Verbose = False,
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
    max_rate: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--max-rate", metavar="N", help="Detach attach points with more than N hits a second.", show_default=False
        ),
    ] = None,
    duration: Duration = None,
    backend: Backend = "auto",
    max_probes: MaxProbes = None,
    unsafe_returns: UnsafeReturns = False,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Allow what acts on the machine or the traced program: system(), signal()."),
    ] = False,
    no_priority: Annotated[
        bool,
        typer.Option(
            "--no-priority", help="Empty the kernel's buffers at tracer's own priority: a flood may lose events."
        ),
    ] = False,
    features: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--no-feature", metavar="NAME[,NAME]", help="Do not use these kernel features, such as uprobe_multi.",
            show_default=False,
        ),
    ] = None,
    unwound: Annotated[
        Optional[list[int]],  # noqa: UP045
        typer.Option(
            "--dwarf-pid", metavar="PID", help="No effect: stacks of every process are unwound by its tables.",
            show_default=False,
        ),
    ] = None,
    by_hand: Annotated[
        bool,
        typer.Option(
            "--usdt-file-activation",
            help="Where the kernel cannot (before 4.20), raise USDT semaphores in the running processes.",
        ),
    ] = False,
) -> int:
    """Trace with a program."""
    look_for_debug_files_in(debug_folders)
    switch_off(features)
    source, params = program_text(expression, words or [], included, include_paths)
    if fmt:
        from tracer.lang.printing.layout import laid_out

        sys.stdout.write(laid_out(source))
        return 0
    check_whom(pids, child, follow, children)
    if stacks is not None:
        from tracer.cli.tracing.stacks import check_output

        if format != "text":
            raise UsageError(f"--stacks and -f {format} cannot be used together", "-f json has stacks as text")
        check_output(stacks, output)
    seconds = seconds_of(duration)
    if max_rate is not None and max_rate <= 0:
        raise UsageError(f"--max-rate {max_rate}: a limit is positive", "it counts hits a second")
    from tracer import pipeline
    from tracer.probes.site import Target

    forced = None if backend == "auto" else backend
    asked = None
    if by_hand or follow or child is not None:
        from tracer.backends.choose import Activation

        asked = Activation.of(child is not None, follow, by_hand)
    settings = settings_of(max_probes, unsafe_returns, unsafe)
    argv, program = command_of(child)
    with processes_of(pids, children) as processes, ExitStack() as stack:
        target = Target(() if processes is None else processes.pids, program, follow)
        if stage is not None:
            from tracer.cli.tracing.dry_run import steering_nothing

            dumped = pipeline.dump(stage, source, params, target, forced, os.environ, asked, settings)
            print(steering_nothing(dumped), end="")
            return 0
        plan, warnings = pipeline.plan(source, params, target, os.environ, settings)
        wanted = None
        if stacks is not None:
            from tracer.cli.tracing.stacks import Wanted

            wanted = Wanted(stacks)
            wanted.check(plan.program)
        if max_rate is not None or no_priority:
            from tracer.dataclass import replace

            plan = replace(plan, separate_points=max_rate is not None, priority=not no_priority)
        if said := [each for each in warnings if not no_warnings and (each.lacking or not quiet)]:
            from tracer.cli.errors import diagnostics_text

            sys.stderr.write(diagnostics_text(plan.program.source, said))
        from tracer.cli.tracing.signals import looked_after

        stack.enter_context(looked_after(plan))
        compiled = pipeline.compile(plan, forced, need_usable=not dry_run, activation=asked)
        if dry_run:
            from tracer.cli.tracing.dry_run import dry_run_text, steering_nothing

            print(steering_nothing(dry_run_text(compiled, forced)), end="")
            return 0
        from tracer.cli.tracing import Printing
        from tracer.cli.tracing.trace import trace
        from tracer.tracing import Request

        request = Request(processes, argv, follow, max_rate, by_hand, seconds, quiet, verbose)
        printing = Printing(format, output, buffering, wanted, failed_reads, not no_warnings, raw)
        return trace(compiled, request, printing)
