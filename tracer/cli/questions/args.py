"""`tracer args`: each call with its arguments, by name and type, its result and its duration."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Filter, Probes, Results, Stack, given, question, run
from tracer.errors import UsageError

EXAMPLE = "sudo tracer args libc:fopen --filter 'retval == 0' -c 'getent passwd root'"
_REMEDY = "tracer trace PROBE 'FORMAT' arg0 … prints what has no names"
_BEGINNING = "--entry prints calls as they begin, without their result"
_INSTEAD = {
    "args": _REMEDY, "parameters": _REMEDY, "return probe": _BEGINNING, "calls can be paired": _BEGINNING,
    "is never called": _BEGINNING, "jumps to its own beginning": _BEGINNING,
}  # fmt: skip


@question
def command(
    asked: Asked,
    results: Results,
    probes: Probes = None,
    where: Filter = None,
    entry: Annotated[
        bool, typer.Option("--entry", help="Print each call as it begins, without its result and duration.")
    ] = False,
    stack: Stack = False,
) -> int:
    """Print each call of functions when it has ended: its arguments by name and type, its result, its duration.

    The names are those of the debug information. --filter knows the arguments as they were when the call began, retval
    and duration. Calls that have not ended are told at the end. Of an event of the kernel it prints the fields.
    """
    text = program(given(probes, "args"), where, entry, stack)
    return run(asked, results, text, instead=_INSTEAD)


def program(words: "Sequence[str]", where: "str | None", entry: bool, stack: bool) -> str:
    """The program: a clause for each probe, since each has arguments of its own. Raises `ProgramError`,
    `UsageError`.
    """
    from tracer.cli.questions.text import STACKS, Words, clause, condition, probe

    only = condition(where, "--filter") if where is not None else Words()
    clauses = []
    for word in words:
        attach_point = probe(word)
        if not (attach_point.is_function or attach_point.is_event):
            what = "a span" if attach_point.is_span else "a USDT probe"
            raise UsageError(f"{word}: the arguments of {what} have no names", f"tracer trace {word} %d arg0")
        if not (entry or attach_point.is_event):
            attach_point = attach_point.whole_call()
        clauses.append(clause([attach_point], only, None))
    return "".join([STACKS] * stack + clauses)
