"""`tracer flow`: the calls below a function, inside each other."""

import sys
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from tracer.cli.options import Asked, Json, Options
from tracer.cli.questions.asking import Filter, Output, Show, given, question
from tracer.dataclass import replace
from tracer.errors import Source, UsageError, and_more, counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tracer.kinds.site import FileSite
    from tracer.lang.types.outside import Parameter
    from tracer.render.flow.renderer import FlowRenderer, Function
    from tracer.resolve.below import Flow, Traced
    from tracer.tracing import Prepared

EXAMPLE = "sudo tracer flow /usr/bin/redis-server:processCommand -p redis-server --depth 2"

_REGISTERS_OF_GO = 9
"""Arguments that registers hold, which are at most 6 in C."""
_WHO, _WHOSE = "tid=tid", "tid"
_WHOSE_OF_GO = 'pid, reg("r14")'
_STACKS = 1 << 40
_POINTER_OF_GO = f'(reg("sp") - *(uint64 *)(reg("r14") + 8) + {_STACKS})'
"""A stack that grows is copied, and each place of it stays as far from its end, which the runtime's record of the
goroutine holds at 8. r14 holds the address of that record. Source: ABIInternal of Go, runtime2.go.
"""
_UNKNOWN = "what a call of one costs is not known"
_PATIENCE_S = 5.0
"""How long the cost of a hit is waited for."""


class Below(Options):
    """Which functions below the one that is named, and how their calls are printed."""

    depth: Annotated[
        Optional[int],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Option(
            "--depth", metavar="N", min=0, show_default=False,
            help="Functions that direct calls lead to within N levels: 3, where those are not too many.",
        ),
    ] = None  # fmt: skip
    only: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--only", metavar="GLOB", help="Of these the ones with such names.", show_default=False),
    ] = None
    more: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--with", metavar="PROBE", show_default=False,
            help="These functions too, FILE:FUNCTION: what is called through pointers, or in other files.",
        ),
    ] = None  # fmt: skip
    where: Filter = None
    format: Annotated[
        Literal["text", "chrome"],
        typer.Option("--format", help="Lines, or a document of Chrome's trace events, which Perfetto opens too."),
    ] = "text"
    json: Json = False
    output: Output = None
    show: Show = False


@question
def command(
    asked: Asked,
    below: Below,
    function: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="FUNCTION", help="FILE:FUNCTION, such as libc:getaddrinfo.", show_default=False),
    ] = None,
) -> int:
    """Print the calls below a function as they come, inside each other, with arguments, results and durations.

    Traced are the functions of its file that direct calls lead to. How many they are, and what a hit costs, is said
    before. --filter is about the arguments of FUNCTION.
    """
    from tracer.cli.options import look_for_debug_files_in, switch_off

    (word,) = given([function] if function is not None else None, "flow")
    chrome = below.format == "chrome"
    if chrome and below.json:
        raise UsageError("--json and --format chrome are two formats", "leave out one of them")
    if chrome and not below.show and below.output is None and sys.stdout is not None and sys.stdout.isatty():
        raise UsageError("chrome is not for a terminal", "-o FILE writes it to a file")
    look_for_debug_files_in(asked.debug_folders)
    switch_off(asked.features)
    with asked.prepared(Source(""), ()) as prepared:
        flow = _below(word, prepared, below, asked.unsafe_returns)
        text = program(flow, below.where)
        if below.show:
            sys.stdout.write(text)
            return 0
        if not asked.quiet:
            _say(flow)
        prepared.request = replace(prepared.request, source=Source(text))
        return _run(prepared, flow, asked, below)


def program(flow: "Flow", where: "str | None") -> str:
    """The program: a note of each thread says where the flow began on its stack, so what is not below costs no record.
    Raises `ProgramError`.
    """
    from tracer.cli.questions.text import UNPRINTED, condition
    from tracer.render.flow.calls import NEAR

    only = condition(where, "--filter") if where is not None else None
    who, whose, pointer = _WHO, _WHOSE, 'reg("sp")'
    if flow.goroutines:
        who, whose, pointer = _goroutine(flow.number), _WHOSE_OF_GO, _POINTER_OF_GO
    here = f"time=nsecs, {who}, func={{}}, sp={pointer}"
    arguments = _arguments(flow.functions)
    begins = f"{here}, back=*(uint64 *)reg(\"sp\"){{}}{arguments}"
    # Further in, where the function calls itself, the stack pointer is below the note.
    here_in = f"@in[{whose}]"
    near = f"{pointer}{{0}} >= {here_in} && {pointer}{{0}} - {here_in}"
    note = f"{here_in} = {pointer};"
    gone = f"delete({here_in});" if flow.goroutines else "delete(@in, tid);"
    if only is not None and only.text:
        note = f"if ({only.text}) {{ {note} }} else {{ {gone} }}"
    more = ", comm=comm" if flow.goroutines else ", pid=pid, comm=comm"
    clauses = [
        f'{_points("uprobe", some)} {{ if (!{here_in} || ({near.format("")} < {NEAR})) {{ {note} }}'
        f' if ({here_in}) {{ print(({begins.format(name, more)})); }} }}\n'
        for name, some in _by_name(flow.above)
    ]
    for name, some in _by_name(flow.below):
        clauses.append(f'{_points("uprobe", some)} /{here_in}/ {{ print(({begins.format(name, "")})); }}\n')
    behind = f" if ({near.format('')} <= 8) {{ {gone} }}"
    for functions, rest in ((flow.below, ""), (flow.above, behind)):
        for result, retval in (("one", ", retval=retval"), ("two", ', retval=retval, second=reg("dx")'), ("", "")):
            for name, some in _by_name([function for function in functions if _returns(function) == result]):
                end = f"print(({here.format(name)}{retval}));{rest}"
                clauses.append(f'{_points("uretprobe", some)} /{here_in}/ {{ {end} }}\n')
    # Behind setjmp() the return address of what was left is below the stack pointer, and that of a catch lies there.
    jumped = ' && (uint32)reg("ax") != 0'
    for points, below, jump, why in ((flow.catches, "", "", "an exception"), (flow.jumps, " - 8", jumped, "longjmp()")):
        if points:
            record = f'time=nsecs, tid=tid, sp=reg("sp"){below}, why="{why}"'
            ends = f"if ({near.format(below)} < {NEAR}) {{ {gone} }}"
            clauses.append(f"{', '.join(points)} /{here_in}{jump}/ {{ print(({record})); {ends} }}\n")
    return UNPRINTED + "".join(clauses)


def _goroutine(number: "int | None") -> str:
    """The number of the goroutine, or the address of its record; those on which the scheduler runs have number 0."""
    record = 'reg("r14")'
    if number is None:
        return f"pid=pid, goroutine={record}"
    told = f"*(uint64 *)({record} + {number})"
    return f"pid=pid, goroutine=({told} != 0 ? {told} : {record})"


def _by_name(functions: "Sequence[Traced]") -> "list[tuple[str, list[Traced]]]":
    """The functions that a clause can have together, with the expression of what its records call them: `func`, where
    it has no place behind it.
    """
    from tracer.lang.printing.tree import quoted

    groups: dict[str, list[Traced]] = {}
    for function in functions:
        name = quoted(function.key.encode("utf-8", "surrogateescape")) if function.place else "func"
        groups.setdefault(name, []).append(function)
    return list(groups.items())


def _points(kind: str, functions: "Sequence[Traced]") -> str:
    return ", ".join(dict.fromkeys(f"{kind}:{function.point}" for function in functions))


def _returns(function: "Traced") -> str:
    """How many registers are known to hold its result, one where nothing is known."""
    from tracer.resolve.dwarf.calls.results import NOT_SAID

    if not isinstance(function.result, str) or function.result == NOT_SAID:
        return "one"
    return "two" if _is_held(function.struct) else ""


def _is_held(struct: "Parameter | None") -> bool:
    """Whether the two registers of results have all of it."""
    return struct is not None and not struct.reason and not struct.indirect


def _parameters(function: "Traced") -> "tuple[Parameter, ...] | None":
    """None where they are not known: assembler's functions are described, and nothing of them is."""
    from tracer.resolve.dwarf.calls.results import NOT_SAID

    parameters = function.parameters
    unknown = isinstance(parameters, str) or (not parameters and function.result == NOT_SAID)
    return None if unknown or isinstance(parameters, str) else parameters


def _arguments(functions: "Sequence[Traced]") -> str:
    """Those that the parameters of the functions ask for."""
    pieces = [
        piece
        for function in functions if not isinstance(function.parameters, str)
        for parameter in function.parameters
        for piece in parameter.pieces
    ]  # fmt: skip
    number = min(max((index + 1 for _, _, index, _ in pieces), default=0), _REGISTERS_OF_GO)
    return "".join([f", arg{index}=arg{index}" for index in range(number)])


def _below(word: str, prepared: "Prepared", below: Below, unsafe_returns: bool) -> "Flow":
    from tracer.cli.questions.text import probe
    from tracer.lang.syntax import attach
    from tracer.resolve.below import flow_of

    points = []
    for name in (word, *(below.more or ())):
        function = probe(name).whole_call().text.partition(":")[2]
        points.append(attach.read(f"uprobe:{function}", 0)[0])
    return flow_of(points[0], prepared.target, below.depth, below.only, points[1:], unsafe_returns)


def _say(flow: "Flow") -> None:
    """How many functions there are, what a call of one costs, and what is not followed."""
    from tracer.resolve.functions.demangled_names import without_parameters

    entries = [function.entry for function in flow.functions]
    ends = [end for function in flow.functions for end in function.ends]
    places = len({site.place for site in (*entries, *ends)})
    above = dict.fromkeys(without_parameters(function.name) for function in flow.above)
    names = and_more(map(printable, [*above][:3]), len(above))
    count = counted(len(flow.functions), "function")
    lines = [f"the flow of {names}: {count} at {counted(places, 'place')}; {_cost(entries, ends)}", *flow.left_out]
    sys.stderr.write("".join([f"tracer: {line}\n" for line in lines]))
    sys.stderr.flush()


def _cost(entries: "Sequence[FileSite]", ends: "Sequence[FileSite]") -> str:
    """What the probes of a call cost, which is measured once for the same instructions on a machine that runs."""
    from tracer import cache
    from tracer.host.clock import boot_id
    from tracer.kernel.trials.hit_cost import instruction_like
    from tracer.kernel.trials.instructions import codes_of

    parts = [boot_id()]
    try:
        parts += [f"{instruction_like(codes_of([site])[0])} {site.is_return_probe}" for site in (*entries, *ends)]
    except (OSError, IndexError):
        return "what a call of one costs is not known: its file cannot be read any more"
    key = cache.key_of(*parts)
    kept = cache.load("hit costs", key)
    shown = kept.decode() if kept is not None else _measured(entries, ends)
    if kept is None and _UNKNOWN not in shown:
        cache.store("hit costs", key, shown.encode())
    return shown


def _measured(entries: "Sequence[FileSite]", ends: "Sequence[FileSite]") -> str:
    from tracer.kernel.trials.hit_cost import HitCosts

    times = []
    with closing(HitCosts()) as costs:
        for sites in (entries, ends):
            until = time.monotonic() + _PATIENCE_S
            while (cost := costs.of(sites)) is None and time.monotonic() < until:
                time.sleep(0.005)
            if cost is None or cost.unmeasured:
                return _UNKNOWN + (f": {cost.unmeasured}" if cost is not None else "")
            times.append(cost.ns / 1000)
    return f"each call of one takes {sum(times):.1f} us more, {times[0]:.1f} of them where it begins"


class _Special:
    """Makes what prints the flow, and lets it know what was lost."""

    def __init__(self, format: str, functions: "Mapping[str, Function]") -> None:
        self._format, self._functions = format, functions

    def made(self, *parts: Any) -> "FlowRenderer":
        if self._format == "chrome":
            from tracer.render.flow.chrome import ChromeFlow

            self._renderer: FlowRenderer = ChromeFlow(self._functions, *parts)
        elif self._format == "json":
            from tracer.render.flow.lines import LinesFlow

            self._renderer = LinesFlow(self._functions, *parts)
        else:
            from tracer.render.flow.text import TextFlow

            self._renderer = TextFlow(self._functions, *parts)
        return self._renderer

    def join(self, talk: Any, controls: Any, lost: Any, stack: ExitStack) -> None:
        self._renderer.lost_so_far = lost
        talk.as_wanted = self._renderer.as_wanted


def _run(prepared: "Prepared", flow: "Flow", asked: Asked, below: Below) -> int:
    from tracer.cli.tracing import Printing, compiled
    from tracer.cli.tracing.status import status_line
    from tracer.cli.tracing.trace import trace
    from tracer.render.flow.renderer import Function
    from tracer.resolve.functions.demangled_names import without_parameters

    above = {function.key for function in flow.above}
    functions = {
        function.key: Function(
            without_parameters(function.name) + (f"@{function.place}" if function.place else ""),
            f"uprobe:{function.point}", _parameters(function),
            None if isinstance(function.result, str) else function.result,
            function.struct, _returns(function) != "", function.key in above, function.leaves,
            function.point.replace(f"{function.entry.address:#x}", f"{function.entry.address}"),
        )
        for function in flow.functions
    }  # fmt: skip
    special = _Special("json" if below.json else below.format, functions)
    printing = Printing(
        output=below.output, warnings=not asked.no_warnings, special=special,
        status=status_line(asked.quiet or asked.child is not None),
    )  # fmt: skip
    with ExitStack() as stack:
        compiled(prepared, printing, stack)
        return trace(prepared, printing)
