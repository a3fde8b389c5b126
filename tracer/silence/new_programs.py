"""Watches memory of processes that run another program: there the processor watches nothing any more."""

from __future__ import annotations

from collections.abc import Callable

from tracer.errors import counted
from tracer.kernel.mapping_records import Executed, MappingRecords
from tracer.kinds.site import Target
from tracer.render.notices import Notice, Warned

_RING = 1 << 15


class NewPrograms:
    """Tells of each traced process that its watchpoints have ended with its program; of descendants how many."""

    task = "notes of processes that run another program"

    def __init__(self, target: Target, tell: Callable[[Notice], None]) -> None:
        self._target = target
        self._tell = tell
        self._told: set[int] = set()
        self._descendants: set[int] = set()
        self._records: MappingRecords | None = None

    def start(self) -> None:
        """Everything is attached from now on. Raises `OSError`."""
        self._records = MappingRecords(self._target.pids, size=_RING)

    def look(self) -> None:
        """Tells what is new."""
        if self._records is None or not self._records.has_any:
            return
        for record in self._records.take():
            if not isinstance(record, Executed):
                continue
            if record.pid not in self._target.pids:
                self._descendants.add(record.pid)
            elif record.pid not in self._told:
                self._told.add(record.pid)
                ended = f"process {record.pid} runs another program, and its watchpoints ended with the one before"
                self._tell(Warned(f"{ended}: trace that program itself"))

    def before_detach(self) -> None:
        """The trace is over: tells the rest."""
        self.look()
        if self._target.follow and self._descendants:
            many = counted(len(self._descendants), "descendant")
            self._tell(Warned(f"watchpoints ended in {many} that ran another program"))

    def close(self) -> None:
        """Ends the recording."""
        if self._records is not None:
            self._records.close()
            self._records = None
