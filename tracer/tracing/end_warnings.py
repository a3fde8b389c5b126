"""Warns of what makes an answer incomplete: at the end of a trace, and where it is known earlier."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tracer.render.notices import Lost, OlderFile

if TYPE_CHECKING:
    from tracer.plan.model import Plan
    from tracer.results.events import Loss


_PATIENCE_S = 5.0


class OlderFiles:
    """The processes that run an older file of a probed path in a trace of all: it was replaced while they ran, and only
    the new one is probed. `tell` gets each. To look costs some milliseconds for a hundred processes.
    """

    task = "looking for processes that run an older file"

    def __init__(self, paths: Collection[str], tell: Callable[[OlderFile], None]) -> None:
        self._paths = paths
        self._tell = tell
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
        from tracer.host.file_users import older_users

        for path, (pids, is_run) in older_users(self._paths).items():
            fresh = [pid for pid in pids if pid not in self._told]
            if fresh and (is_run or any_hit):
                self._told.update(fresh)
                self._tell(OlderFile(path, tuple(fresh)))


def lost(plan: Plan, loss: Loss, backend: str | None = None) -> Lost:
    """The losses, in words."""
    # Its exit() is found in the events; that of bcc is a flag in the kernel, which nothing can lose.
    return Lost(loss, plan.program, backend == "ftrace" and bool(loss.events) and _says_exit(plan))


def _says_exit(plan: Plan) -> bool:
    """Whether a probe, not an interval, can end the trace."""
    from tracer.lang.typed import Exit
    from tracer.lang.walk import walk_clause

    return any(isinstance(node, Exit) for probe in plan.probes for node in walk_clause(probe.clause))
