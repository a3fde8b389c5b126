"""`tracer hist`: how large."""

from typing import Annotated, Optional

import typer

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Counting, Probe, Results, given, question, run
from tracer.errors import UsageError

EXAMPLE = "sudo tracer hist libc:malloc arg0 -c 'ls /'"
_INSTEAD = {"must be an integer": "tracer count PROBE --by EXPR counts each value of any type"}


@question
def command(
    asked: Asked,
    counting: Counting,
    results: Results,
    probe: Probe = None,
    value: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Argument(metavar="EXPR", help="A number, such as arg0, args.size or retval.", show_default=False),
    ] = None,
) -> int:
    """Show how large a value is: a histogram, percentiles and the greatest.

    The percentiles are within 1/64.
    """
    (word,) = given(probe, "hist")
    if value is None:
        raise UsageError("hist needs a number to look at", f"tracer hist {word} arg0; tracer count {word} counts hits")
    return run(asked, results, program(word, value, counting), instead=_INSTEAD, ends_s=counting.ends_s)


def program(word: str, value: str, counting: Counting) -> str:
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import clause, expression, probes_for, typed_result

    amount = expression(value, "EXPR")
    key, only = counting.words()
    probes = probes_for([word], amount, key, only)
    brackets = f"[{key.text}]" if key.text else ""
    before, after = counting.printed("@histogram", "@quantiles")
    sums = f"@histogram{brackets} = hist({amount.text}); @quantiles{brackets} = quantiles({amount.text});"
    return typed_result(before + clause(probes, only, sums) + after, probes, amount, key, only)
