"""`tracer top`: a live table of what is hit most."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from tracer.cli.options import Asked, Options
from tracer.cli.questions.asking import Counting, Output, Probes, Show, given, question
from tracer.errors import Source

if TYPE_CHECKING:
    from tracer.render.live.renderer import LiveTable
    from tracer.render.notices import Notice

EXAMPLE = "sudo tracer top 'libc:mem*' --by func -i 1s"

_ROWS = 10


class Looking(Options):
    """What is summed up, and where the table goes; or the program alone."""

    value: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Option(
            "--value", metavar="EXPR", help="Also sum up EXPR, with its percentiles, such as arg0 or duration.",
            show_default=False,
        ),
    ] = None  # fmt: skip
    output: Output = None
    show: Show = False


@question
def command(asked: Asked, counting: Counting, looking: Looking, probes: Probes = None) -> int:
    """Show a live table of what is hit most: how often a second and in total; with --value its sum and percentiles.

    Keys: q quits, s sorts by the next column, f freezes, / filters. Without a terminal each look is printed.
    """
    text = program(given(probes, "top"), looking.value, counting)
    if looking.show:
        sys.stdout.write(text)
        return 0
    from tracer.cli.options import look_for_debug_files_in, switch_off
    from tracer.cli.tracing import Printing, compiled
    from tracer.cli.tracing.trace import trace

    look_for_debug_files_in(asked.debug_folders)
    switch_off(asked.features)
    special = _Special(looking.value is not None, counting.top or _ROWS, looking.output)
    printing = Printing(output=looking.output, warnings=not asked.no_warnings, special=special)
    with asked.prepared(Source(text), ()) as prepared, ExitStack() as stack:
        compiled(prepared, printing, stack)
        return trace(prepared, printing)


def program(words: "Sequence[str]", value: "str | None", counting: Counting) -> str:
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import Words, clause, expression, key_of, printed, probe, probes_for
    from tracer.render.live.renderer import COUNTS, PERCENTILES, SUMS

    key, only = counting.words()
    amount = expression(value, "--value") if value is not None else Words()
    if any(part.names("duration") for part in (key, only, amount)):
        attach_points = [probe(word).whole_call() for word in words]
    else:
        attach_points = probes_for(words, key, only, amount)
    inner = key_of(attach_points, key) or ("probe" if attach_points[0].is_event else "func")
    maps = (SUMS, PERCENTILES) if amount.text else (COUNTS,)
    counted = f"{COUNTS}[{inner}] = count();"
    if amount.text:
        counted = f"{SUMS}[{inner}] = sum({amount.text}); {PERCENTILES}[{inner}] = quantiles({amount.text}, 50, 99);"
    before, after = printed(maps, counting.period or "1s", counting.times, None)
    return before + clause(attach_points, only, counted) + after


class _Special:
    """Makes what draws the table, on the terminal where there is one."""

    def __init__(self, values: bool, rows: int, output: "str | None") -> None:
        self._values, self._rows, self._output = values, rows, output
        self._held: list[Notice] = []

    def made(self, *parts: Any) -> "LiveTable":
        from tracer.render.live.renderer import LiveTable

        self._table = LiveTable(self._values, self._rows, None, *parts)
        return self._table

    def join(self, talk: Any, controls: Any, lost: Any, stack: ExitStack) -> None:
        if self._output is not None:
            return
        from tracer.cli.tracing.keyboard import screen

        self._table.screen = screen(controls, stack)
        if self._table.screen is not None:
            talk.as_wanted = self._while_drawn
            stack.callback(self._leave, talk)

    def _while_drawn(self, notice: "Notice") -> "Notice | None":
        """What is said while the table has the screen is said when it has gone."""
        if not self._table.drawn:
            return notice
        self._held.append(notice)
        return None

    def _leave(self, talk: Any) -> None:
        with suppress(BrokenPipeError):
            self._table.leave()
        for notice in self._held:
            talk.notice(notice)
