"""The library: what `import tracer` offers. The command line is made of the same parts, and nothing here prints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

from tracer.api import events as events
from tracer.api.running import Trace
from tracer.errors import Diagnostic, Source, UsageError
from tracer.lang.config import KNOWN
from tracer.probes.site import Target
from tracer.render import notices as notices
from tracer.tracing import Request

if TYPE_CHECKING:
    from tracer.resolve.listing import Listed
    from tracer.target.running import RunningProcesses


Whom = int | str | Sequence[int | str]
"""The number of a process, its exact name, or several of these."""


def trace(
    program: str, *args: str, pid: Whom | None = None, command: str | Sequence[str] | None = None,
    follow: bool = False, children: bool = False, backend: str | None = None, duration: float | None = None,
    max_rate: int | None = None, config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Trace:  # fmt: skip
    """A trace of `program`, the text of one, whose `$1`, `$2`, … are `args`: of the process `pid` (its number, or its
    exact name, or several of these), of `command`, which it starts, or of every process; with `follow` of what these
    start too, with `children` of what descends from `pid` and runs now. Nothing is attached before it is entered.

    `backend`: "bcc" or "ftrace"; None chooses. `duration`: after so many seconds it ends. `max_rate`: an attach point
    with more hits a second is detached. `config` are settings as in the program's `config = { … }`, and over them;
    `unsafe` among them allows what acts on the machine. `environment`: where BPFTRACE_MAX_STRLEN and its kin are looked
    for; None: nowhere.

    Raises `ProgramError` where the program is wrong or cannot run here, `TracerError` for anything else.
    """
    from tracer import pipeline
    from tracer.backends.choose import BACKENDS, Activation
    from tracer.dataclass import replace
    from tracer.render.notices import Overhead

    if pid is not None and command is not None:
        raise UsageError("pid and command cannot be used together", "command already traces its process alone")
    if follow and pid is None and command is None:
        raise UsageError("follow needs a pid or a command", "without them every process is traced already")
    if children and pid is None:
        raise UsageError("children needs a pid", "follow traces what a command starts")
    if backend is not None and backend not in BACKENDS:
        raise UsageError(f"no backend {backend}", f"there are {', '.join(BACKENDS)}")
    argv, path = _command(command)
    settings, activation = _settings(config), Activation.of(command is not None, follow)
    with ExitStack() as stack:
        processes: RunningProcesses | None = None
        if pid is not None:
            processes = stack.enter_context(_processes(pid, children))
        target = Target(() if processes is None else processes.pids, path, follow)
        plan, said = pipeline.plan(Source(program), args, target, environment, settings)
        plan = replace(plan, separate_points=max_rate is not None)
        compiled = pipeline.compile(plan, backend, activation=activation)
        stack.pop_all()  # the trace closes it
    warnings = [Overhead(plan.program.source, each) for each in said]
    return Trace(compiled, Request(processes, argv, follow, max_rate, duration_s=duration), warnings)


def check(program: str, *args: str, config: Mapping[str, Any] | None = None) -> list[Diagnostic]:
    """The warnings of a program that is right: its syntax, its types, and that its probes exist. Needs no root. Raises
    `ProgramError` with all that is wrong.
    """
    from tracer import pipeline

    return pipeline.plan(Source(program), args, given=_settings(config))[1]


def find_probes(pattern: str | os.PathLike[str], pid: Whom | None = None) -> list[Listed]:
    """The probes of a file, or those that match an attach point whose parts may be left out at the end: `libc`,
    `usdt:/usr/bin/python3.11:*`, `uprobe:libc:str*`. With `pid` a file is one that these processes have mapped. Needs
    no root. Raises `TracerError`.
    """
    from tracer.resolve.listing import list_probes

    with nullcontext() if pid is None else _processes(pid) as processes:
        return list(list_probes(os.fspath(pattern), Target(() if processes is None else processes.pids)))


def _processes(whom: Whom, children: bool = False) -> RunningProcesses:
    from tracer.target.running import processes_of

    asked = [whom] if isinstance(whom, int | str) else whom
    if not asked:
        raise UsageError("pid names no process", "None traces every process")
    return processes_of(asked, children, itself=True)


def _command(command: str | Sequence[str] | None) -> tuple[tuple[str, ...] | None, str | None]:
    if command is None:
        return None, None
    from tracer.target.child import find_program, parse_command

    argv = parse_command(command) if isinstance(command, str) else tuple(command)
    return argv, find_program(argv[0])


def _settings(config: Mapping[str, Any] | None) -> dict[str, str]:
    given = dict(config or {})
    if unknown := [name for name in given if name not in KNOWN]:
        raise UsageError(f"no setting {', '.join(unknown)}", f"there are {', '.join(KNOWN)}")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
