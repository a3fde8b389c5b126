"""`tracer trace`: each event in a line."""

from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Filter, Probe, Results, Stack, given, question, run

EXAMPLE = "sudo tracer trace libc:fopen 'file %s mode %s' 'str(arg0)' 'str(arg1)' -c 'getent passwd root'"


@question
def command(
    asked: Asked,
    results: Results,
    probe: Probe = None,
    words: Annotated[
        Optional[list[str]],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Argument(
            metavar="[FORMAT [EXPR…]]", help="What to print of each, as printf(), and its values.", show_default=False
        ),
    ] = None,
    where: Filter = None,
    stack: Stack = False,
) -> int:
    """Print each hit in a line: the time, the process, the probe, and what FORMAT says.

    `tracer args` prints the arguments of a function by name.
    """
    return run(asked, results, program(given(probe, "trace")[0], words or [], where, stack))


def program(word: str, words: "Sequence[str]", where: "str | None", stack: bool) -> str:
    """The program. Raises `ProgramError`."""
    from tracer.cli.questions.text import Words, clause, condition, expression, format_text, probes_for, typed_result

    only = condition(where, "--filter") if where is not None else Words()
    look = format_text(words[0]) if words else ""
    values = [expression(value, "EXPR") for value in words[1:]]
    (asked,) = probes_for([word], only, *values)
    name = "func" if asked.is_function else "probe"
    heads = f'strftime("%H:%M:%S", nsecs), pid, comm, {name}'
    # The stack in the same event: between two another thread's may come.
    listed = ", ".join([heads, *(value.text for value in values), *(["ustack"] if stack else [])])
    look = f" {look}".removesuffix(r"\n") if look else ""
    text = clause([asked], only, f'printf("%s %-7d %-16s %s{look}\\n{"%s" if stack else ""}", {listed});')
    return typed_result(text, [asked], only, *values)
