"""`tracer hist`: how large."""

from typing import Annotated, Optional

import typer

from tracer.cli.options import Also, Asked, Json
from tracer.cli.questions.asking import (
    By,
    Filter,
    Output,
    Period,
    Probe,
    Show,
    Times,
    Top,
    ends_after,
    given,
    question,
    run,
)
from tracer.errors import UsageError

EXAMPLE = "sudo tracer hist libc:malloc arg0 -c 'ls /'"
_INSTEAD = {"must be an integer": "tracer count PROBE --by EXPR counts each value of any type"}


@question
def command(
    asked: Asked,
    probe: Probe = None,
    value: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Argument(metavar="EXPR", help="A number, such as arg0, args.size or retval.", show_default=False),
    ] = None,
    by: By = None,
    where: Filter = None,
    period: Period = None,
    times: Times = None,
    top: Top = None,
    json: Json = False,
    output: Output = None,
    also: Also = None,
    show: Show = False,
) -> int:
    """Show how large a value is: a histogram, percentiles and the greatest.

    The percentiles are within 1/64.
    """
    (word,) = given(probe, "hist")
    if value is None:
        raise UsageError("hist needs a number to look at", f"tracer hist {word} arg0; tracer count {word} counts hits")
    text = program(word, value, by, where, period, times, top)
    return run(asked, text, show, json, output, also, instead=_INSTEAD, ends_s=ends_after(period, times))


def program(
    word: str, value: str, by: "str | None", where: "str | None", period: "str | None", times: "int | None",
    top: "int | None",
) -> str:  # fmt: skip
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import Words, clause, condition, expression, expressions, printed, probe

    amount = expression(value, "EXPR")
    key = expressions(by, "--by") if by is not None else Words()
    only = condition(where, "--filter") if where is not None else Words()
    found = probe(word)
    if any(each.names("retval") for each in (amount, key, only)):
        found = found.at_return()
    brackets = f"[{key.text}]" if key.text else ""
    before, after = printed(["@histogram", "@quantiles"], period, times, top)
    sums = f"@histogram{brackets} = hist({amount.text}); @quantiles{brackets} = quantiles({amount.text});"
    return before + clause([found], only, sums) + after
