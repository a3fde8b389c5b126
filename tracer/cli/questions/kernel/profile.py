"""`tracer profile`: on what programs spend the processor's time."""

from functools import partial
from typing import Annotated, Optional

import typer

from tracer.cli.options import Asked, StackFormat
from tracer.cli.questions.asking import Counting, Results, question, run
from tracer.errors import UsageError

EXAMPLE = "sudo tracer profile -c 'gzip -k /var/log/syslog' -o cpu.html"

HZ = 99
"""No clock of a program ticks so, which would be sampled at the same place again and again."""


@question
def command(
    asked: Asked,
    counting: Counting,
    results: Results,
    hz: Annotated[int, typer.Option("--hz", metavar="N", min=1, help="Samples a second on each CPU.")] = HZ,
    python: Annotated[bool, typer.Option("--python", help="Also the functions of Python programs.")] = False,
    kernel: Annotated[bool, typer.Option("--kernel", help="Also the functions of the kernel.")] = False,
    stacks: Annotated[
        Optional[StackFormat],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Option("--stacks", help="Print the stacks as this; else as FILE's ending says.", show_default=False),
    ] = None,
) -> int:
    """Show which functions run on CPUs: in how many samples each is the innermost, and in how many it is at all.

    An output of .html, .svg, .pb.gz, .folded or .speedscope.json is a document of the stacks, as a flame graph.
    """
    if results.json and stacks is not None:
        raise UsageError("--stacks and --json cannot be used together", "--json has stacks as text")
    wanted = None
    if not (results.json or results.show):
        from tracer.render.stacks import format_of

        format = stacks or (format_of(results.output) if results.output is not None else None)
        if format is not None:
            from tracer.cli.tracing.stacks import Wanted, check_output

            check_output(format, results.output)
            wanted = Wanted(format)
    table = None
    if not (results.json or results.show) and wanted is None:
        from tracer.render.tables.functions import FunctionTable

        table = partial(FunctionTable, counting.top)
        counting.top = None  # of the stacks all are needed for it
    everywhere = asked.pids is None and asked.child is None
    text = program(hz, stack(python, kernel), everywhere, counting)
    return run(asked, results, text, wanted, ends_s=counting.ends_s, text_as=table)


def stack(python: bool = False, kernel: bool = False) -> str:
    """The parts of a key that are stacks."""
    return ", ".join(["ustack(python)" if python else "ustack", *(["kstack"] if kernel else [])])


def program(hz: int, stack: str, everywhere: bool, counting: Counting) -> str:
    """The program. `everywhere`: samples of an idle CPU come too, and are left out. Raises `ProgramError`,
    `UsageError`.
    """
    from tracer.cli.questions.text import Words, clause_of

    key, only = counting.words()
    if everywhere:
        only = Words(f"pid && ({only.text})" if only.text else "pid")
    before, after = counting.printed("@")
    keys = ", ".join(filter(None, (key.text, stack)))
    return before + clause_of(f"profile:hz:{hz}", only, f"@[{keys}] = count();") + after
