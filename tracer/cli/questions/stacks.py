"""`tracer stacks`: from where."""

from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from tracer.cli.options import Asked, StackFormat
from tracer.cli.questions.asking import Counting, Probes, Results, Weight, given, question, run
from tracer.errors import UsageError

EXAMPLE = "sudo tracer stacks libc:malloc --weight arg0 -c 'ls /' -o malloc.html"
_INSTEAD = {"must be an integer": "--by EXPR tells values of any type apart"}


@question
def command(
    asked: Asked,
    counting: Counting,
    results: Results,
    probes: Probes = None,
    weight: Weight = None,
    stacks: Annotated[
        Optional[StackFormat],  # noqa: UP045
        typer.Option("--stacks", help="Print them as this; without it as FILE's ending says.", show_default=False),
    ] = None,
    on_cpu: Annotated[bool, typer.Option("--on-cpu", help="In place of PROBE: stacks that run, by samples.")] = False,
    off_cpu: Annotated[bool, typer.Option("--off-cpu", help="In place of PROBE: stacks that wait, by time.")] = False,
    wakeup: Annotated[bool, typer.Option("--wakeup", help="In place of PROBE: who ends waits, by their time.")] = False,
    kernel: Annotated[bool, typer.Option("--kernel", help="With the stack of the kernel.")] = False,
) -> int:
    """Show from where functions and probes are hit: each user stack with its count, or the sum of a value.

    An output of .html, .svg, .pb.gz, .folded or .speedscope.json is a document of stacks.
    """
    instead = [name for name, given in (("on", on_cpu), ("off", off_cpu), ("wakeup", wakeup)) if given]
    if instead:
        if probes or weight is not None or len(instead) > 1:
            raise UsageError("--on-cpu, --off-cpu and --wakeup stand alone", "in place of PROBE and --weight")
        text = _of_threads(instead[0], kernel, asked, counting)
    else:
        text = program(given(probes, "stacks"), weight, counting, kernel)
    wanted = None
    if not results.json and not results.show:
        from tracer.render.stacks import format_of

        format = stacks or (format_of(results.output) if results.output is not None else None)
        if format is not None:
            from tracer.cli.tracing.stacks import Wanted, check_output

            check_output(format, results.output)
            wanted = Wanted(format)
    elif results.json and stacks is not None:
        raise UsageError("--stacks and --json cannot be used together", "--json has stacks as text")
    return run(asked, results, text, wanted, _INSTEAD, counting.ends_s)


def _of_threads(which: str, kernel: bool, asked: Asked, counting: Counting) -> str:
    """The programs that need no probe. Raises `ProgramError`, `UsageError`."""
    if which == "on":
        from tracer.cli.questions.kernel import profile

        everywhere = asked.pids is None and asked.child is None
        return profile.program(profile.HZ, profile.stack(kernel=kernel), everywhere, counting)
    from tracer.cli.questions.kernel import waiting

    stacks = ["ustack", *(["kstack"] if kernel else [])]
    return (waiting.off_cpu if which == "off" else waiting.wakeup)(stacks, counting)


def program(words: "Sequence[str]", weight: "str | None", counting: Counting, kernel: bool = False) -> str:
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import Words, clause, expression, probes_for, typed_result

    amount = expression(weight, "--weight") if weight is not None else Words()
    key, only = counting.words()
    probes = probes_for(words, amount, key, only)
    before, after = counting.printed("@")
    keys = ", ".join(filter(None, (key.text, "ustack", "kstack" * kernel)))
    summed = f"sum({amount.text})" if amount.text else "count()"
    text = before + clause(probes, only, f"@[{keys}] = {summed};") + after
    return typed_result(text, probes, amount, key, only)
