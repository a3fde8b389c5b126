"""More sites for a trace under way: programs of their own, which use the maps that are there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.backends.bcc.attach.attachments import Attachments
from tracer.backends.bcc.codegen.generate import Generated
from tracer.backends.bcc.loading import loaded
from tracer.backends.bcc.maps.tables import Table
from tracer.backends.bcc.program import BccProgram
from tracer.dataclass import replace
from tracer.errors import TracerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracer.backends import Surroundings
    from tracer.backends.bcc.attach.loader import Loaded
    from tracer.plan.model import Plan


def continued(plan: Plan, before: Generated) -> BccProgram:
    """The program of the same clauses at other sites. Raises `TracerError` where it cannot use the maps of `before`."""
    program = BccProgram(plan, before=before)
    generated = program.generated
    for name, table in generated.tables.items():
        if _layout(table) != _layout(before.tables[name]):
            raise TracerError(f"there is no room for its keys in {name}, which was made for those known at the start")
    same = (generated.records, generated.marks, generated.control[:4], generated.unwinds, generated.interprets)
    if same != (before.records, before.marks, before.control[:4], before.unwinds, before.interprets):
        raise TracerError("what the program prints or keeps would have another form with it")
    return program


def _layout(table: Table) -> Table:
    return replace(table, grid=None)


class MoreSites:
    """The programs and links of such sites; closed as one thing."""

    def __init__(
        self, program: BccProgram, shared: Loaded, multi: bool, pids: Sequence[int], is_child: bool,
        around: Surroundings,
    ) -> None:  # fmt: skip
        """Loads the programs. Raises `TracerError`."""
        self._undo = ExitStack()
        self.attachments = Attachments(pids, multi, is_child)
        with ExitStack() as undo:
            undo.callback(self.attachments.close)
            self.loaded, self.program, _ = loaded(program, multi, shared)
            undo.callback(self.loaded.close)
            if program.plan.has_return_probes:
                from tracer.backends.bcc.attach.call_counters import load_counters

                load_counters(self.loaded, program.plan, multi)
            self.attachments.tell_waits(around.waits)
            self.attachments.hold(*around.kept())
            self._undo = undo.pop_all()

    def attach(self) -> int:
        """Attaches all, or nothing; returns the number of sites. Raises as `Attachments.attach`."""
        generated, plan = self.program.generated, self.program.plan
        return self.attachments.attach(plan, self.loaded.programs, generated.site_texts, generated.noted)

    def close(self) -> None:
        """Detaches them; a second call does nothing."""
        self._undo.close()
