"""`tracer flame`: a flame graph, or another document of stacks, of a run or of what was saved of one."""

# Annotations are values here: Typer would evaluate each of their texts at every start.
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tracer.cli.options import Also, Asked, StackFormat, beside, tracing
from tracer.cli.questions.asking import By, Counting, Filter, Results, Show, Weight, run
from tracer.dataclass import replace
from tracer.errors import TracerError, UsageError

if TYPE_CHECKING:
    from tracer.cli.tracing.stacks import Wanted

_MOST_BYTES = 1 << 28

EXAMPLE = "sudo tracer flame -e 'uprobe:libc:malloc { @[ustack] = count(); }' -c 'ls /' -o malloc.html"


@tracing
def command(
    asked: Asked,
    files: Annotated[
        Optional[list[str]],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Argument(
            metavar="[FILE]…", help="Folded stacks, or what -f json printed (- is stdin).", show_default=False
        ),
    ] = None,
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-o", "--output", metavar="FILE", help="Where to write; the ending chooses the format.", show_default=False
        ),
    ] = None,
    also: Also = None,
    probes: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--probe", metavar="PROBE", help="From where it is hit, in place of a program; can be given several times.",
            show_default=False,
        ),
    ] = None,
    weight: Weight = None,
    by: By = None,
    where: Filter = None,
    kernel: Annotated[bool, typer.Option("--kernel", help="With the stack of the kernel, where PROBE has it.")] = False,
    show: Show = False,
    stacks: Annotated[
        Optional[StackFormat],  # noqa: UP045
        typer.Option("--stacks", help="The format; without it that of FILE, else html.", show_default=False),
    ] = None,
    maps: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--map", metavar="@NAME", help="Only this map; can be given several times.", show_default=False),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--diff", help="Show how the second of two maps or files differs from the first.")
    ] = False,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="A heading.", show_default=False)] = "",
    unit: Annotated[
        str, typer.Option("--unit", metavar="WORD", help="The unit of the values, such as bytes.", show_default=False)
    ] = "",
) -> int:
    """Write a flame graph of a map of stacks.

    The map is that of a program (-e), or of what leads to a --probe, or was saved by --stacks folded or -f json.
    """
    question = None
    if probes:
        from tracer.cli.questions.stacks import program

        if asked.expression is not None:
            raise UsageError("-e and --probe cannot be used together", "a program names its own probes")
        question = program(probes, weight, Counting({"by": by, "where": where}), kernel)
        if show:
            sys.stdout.write(question)
            return 0
    elif (
        option := _first(
            ("--weight", weight), ("--by", by), ("--filter", where), ("--kernel", kernel), ("--show", show)
        )
    ) is not None:
        raise UsageError(f"{option} needs --probe", "such as --probe libc:malloc")
    from tracer.cli.tracing.stacks import Wanted, check_output
    from tracer.render.stacks import format_of

    format = stacks or (format_of(output) if output is not None else None) or "html"
    check_output(format, output)
    wanted = Wanted(format, tuple(maps or ()), compare, title, unit)
    if question is None and asked.expression is None:
        if (option := asked.needs_program() or ("--also" if also else None)) is not None:
            raise UsageError(f"{option} needs a program", "give one with -e 'PROGRAM'")
        _converted(files or ["-"], wanted, output)
        return 0
    if files:
        raise UsageError("a program and files cannot be used together", "tracer run --stacks takes $1, $2, …")
    from tracer.cli.tracing import Printing, compiled
    from tracer.cli.tracing.trace import trace

    printing = Printing(output=output, also=beside(also, output), stacks=wanted, warnings=not asked.no_warnings)
    if question is not None:
        wanted = replace(wanted, unit=unit or (weight or ""))
        return run(asked, Results({"output": output, "also": also}), question, wanted)
    with asked.prepared(*asked.source(())) as prepared, ExitStack() as stack:
        compiled(prepared, printing, stack)
        return trace(prepared, printing)


def _first(*given: "tuple[str, str | bool | None]") -> "str | None":
    """The name of the first that is given."""
    return next((name for name, value in given if value), None)


def _converted(files: "list[str]", wanted: "Wanted", output: "str | None") -> None:
    from tracer.render.stacks import document_of
    from tracer.render.stacks.profiles import Page
    from tracer.render.stacks.read import read

    if files == ["-"] and sys.stdin.isatty():
        raise UsageError("no stacks", "name a file that --stacks folded or -f json wrote, or give a program with -e")
    chosen = wanted.chosen([read(_content(name), _shown(name)) for name in files], list(map(_shown, files)))
    title = wanted.title or " and ".join(dict.fromkeys(map(_shown, files)))
    document = document_of(wanted.format)(chosen, Page(title, wanted.compare))
    if output is None:
        sys.stdout.buffer.write(document)
        return
    try:
        with open(output, "wb") as file:
            file.write(document)
    except OSError as error:
        raise TracerError(f"cannot write {output}: {error.strerror}") from None


def _shown(name: str) -> str:
    return "stdin" if name == "-" else name


def _content(name: str) -> bytes:
    from tracer.opening import given

    try:
        return given(0 if name == "-" else name, _MOST_BYTES)
    except OSError as error:
        raise TracerError(f"cannot read {name}: {error.strerror}") from None
