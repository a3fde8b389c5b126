"""`tracer stacks`: from where."""

from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from tracer.cli.options import Also, Asked, Json, StackFormat
from tracer.cli.questions.asking import (
    By,
    Filter,
    Output,
    Period,
    Probes,
    Show,
    Times,
    Top,
    Weight,
    ends_after,
    given,
    question,
    run,
)
from tracer.errors import UsageError

EXAMPLE = "sudo tracer stacks libc:malloc --weight arg0 -c 'ls /' -o malloc.html"
_INSTEAD = {"must be an integer": "--by EXPR tells values of any type apart"}


@question
def command(
    asked: Asked,
    probes: Probes = None,
    weight: Weight = None,
    by: By = None,
    where: Filter = None,
    period: Period = None,
    times: Times = None,
    top: Top = None,
    json: Json = False,
    stacks: Annotated[
        Optional[StackFormat],  # noqa: UP045
        typer.Option("--stacks", help="Print them as this; without it as FILE's ending says.", show_default=False),
    ] = None,
    output: Output = None,
    also: Also = None,
    show: Show = False,
) -> int:
    """Show from where functions and probes are hit: each user stack with its count, or the sum of a value.

    An output of .html, .svg, .pb.gz, .folded or .speedscope.json is a document of stacks.
    """
    text = program(given(probes, "stacks"), weight, by, where, period, times, top)
    wanted = None
    if not json and not show:
        from tracer.render.stacks import format_of

        format = stacks or (format_of(output) if output is not None else None)
        if format is not None:
            from tracer.cli.tracing.stacks import Wanted, check_output

            check_output(format, output)
            wanted = Wanted(format)
    elif json and stacks is not None:
        raise UsageError("--stacks and --json cannot be used together", "--json has stacks as text")
    return run(asked, text, show, json, output, also, wanted, _INSTEAD, ends_after(period, times))


def program(
    words: "Sequence[str]", weight: "str | None", by: "str | None", where: "str | None", period: "str | None",
    times: "int | None", top: "int | None",
) -> str:  # fmt: skip
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import Words, clause, condition, expression, expressions, printed, probe

    amount = expression(weight, "--weight") if weight is not None else Words()
    key = expressions(by, "--by") if by is not None else Words()
    only = condition(where, "--filter") if where is not None else Words()
    found = [probe(word) for word in words]
    if any(each.names("retval") for each in (amount, key, only)):
        found = [each.at_return() for each in found]
    before, after = printed(["@"], period, times, top)
    keys = ", ".join(filter(None, (key.text, "ustack")))
    summed = f"sum({amount.text})" if amount.text else "count()"
    return before + clause(found, only, f"@[{keys}] = {summed};") + after
