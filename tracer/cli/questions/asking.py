"""The commands for the usual questions share their options, and the run of the program that each writes."""

# Annotations are values here: Typer would evaluate each of their texts at every start.
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from tracer.cli.options import Also, Asked, Json, Options, beside, seconds_of, tracing
from tracer.dataclass import replace
from tracer.errors import Diagnostic, ProgramError, Source, UsageError

if TYPE_CHECKING:
    from tracer.cli.questions.text import Words
    from tracer.render.notices import Notice
    from tracer.render.renderer import Renderer

_PLACES = "FILE:FUNCTION, such as libc:malloc, usdt:FILE:PROVIDER:NAME or tracepoint:SYSTEM:NAME; * is any name."

# Typer reads these at run time and its older versions know no `X | None` there.
Probes = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(
        metavar="PROBE…", help=_PLACES, show_default=False,
    ),
]  # fmt: skip
Probe = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(
        metavar="PROBE", help=_PLACES, show_default=False,
    ),
]  # fmt: skip
By = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--by", metavar="EXPR[, EXPR]", help="For each value of EXPR apart, such as comm.", show_default=False
    ),
]
Filter = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--filter", metavar="EXPR", help="Only hits where EXPR holds, such as 'arg0 > 10'.",
        show_default=False),
]  # fmt: skip
Period = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("-i", metavar="TIME", help="Print and begin anew so often: 100ms, 1s, 5m.", show_default=False),
]
Times = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("-n", metavar="TIMES", min=1, help="End after so many prints of -i.", show_default=False),
]
Top = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--top", metavar="N", min=1, help="Print only the N greatest.", show_default=False),
]
Weight = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--weight", metavar="EXPR", help="Add up EXPR, such as arg0, rather than count.", show_default=False
    ),
]
Show = Annotated[bool, typer.Option("--show", help="Print the program of this command, and trace nothing.")]
Output = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("-o", "--output", metavar="FILE", help="Where to print results.", show_default=False),
]
Stack = Annotated[bool, typer.Option("-s", help="Print the user stack of each event.")]


class Counting(Options):
    """The options that say what is counted apart, which hits count, and how often the counts are printed."""

    by: By = None
    where: Filter = None
    period: Period = None
    times: Times = None
    top: Top = None

    def words(self) -> "tuple[Words, Words]":
        """The words of --by and --filter. Raises `ProgramError`."""
        from tracer.cli.questions.text import Words, condition, expressions

        key = expressions(self.by, "--by") if self.by is not None else Words()
        return key, condition(self.where, "--filter") if self.where is not None else Words()

    def printed(self, *maps: str) -> tuple[str, str]:
        """See `text.printed`."""
        from tracer.cli.questions.text import printed

        return printed(maps, self.period, self.times, self.top)

    @property
    def ends_s(self) -> float | None:
        """The seconds after which -n ends a trace."""
        return None if self.period is None or self.times is None else self.times * (seconds_of(self.period) or 0)


class Results(Options):
    """The format and the place of the results; or the program alone."""

    json: Json = False
    output: Output = None
    also: Also = None
    show: Show = False


OF_PROGRAMS = ("expression", "included", "include_paths")
"""The options of other commands that bring a program."""


def question(command: Callable[..., int]) -> Callable[..., int]:
    """A command that has the options of `Asked`, but for those that bring a program: it writes its own."""
    return tracing(command, but=OF_PROGRAMS)


def given(probes: Sequence[str] | str | None, command: str) -> Sequence[str]:
    """The probes of a command. Raises `UsageError` where there is none."""
    words = [probes] if isinstance(probes, str) else probes
    if not words:
        raise UsageError("no probe", f"tracer {command} libc:malloc is one; tracer list FILE finds them")
    return words


def run(
    asked: Asked, results: Results, text: str, stacks: Any = None, instead: Mapping[str, str] | None = None,
    ends_s: float | None = None, text_as: "Callable[..., Renderer] | None" = None,
    as_wanted: "Callable[[Notice], Notice | None] | None" = None,
    results_as: "Mapping[str, Callable[..., Renderer]] | None" = None,
) -> int:  # fmt: skip
    """Runs the program `text`, or shows it. `instead`: for words of an error what to say beside its remedy.
    `ends_s`: after so many seconds the program ends the trace. `text_as` makes what prints results as text,
    `results_as` in each of its formats, and `as_wanted` what is said in the place of a notice, where not as ever.
    """
    if results.show:
        sys.stdout.write(text)
        return 0
    from tracer.cli.options import look_for_debug_files_in, switch_off
    from tracer.cli.tracing import Printing, compiled
    from tracer.cli.tracing.status import status_line
    from tracer.cli.tracing.trace import trace

    look_for_debug_files_in(asked.debug_folders)
    switch_off(asked.features)
    printing = Printing(
        "json" if results.json else "text", results.output, beside(results.also, results.output), stacks=stacks,
        warnings=not asked.no_warnings,
        status=status_line(asked.quiet or asked.child is not None, ends_s),  # its output would run into the line
        text_as=text_as, as_wanted=as_wanted, results_as=results_as,
    )  # fmt: skip
    with asked.prepared(Source(text), ()) as prepared, ExitStack() as stack:
        try:
            compiled(prepared, printing, stack)
        except ProgramError as error:
            raise _with_remedy(error, instead or {}) from None
        return trace(prepared, printing)


def _with_remedy(error: ProgramError, instead: Mapping[str, str]) -> ProgramError:
    """The error, with more remedies; what a program has twice of the user's words is told once."""
    diagnostics: dict[tuple[str, str], Diagnostic] = {}
    for diagnostic in error.diagnostics:
        more = next((remedy for words, remedy in instead.items() if words in diagnostic.message), None)
        hint = "; ".join(filter(None, (diagnostic.hint, more)))
        word = error.source.text[diagnostic.span.start : diagnostic.span.end] or diagnostic.message
        diagnostics.setdefault((word, diagnostic.severity), replace(diagnostic, hint=hint or None))
    return ProgramError(error.source, diagnostics.values(), error.detail, error.exit_code)

