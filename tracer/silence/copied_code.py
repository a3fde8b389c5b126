"""Refuses to trace the file of a program that would copy breakpoints with its code, and die by them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from tracer.errors import Diagnostic, ProgramError
from tracer.kinds.site import paths_of
from tracer.plan.model import Plan
from tracer.plan.points import points
from tracer.target.child import find_program
from tracer.target.large_pages import Copying, copying_always, copying_command


def refuse_copied_code(plan: Plan, argv: Sequence[str] | None, of_one: bool) -> None:
    """`argv` is the command of `-c`; `of_one`: nobody else is traced, so no other may start with the breakpoints.
    Raises `ProgramError` under the attach points in question.
    """
    files = set(map(os.path.realpath, paths_of(plan.places)))
    copying_files = {file.path: file for file in _copying(files, argv, of_one)}
    errors = []
    for point in points(plan):
        paths = (os.path.realpath(site.path) for site in point.places)
        copying = next((copying_files[path] for path in paths if path in copying_files), None)
        if copying is not None:
            name = os.path.basename(copying.path)
            errors.append(
                Diagnostic(
                    f"{name} copies its code to large pages when it starts ({copying.why}), and breakpoints with it:"
                    " the first that it reached would end it with SIGTRAP",
                    point.span,
                    copying.remedy,
                )
            )
    if errors:
        raise ProgramError(plan.program.source, errors)


def _copying(files: set[str], argv: Sequence[str] | None, of_one: bool) -> Iterator[Copying]:
    if argv is not None and (command := copying_command(argv, find_program(argv[0]), os.environ)) is not None:
        yield command
    for path in () if of_one else files:
        if (always := copying_always(path, os.environ)) is not None:
            yield always
