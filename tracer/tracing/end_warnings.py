"""The lines about what makes an answer incomplete: at the end of a trace, and where it is known earlier."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tracer.render.loss import counted

if TYPE_CHECKING:
    from tracer.plan.model import Plan
    from tracer.probes.site import Site
    from tracer.results.events import Outcome


_PATIENCE_S = 5.0
_NAMED = 8
_NAMED_PLACES = 3


class OlderFiles:
    """The processes that run an older file of a probed path in a trace of all: it was replaced while they ran, and only
    the new one is probed. `say` gets each line. To look costs some milliseconds for a hundred processes.
    """

    def __init__(self, paths: Collection[str], say: Callable[[str], None]) -> None:
        self._paths = paths
        self._say = say
        self._told: set[int] = set()
        self._due = 0.0

    def start(self) -> None:
        """The probes are in place."""
        self._due = time.monotonic() + _PATIENCE_S

    def look(self) -> None:
        """Called now and then."""
        if self._due and time.monotonic() > self._due:
            self._due = 0.0
            self.tell()

    def tell(self, any_hit: bool = False) -> None:
        """Says what there is now and was not said. Where nobody runs the new file, and there was not `any_hit`, that is
        left to who explains silence.
        """
        from tracer.resolve.processes.file_users import older_users

        for path, (pids, is_run) in older_users(self._paths).items():
            fresh = [pid for pid in pids if pid not in self._told]
            if fresh and (is_run or any_hit):
                self._told.update(fresh)
                self._say(_line(path, fresh))


def closing_lines(plan: Plan, outcome: Outcome, backend: str | None = None) -> Iterator[str]:
    """The lines, without an end of line; none where all is well."""
    from tracer.render.loss import loss_messages

    yield from loss_messages(outcome.loss, plan.program)
    if backend == "ftrace" and outcome.loss.events and _says_exit(plan):
        # Its exit() is found in the events; that of bcc is a flag in the kernel, which nothing can lose.
        yield "exit() may be among what was lost: what came after it may have been counted"


def not_probed(sites: Sequence[Site], attached: int) -> str:
    """The line about the `sites` that the kernel would not probe, beside as many as it has `attached`."""
    names = [site.shown for site in sites[:_NAMED_PLACES]]
    rest = f" and {len(sites) - _NAMED_PLACES} more" if len(sites) > _NAMED_PLACES else ""
    places = counted(attached + len(sites), "place")
    return f"{len(sites)} of {places} left out: the kernel cannot probe the instruction at {', '.join(names)}{rest}"


def not_followed(pid: int) -> Iterator[str]:
    """The line about the processes that a running process had started before it was followed; none without any."""
    from tracer.resolve.processes.stat import descendants

    if found := descendants(pid):
        its, run = ("descendant", "runs") if len(found) == 1 else ("descendants", "run")
        whom = f"its {its} {_numbers(found)}, which {run} already"
        yield f"--follow traces what process {pid} starts from now on, not {whom}"


def _says_exit(plan: Plan) -> bool:
    """Whether a probe, not an interval, can end the trace."""
    from tracer.lang.typed import Exit
    from tracer.lang.walk import walk_clause

    return any(isinstance(node, Exit) for probe in plan.probes for node in walk_clause(probe.clause))


def _line(path: str, pids: list[int]) -> str:
    whom = _numbers(pids)
    if len(pids) == 1:
        return f"process {whom} runs an older {path}, replaced since, and is not traced; -p {whom} traces it"
    return f"processes {whom} run an older {path}, replaced since, and are not traced; -p PID traces one"


def _numbers(pids: Sequence[int]) -> str:
    """`1`, `1 and 2`, `1, 2 and 7 more`."""
    shown = [str(pid) for pid in pids[:_NAMED]]
    shown += [f"{len(pids) - _NAMED} more"] if len(pids) > _NAMED else []
    return ", ".join(shown[:-1]) + (" and " if len(shown) > 1 else "") + shown[-1]
