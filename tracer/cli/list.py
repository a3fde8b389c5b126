"""`tracer list`: what can be traced; each line of text is a valid attach point."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Optional

import typer

from tracer.cli.errors import printable
from tracer.cli.options import (
    DebugInfo,
    Expression,
    Included,
    IncludePaths,
    Json,
    Verbose,
    checked_pid,
    look_for_debug_files_in,
    program_text,
)

EXAMPLE = "tracer list 'usdt:/usr/bin/python3:*'"


def command(
    pattern: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Argument(
            metavar="[PATTERN]",
            help="Which probes: usdt:PATH:*, uprobe:PATH:name*, *:PATH:name, or PATH; or a program's file.",
            show_default=False,
        ),
    ] = None,
    expression: Expression = None,
    included: Included = None,
    include_paths: IncludePaths = None,
    debug_folders: DebugInfo = None,
    verbose: Verbose = False,
    as_json: Json = False,
    pid: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("-p", "--pid", metavar="PID", help="Search the files that this process has mapped."),
    ] = None,
) -> int:
    """List the probes of a file or a process.

    With a program (-e, or its file) those that it would be attached to.

    With -p the files that the process has mapped are searched, and the pattern needs no path (usdt::*). -v adds
    every site's address, function, source line and arguments, the parameters of functions that debug information knows,
    and whether semaphores are on.
    """
    from tracer.resolve.listing import list_lines, list_probes
    from tracer.resolve.model import Target

    look_for_debug_files_in(debug_folders)
    if pid is not None:
        from tracer.target.running import RunningProcess

        with RunningProcess(checked_pid(pid)):
            pass  # it is there, and no thread: said in one line if not
    if expression is not None or (pattern is not None and _is_program(pattern)):
        from tracer import pipeline

        source, params = program_text(expression, () if pattern is None else (pattern,), included, include_paths)
        for name in pipeline.probes(source, params, Target(pid), os.environ):
            print(printable(name))
        return 0
    left_out: list[str] = []
    if not verbose and not as_json:
        for lines in list_lines(pattern, Target(pid), left_out):
            print(lines, end="")
    if verbose and not as_json:
        from tracer.cli.list_details import Details

        details = Details(Target(pid))
    for listed in list_probes(pattern, Target(pid), left_out) if verbose or as_json else ():
        if as_json:
            import json

            line = json.dumps(listed.as_json(), ensure_ascii=False)
            print(line if line.isprintable() else json.dumps(listed.as_json()))
        else:
            print(listed.probe)
            for line in details.lines(listed):
                print(f"    {printable(line)}")
    for text in left_out:
        sys.stderr.write(f"tracer: {printable(text)}\n")
    return 0


def _is_program(name: str) -> bool:
    """Whether a word is the file of a program's text, not one that holds probes."""
    try:
        with open(name, "rb") as file:
            return b"\0" not in file.read(4096)
    except (OSError, ValueError):
        return False
