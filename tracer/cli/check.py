"""`tracer check`: whether a program is right, without root and without tracing."""

from __future__ import annotations

import os
import sys

from tracer.cli.options import (
    DebugInfo,
    Expression,
    Included,
    IncludePaths,
    Words,
    look_for_debug_files_in,
    program_text,
)
from tracer.errors import ProgramError

EXAMPLE = "tracer check script.bt"


def command(
    words: Words = None,
    expression: Expression = None,
    included: Included = None,
    include_paths: IncludePaths = None,
    debug_folders: DebugInfo = None,
) -> int:
    """Check a program: its syntax, its types, and that its probes exist.

    Ends with status 1 where something is wrong; the warnings are shown too.
    """
    from tracer import pipeline

    look_for_debug_files_in(debug_folders)
    source, params = program_text(expression, words or [], included, include_paths)
    try:
        warnings = pipeline.plan(source, params, environment=os.environ)[1]
    except ProgramError as error:
        raise ProgramError(source, error.diagnostics, error.detail, exit_code=1) from None
    if warnings:
        from tracer.cli.errors import diagnostics_text

        sys.stderr.write(diagnostics_text(source, warnings))
    return 0
