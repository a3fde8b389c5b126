"""`tracer count`: how often."""

from collections.abc import Sequence

from tracer.cli.options import Also, Asked, Json
from tracer.cli.questions.asking import (
    By,
    Filter,
    Output,
    Period,
    Probes,
    Show,
    Times,
    Top,
    ends_after,
    given,
    question,
    run,
)

EXAMPLE = "sudo tracer count 'libc:mem*' --by comm -i 1s -n 3 --top 5"


@question
def command(
    asked: Asked,
    probes: Probes = None,
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
    """Count how often functions and probes are hit.

    Where there may be several, each is counted by itself; --by counts by arguments, processes and so on.
    """
    text = program(given(probes, "count"), by, where, period, times, top)
    return run(asked, text, show, json, output, also, ends_s=ends_after(period, times))


def program(
    words: "Sequence[str]", by: "str | None", where: "str | None", period: "str | None", times: "int | None",
    top: "int | None",
) -> str:  # fmt: skip
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import Words, clause, condition, expressions, key_of, printed, probe

    key = expressions(by, "--by") if by is not None else Words()
    only = condition(where, "--filter") if where is not None else Words()
    found = [probe(word) for word in words]
    if key.names("retval") or only.names("retval"):
        found = [each.at_return() for each in found]
    before, after = printed(["@"], period, times, top)
    what = key_of(found, key)
    return before + clause(found, only, f"@{f'[{what}]' if what else ''} = count();") + after
