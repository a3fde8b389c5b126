"""`tracer list`: what can be traced; each line of text is a valid attach point."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tracer.cli.errors import diagnostics_text, printable
from tracer.cli.options import (
    BackendName,
    Children,
    DebugInfo,
    Expression,
    Included,
    IncludePaths,
    Json,
    MaxProbes,
    NoWarnings,
    UnsafeReturns,
    flags,
    look_for_debug_files_in,
    program_text,
    settings_of,
    whom,
)
from tracer.errors import Source, UsageError

if TYPE_CHECKING:
    from tracer.kinds.model import Machine
    from tracer.kinds.site import Target
    from tracer.resolve.listing import Listed, ListedSite
    from tracer.resolve.sites.site_texts import SiteTexts

EXAMPLE = "tracer list 'usdt:/usr/bin/python3:*'"

_MOST_ASKED = 64
"""Processes whose memory is read for a semaphore."""


def command(
    pattern: Annotated[
        Optional[str],  # noqa: UP045 - older versions of Typer know no `X | None`
        typer.Argument(
            metavar="[PATTERN]",
            help="Which probes: usdt:PATH:*, uprobe:PATH:name*, *:PATH:name, PATH, tracepoint:SYSTEM:*, or any attach"
            " point; or a program's file.",
            show_default=False,
        ),
    ] = None,
    expression: Expression = None,
    included: Included = None,
    include_paths: IncludePaths = None,
    debug_folders: DebugInfo = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print what is known of each place, and its arguments.")
    ] = False,
    as_json: Json = False,
    pids: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "-p", "--pid", metavar="PID|NAME[,…]", help="Search the files that these processes have mapped.",
            show_default=False,
        ),
    ] = None,
    children: Children = False,
    child: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "-c", "--cmd", metavar="COMMAND", help="Search what COMMAND would run; it is not started.",
            show_default=False,
        ),
    ] = None,
    verify: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--verify", metavar="FILE", help="Compare what tracer reads of FILE with what pyelftools reads.",
            show_default=False,
        ),
    ] = None,
    max_probes: MaxProbes = None,
    unsafe_returns: UnsafeReturns = False,
    no_warnings: NoWarnings = False,
    backend: Annotated[BackendName, typer.Option("--backend", hidden=True)] = "auto",
) -> int:
    """List the probes of a file or of processes.

    With a program (-e, or its file), list the probes that it would attach.

    With -p the files that the processes have mapped are searched, and the pattern needs no path (usdt::*).
    uprobe:*:NAME searches all that processes run. -v adds every site's address, function, source line and arguments,
    the parameters of functions that debug information knows, and whether semaphores are on.

    --verify reads FILE with pyelftools too, and prints each difference. It ends with status 1 if there is any. It needs
    no root, and takes at most 20 seconds for each of: sections, segments, notes, symbols, line table, unwind rules,
    parameters.
    """
    if verify is not None:
        if pattern is not None or expression is not None or pids or children or child is not None:
            raise UsageError("--verify takes one file, and nothing else to list")
        return _verify(verify)
    from tracer.kinds.site import Target
    from tracer.resolve.listing import list_lines, list_probes

    look_for_debug_files_in(debug_folders)
    target = Target()
    if pids or children or child is not None:
        from tracer.tracing import Prepared, Request

        with Prepared(Request(Source(""), pid=whom(pids), command=child, children=children), flags()) as prepared:
            target = prepared.target  # they are there, and no threads: said in one line if not
            if prepared.processes is not None and verbose:
                from tracer.target.chosen import described

                sys.stderr.writelines(f"tracer: process {described(pid)}\n" for pid in prepared.processes.pids)
            elif prepared.processes is not None and prepared.processes.chosen:
                sys.stderr.write(f"tracer: searching {prepared.processes.chosen}\n")
    if expression is not None or (pattern is not None and _is_program(pattern)):
        from tracer import pipeline

        source, params = program_text(expression, () if pattern is None else (pattern,), included, include_paths)
        listed, warnings = pipeline.probes(source, params, target, os.environ, settings_of(max_probes, unsafe_returns))
        if warnings and not no_warnings:
            sys.stderr.write(diagnostics_text(source, warnings))
        _show(listed, target, verbose, as_json)
        return 0
    if pattern is not None and (reason := _no_pattern(pattern)) is not None:
        raise reason
    left_out: list[str] = []
    if verbose or as_json:
        _show(list_probes(pattern, target, left_out, machine), target, verbose, as_json)
    else:
        for lines in list_lines(pattern, target, left_out, machine):
            print(lines, end="")
    for text in left_out:
        sys.stderr.write(f"tracer: {printable(text)}\n")
    return 0


def _verify(path: str) -> int:
    """`--verify`: differences on stdout, or one line that there are none; what was not compared, and why, on stderr."""
    from tracer.verify.known import REASONS
    from tracer.verify.verify import verify

    parts = verify(path)
    for part in parts:
        for line in part.differences:
            print(line)
        if part.more:
            print(f"{part.name}: {part.more} more differences")
        for name, times in part.reasons:
            raised = f": {part.raised}" if name == "raised" else ""
            sys.stderr.write(f"tracer: {part.name}: {times} not compared: {REASONS[name]}{raised}\n")
        if part.cut:
            sys.stderr.write(f"tracer: {part.name}: not compared beyond {part.compared}: {part.cut}\n")
    if any(part.differences for part in parts):
        return 1
    counts = ", ".join(f"{part.compared} {part.name}" for part in parts)
    print(f"{printable(path)}: nothing differs in {counts}")
    return 0


def _show(probes: Iterable[Listed], target: Target, verbose: bool, as_json: bool) -> None:
    """Prints a line for each, with `verbose` and what is known of it below."""
    details = Details(target)
    for listed in probes:
        if as_json:
            import json

            line = json.dumps(listed.as_json(), ensure_ascii=False)
            print(line if line.isprintable() else json.dumps(listed.as_json()))
            continue
        print(printable(listed.probe))
        for line in (details.lines(listed) if listed.path else listed.fields) if verbose else ():
            print(f"    {printable(line)}")


def machine() -> Machine:
    """The object that knows the kernel's events; loaded where they are listed."""
    from tracer.kernel.kernel_events import KernelEvents

    return KernelEvents()


def _no_pattern(word: str) -> UsageError | None:
    """The error for a word that bpftrace lists something for, and tracer nothing."""
    if word.endswith(".bt") and ":" not in word:
        return UsageError(f"no such file: {word}", "a program is given with -e")
    if word.partition(" ")[0] in ("struct", "union", "enum"):
        return UsageError(f"{word}: types are not listed", "tracer list -v 'uprobe:FILE:FUNCTION' shows those of args")
    return None


def _is_program(name: str) -> bool:
    """Whether a word is the file of a program's text, not one that holds probes."""
    if name == "-":
        return True
    from tracer.opening import NOT_REGULAR, content

    try:
        return b"\0" not in content(name, 4096)
    except OSError as error:
        return error.strerror == NOT_REGULAR  # `<(…)`, whose text is read once
    except ValueError:
        return False


class Details:
    """The lines below a probe; probes come file by file. With -p semaphores are those of these processes."""

    _texts: SiteTexts

    def __init__(self, target: Target) -> None:
        self._target = target
        self._path = ""
        self._running: list[int] | None = None

    def lines(self, listed: Listed) -> Iterator[str]:
        """The parameters of a function that debug information knows, below each site where they differ; one line for
        each site, and below it each argument in words; the semaphore.
        """
        if listed.path != self._path:
            from tracer.resolve.sites.site_texts import SiteTexts

            if self._path:
                self._texts.close()
            self._path, self._texts, self._running = listed.path, SiteTexts(listed.path), None
        line = 0
        if listed.sites and (line := self._texts.line_in(listed.kind, listed.probe, listed.sites[0].address)):
            yield from self._texts.source(line, listed.sites[0].address)
        variables = [[*self._texts.variables(listed.kind, listed.probe, site.address)] for site in listed.sites]
        prototypes = [self._prototype(listed, site) if not variables[0] else () for site in listed.sites]
        same = len({*prototypes}) == 1  # static functions of one name may have others
        yield from prototypes[0] if same else ()
        for site, prototype, inside in zip(listed.sites, prototypes, variables, strict=True):
            yield self._place(listed, site, line)
            yield from () if same else (f"  {text}" for text in prototype)
            for index, arg in enumerate(site.args):
                yield f"  arg{index}: {self._texts.argument(arg)}"
            yield from (f"  {text}" for text in inside)
        yield from self._copies(listed)
        guarded = {site.semaphore: site for site in listed.sites if site.semaphore is not None}
        for site in guarded.values():
            if (text := self._semaphore(site)) is not None:
                yield text

    def _prototype(self, listed: Listed, site: ListedSite) -> tuple[str, ...]:
        from tracer.kinds.registry import KINDS_OF_SITES

        if listed.kind not in KINDS_OF_SITES or not KINDS_OF_SITES[listed.kind].enters:
            return ()
        from tracer.resolve.dwarf.debug_info import prototype

        return prototype(listed.path, site.address) or ()

    def _copies(self, listed: Listed) -> Iterator[str]:
        from tracer.kinds.registry import KINDS_OF_SITES

        if listed.kind in KINDS_OF_SITES and KINDS_OF_SITES[listed.kind].enters:
            yield from self._texts.copies(listed.name)

    def _place(self, listed: Listed, site: ListedSite, line: int) -> str:
        texts = self._texts
        parts = [f"address {site.address:#x}"]
        if site.offset is not None:
            parts.append(f"offset {site.offset:#x}")
        function = texts.called(listed.name, site.address)
        parts += filter(None, (function, texts.line(site.address, line)))
        if site.semaphore is not None:
            parts.append(f"semaphore {site.semaphore:#x}")
        if site.args:
            parts.append("args " + " ".join(arg.text for arg in site.args))
        return "  ".join(parts)

    def _semaphore(self, site: ListedSite) -> str | None:
        """The number of processes in which a semaphore could be raised, and in which it is."""
        from tracer.kernel.workers.semaphores import Semaphore, values_of

        assert site.semaphore is not None
        offset = self._texts.offset(site.semaphore)
        if offset is None or site.offset is None:
            return None
        named = f"semaphore {site.semaphore:#x}"
        users = self._users()
        if not users:
            return f"{named}: no process that runs now has loaded the file"
        semaphore = Semaphore(*self._texts.file, offset, site.semaphore, site.offset, site.address)
        read = [values for pid in users[:_MOST_ASKED] if (values := values_of(pid, semaphore))]
        many = "1 process has" if len(users) == 1 else f"{len(users)} processes have"
        if not read:
            return f"{named}: {many} loaded the file; whether it is on there only root sees"
        on = sum(1 for values in read if any(values))
        of = f" of {len(read)} that were asked" if len(read) < len(users) else ""
        where = f"on in {on}" if on else "off"
        return f"{named}: {many} loaded the file; it is {where}{of}"

    def _users(self) -> list[int]:
        if self._running is None:
            from tracer.host.file_users import uses_of

            path = os.path.abspath(self._path)
            self._running = uses_of([path], self._target.pictures)[path].pids
        return self._running
