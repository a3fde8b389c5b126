"""`tracer latency`: how long calls take."""

from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Counting, Probes, Results, Stack, given, question, run
from tracer.errors import UsageError

_SPAN_TOLD = 'printf("%s %-7d %-16s %d ns\\n", strftime("%H:%M:%S", nsecs), pid, comm, duration);'
_SPAN_TOLD_WITH_STACK = _SPAN_TOLD.replace('\\n"', '\\n%s"').replace("duration)", "duration, ustack)")
EXAMPLE = "sudo tracer latency libc:getaddrinfo --by 'str(args.name)' --slower 10ms"


@question
def command(
    asked: Asked,
    counting: Counting,
    results: Results,
    probes: Probes = None,
    slower: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Option(
            "--slower", metavar="TIME", help="Print each call that takes longer: 10ms, 50us.", show_default=False
        ),
    ] = None,
    stack: Stack = False,
) -> int:
    """Show how long calls of functions take, in nanoseconds: a histogram, percentiles and the longest. Or how long a
    span takes: 'span:PROBE..PROBE [by KEY]'.

    --by and --filter know the arguments as they were when the call began, retval, duration, self_time and depth. Calls
    that have not ended are told at the end.
    """
    text = program(given(probes, "latency"), slower, stack, counting)
    return run(asked, results, text, ends_s=counting.ends_s)


def program(words: "Sequence[str]", slower: "str | None", stack: bool, counting: Counting) -> str:
    """The program: where calls are printed, only those are looked at that are longer. Raises `ProgramError`,
    `UsageError`.
    """
    from tracer.cli.questions.text import STACKS, Words, clause, expression, key_of, probe

    key, only = counting.words()
    calls = [probe(word).whole_call() for word in words]
    spans = any(call.is_span for call in calls)
    if spans and len(calls) > 1:
        raise UsageError("a span is asked for alone", "run a command for each")
    if slower is not None:
        if any(option is not None for option in (counting.by, counting.period, counting.times, counting.top)):
            raise UsageError("--slower prints calls, and counts none", "leave out --by, -i, -n and --top, or --slower")
        least = expression(slower, "--slower")
        longer = f"duration > {least.text}" if least.is_number else f"duration > ({least.text})"
        holds = Words(f"{longer} && ({only.text})" if only.text else longer)
        if spans:
            return clause(calls, holds, _SPAN_TOLD_WITH_STACK if stack else _SPAN_TOLD)
        return (STACKS if stack else "") + clause(calls, holds, None)
    if stack:
        raise UsageError("-s is for calls that are printed", "--slower TIME prints those that take longer")
    brackets = f"[{inner}]" if (inner := key_of(calls, key)) else ""
    before, after = counting.printed("@ns", "@quantiles")
    sums = f"@ns{brackets} = hist(duration); @quantiles{brackets} = quantiles(duration);"
    return before + clause(calls, only, sums) + after
