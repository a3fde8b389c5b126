"""The library: what `import tracer` offers. The command line is made of the same parts, and nothing here prints."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tracer.api import events as events
from tracer.api.running import Trace
from tracer.errors import Diagnostic, Heard, Source, TracerError, UsageError
from tracer.lang.config import SETTINGS
from tracer.render import notices as notices
from tracer.tracing import Prepared, Request, Whom

if TYPE_CHECKING:
    from tracer.resolve.listing import Listed


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
    from tracer.render.notices import Missing, Overhead

    asked = Request(
        Source(program), args, pid, command, follow, children, backend, _settings(config), environment,
        max_rate=max_rate, duration_s=duration,
    )  # fmt: skip
    warnings: list[notices.Notice] = []
    with _heard() as told:
        prepared = Prepared(asked)
        try:
            prepared.compile(
                lambda plan, said: warnings.extend([Overhead(plan.program.source, warning) for warning in said])
            )
        except BaseException:
            prepared.close()
            raise
    return Trace(prepared, [*map(Missing, told), *warnings])


def check(program: str, *args: str, config: Mapping[str, Any] | None = None) -> list[Diagnostic]:
    """The warnings of a program that is right: its syntax, its types, and that its probes exist. Needs no root. Raises
    `ProgramError` with all that is wrong.
    """
    from tracer import pipeline

    with _heard() as told:
        warnings = pipeline.plan(Source(program), args, given=_settings(config))[1]
    return [*(Diagnostic(line, severity="warning") for line in told), *warnings]


def probes(pattern: str | os.PathLike[str], pid: Whom | None = None) -> list[Listed]:
    """The probes of a file, or those that match an attach point whose parts may be left out at the end: `libc`,
    `usdt:/usr/bin/python3.11:*`, `uprobe:libc:str*`. With `pid` a file is one that these processes have mapped. Needs
    no root. Raises `TracerError`.
    """
    from tracer.resolve.listing import list_probes

    with Prepared(Request(Source(""), pid=pid)) as prepared:
        return list(list_probes(os.fspath(pattern), prepared.target))


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collects what is told of servers that are waited for, and of what they do not have; an error has it, too."""
    told: list[str] = []
    try:
        with Heard(told.append):
            yield told
    except TracerError as error:
        error.missing = tuple(told)
        raise


def _settings(config: Mapping[str, Any] | None) -> dict[str, str]:
    given = dict(config or {})
    if unknown := [name for name in given if name not in SETTINGS]:
        raise UsageError(f"no setting {', '.join(unknown)}", f"there are {', '.join(SETTINGS)}")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}
