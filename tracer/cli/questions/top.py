"""`tracer top`: a live table of what is hit most."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from tracer.cli.options import Asked, Json, Options
from tracer.cli.questions.asking import Counting, Output, Probes, Show, given, question
from tracer.errors import Source, UsageError

if TYPE_CHECKING:
    from tracer.render.live.renderer import LiveTable
    from tracer.render.notices import Notice

EXAMPLE = "sudo tracer top 'libc:mem*' --by func -i 1s"

_ROWS = 10
_PERIOD = "1s"


class Looking(Options):
    """What is summed up, and where the table goes; or the program alone."""

    value: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Option(
            "--value", metavar="EXPR", help="Also sum up EXPR, with its percentiles, such as arg0 or duration.",
            show_default=False,
        ),
    ] = None  # fmt: skip
    cpu: Annotated[bool, typer.Option("--cpu", help="In place of PROBE: the functions that run, by samples.")] = False
    json: Json = False
    output: Output = None
    show: Show = False


@question
def command(asked: Asked, counting: Counting, looking: Looking, probes: Probes = None) -> int:
    """Show a live table of what is hit most: how often a second and in total; with --value its sum and percentiles.
    Or with --cpu which functions use the processor.

    Keys: q quits, s sorts by the next column, f freezes, / filters. Without a terminal each look is printed.
    """
    if looking.cpu:
        if probes or looking.value is not None:
            raise UsageError("--cpu takes no PROBE and no --value", "it counts samples of what runs")
        text = sampled(asked.pids is None and asked.child is None, counting)
    else:
        text = program(given(probes, "top"), looking.value, counting)
    if looking.show:
        sys.stdout.write(text)
        return 0
    from tracer.cli.options import look_for_debug_files_in, switch_off
    from tracer.cli.tracing import Printing, compiled
    from tracer.cli.tracing.trace import trace

    look_for_debug_files_in(asked.debug_folders)
    switch_off(asked.features)
    printing = Printing(output=looking.output, warnings=not asked.no_warnings, special=_Special(looking, counting.top))
    with asked.prepared(Source(text), ()) as prepared, ExitStack() as stack:
        compiled(prepared, printing, stack)
        return trace(prepared, printing)


def program(words: "Sequence[str]", value: "str | None", counting: Counting) -> str:
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import Words, clause, expression, key_of, printed, probe, probes_for, typed_result
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
    before, after = printed(maps, counting.period or _PERIOD, counting.times, None)
    text = before + clause(attach_points, only, counted) + after
    return typed_result(text, attach_points, key, only, amount)


def sampled(everywhere: bool, counting: Counting) -> str:
    """The program of --cpu, as that of `tracer profile`: of each sample the innermost function. Raises `ProgramError`,
    `UsageError`.
    """
    from tracer.cli.questions.kernel.profile import HZ
    from tracer.cli.questions.text import Words, clause_of, printed
    from tracer.render.live.renderer import COUNTS

    key, only = counting.words()
    if everywhere:
        only = Words(f"pid && ({only.text})" if only.text else "pid")
    before, after = printed((COUNTS,), counting.period or _PERIOD, counting.times, None)
    counted = f"{COUNTS}[{key.text or 'pid, comm'}, ustack(1)] = count();"
    return before + clause_of(f"profile:hz:{HZ}", only, counted) + after


class _Special:
    """Makes what draws the table, on the terminal where there is one."""

    def __init__(self, looking: Looking, top: "int | None") -> None:
        self._looking, self._top = looking, top
        self._held: list[Notice] = []

    def made(self, *parts: Any) -> "LiveTable":
        rows = self._top or _ROWS
        if self._looking.cpu:
            from tracer.cli.questions.kernel.profile import HZ
            from tracer.render.live.samples import SampleTable as Samples

            self._table: LiveTable = Samples(HZ, rows, *parts)
        else:
            from tracer.render.live.renderer import LiveTable as Table

            self._table = Table(self._looking.value is not None, rows, *parts)
        if self._looking.json:
            from tracer.render.live.looks import look

            self._table.as_json = partial(look, rows=self._top)
        return self._table

    def join(self, talk: Any, controls: Any, lost: Any, stack: ExitStack) -> None:
        if self._looking.output is not None or self._looking.json:
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
