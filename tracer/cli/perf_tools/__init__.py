"""`tracer uprobe` and `tracer usdt`: the words of perf-tools' uprobe and usdt, and lines of uprobe_events.

A definition becomes a program of ours (`tracer/foreign/`), which runs as one that is given with -e does.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.errors import ProgramError, Source, UsageError

if TYPE_CHECKING:
    from tracer.cli.perf_tools.options import Words
    from tracer.foreign.program import Translated
    from tracer.tracing import Prepared


def run(words: Words, notes: bool) -> int:
    """Lists, shows or traces, where places are USDT probes (`notes`) or not; returns the exit status."""
    tool = "usdt" if notes else "uprobe"
    if words.listed is not None:
        if words.definition is not None:
            raise UsageError("-l takes a file, and nothing else", f"tracer {tool} -l {words.listed}")
        return _list(words.listed, notes)
    if words.definition is None:
        example = "p:FILE:PROVIDER:NAME" if notes else "p:FILE:FUNCTION"
        raise UsageError("no definition of a probe", f"tracer {tool} '{example}', or tracer {tool} -l FILE")
    if words.view and words.duration is not None:
        raise UsageError("-d and -v cannot be used together", "-v does not trace")
    from tracer.foreign.line import read
    from tracer.foreign.places import place_of
    from tracer.foreign.program import Wanted, fields, format_text, translated
    from tracer.kinds.site import EVERY_PROCESS

    line = Source(words.definition, "the definition")
    definition = read(words.definition, notes, line.name)
    place = place_of(line, definition, notes, EVERY_PROCESS)
    if words.view:
        print(format_text(definition, fields(definition, place)), end="")
        return 0
    wanted = Wanted(words.filter, words.thread, words.stack, words.header, words.format == "json")
    program = translated(line, definition, place, wanted)
    if words.show:
        print(program.text, end="")
        return 0
    return _trace(words, program)


def _trace(words: Words, program: Translated) -> int:
    from tracer.cli.tracing import Printing, compiled

    source = Source(program.text, "the program that --show prints")
    # With -d perf-tools leaves all in the kernel's buffer until the end, which costs least.
    buffering = "full" if words.duration is not None else "line"
    printing = Printing(words.format, words.output, buffering=buffering)
    try:
        with _prepared(words, source) as prepared, ExitStack() as stack:
            compiled(prepared, printing, stack)
            from tracer.cli.tracing.trace import trace

            return trace(prepared, printing)
    except ProgramError as error:
        raise program.at_the_line(error) if error.source.text == program.text else error from None


def _prepared(words: Words, source: Source) -> Prepared:
    from tracer.cli.options import flags, seconds_of, whom
    from tracer.tracing import Prepared, Request

    return Prepared(
        Request(
            source, (), whom(None if words.pid is None else [words.pid]), words.child,
            backend=None if words.backend == "auto" else words.backend, environment=os.environ,
            duration_s=seconds_of(words.duration), quiet=words.quiet,
        ),
        flags(),
    )  # fmt: skip


def _list(file: str, notes: bool) -> int:
    """The names that a definition can have behind `FILE:`."""
    from tracer.cli.errors import printable
    from tracer.foreign.program import attach_point
    from tracer.kinds.site import EVERY_PROCESS
    from tracer.resolve.listing import list_probes

    left_out: list[str] = []
    pattern = attach_point("usdt", file, "*", "*") if notes else attach_point("uprobe", file, "*")
    for name in dict.fromkeys(_name(listed.as_json()) for listed in list_probes(pattern, EVERY_PROCESS, left_out)):
        print(printable(name))
    for text in left_out:
        sys.stderr.write(f"tracer: {printable(text)}\n")
    return 0


def _name(listed: dict[str, object]) -> str:
    return f"{listed['provider']}:{listed['name']}" if listed.get("provider") else str(listed["name"])
