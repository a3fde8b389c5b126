"""The time before a trace, where no file is there yet that its patterns mean: until a process maps one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from tracer.errors import Diagnostic, Interrupted, NoFileYet, NothingInFiles, ProgramError, TracerError
from tracer.host.polling import readable
from tracer.host.stat import descendants
from tracer.kernel.mapping_records import Mapped, MappingRecords
from tracer.kinds.registry import awaits_files
from tracer.kinds.site import Target
from tracer.resolve.files.awaited import meets
from tracer.resolve.files.paths import Found

if TYPE_CHECKING:
    from tracer.kinds.model import AttachPoint
    from tracer.plan.model import Plan
    from tracer.tracing import Prepared
    from tracer.tracing.loop import Controls

_LOOK_S = 1.0


def points_of(prepared: Prepared) -> Sequence[AttachPoint]:
    """The attach points of the program that await files."""
    from tracer.lang.syntax.parser import parse

    tree = parse(prepared.request.source, prepared.request.params)
    return [point for clause in tree.clauses for point in clause.points if awaits_files(point)]


def planned_once_mapped(
    prepared: Prepared, nothing: ProgramError, awaiting: Callable[[str], object], controls: Controls
) -> tuple[Plan, list[Diagnostic]]:
    """The plan, once a process has mapped a file that the program means; the command runs until then. Raises
    `ProgramError` where none comes as long as there can be any, or within the duration that was asked for, and
    `Interrupted` where the `controls` ask for the end.
    """
    points = points_of(prepared)
    request, argv = prepared.request, prepared.argv
    if argv is not None:
        from tracer.target.child import Child

        child = prepared.child = Child(argv)
        child.wait()
        prepared.target = Target((child.pid,), child.path, request.follow)
    pids = prepared.target.pids
    whom = f"process {pids[0]}" if len(pids) == 1 else f"one of {len(pids)} processes" if pids else "a process"
    awaiting(f"{nothing.message}: waiting until {whom} maps one")
    try:
        records = MappingRecords(pids, prompt=True)
    except OSError as error:
        raise TracerError(f"cannot see what processes map (perf_event_open): {error.strerror}") from None
    before = set(descendants(pids)) if request.follow else set()
    try:
        if prepared.child is not None:
            prepared.child.start()
        planned = _planned(prepared, nothing, points, records, controls)
    finally:
        records.close()
    if request.follow:  # those that they have started meanwhile are followed too
        started = [pid for pid in descendants(pids) if pid not in before]
        prepared.target = Target((*pids, *started), prepared.target.program, True)
    return planned


def _planned(
    prepared: Prepared, nothing: ProgramError, points: Sequence[AttachPoint], records: MappingRecords,
    controls: Controls,
) -> tuple[Plan, list[Diagnostic]]:
    pids, follow, duration_s = prepared.target.pids, prepared.request.follow, prepared.request.duration_s
    watched = prepared.child if prepared.child is not None else prepared.processes
    deadline = None if duration_s is None else time.monotonic() + duration_s
    mapping: Collection[int] = ()
    come = True  # what was mapped since it was looked for
    while True:
        if come:
            prepared.target.look_again()
            try:
                return prepared.plan(later=True, also=mapping if pids and follow else ())
            except (NoFileYet, NothingInFiles):
                pass
            except TracerError:
                if watched is None or not watched.ended():  # else it cannot be looked into any more
                    raise
        if watched is not None and watched.ended():
            raise _none(nothing, "and none came before the end of the process")
        if controls.stop:
            raise Interrupted
        left_s = _LOOK_S if deadline is None else min(deadline - time.monotonic(), _LOOK_S)
        if left_s <= 0:
            raise _none(nothing, f"and none came within {duration_s:g} s")
        ends = [watched.pidfd] if watched is not None and watched.pidfd >= 0 else []
        readable([*records.descriptors, *ends, *controls.wake], left_s)
        mapped_records = [record for record in records.take() if isinstance(record, Mapped)]
        mapping = {
            record.pid
            for record in mapped_records
            if not pids or follow or record.pid in pids
            if any(meets(point, Found(record.mapping.path, record.mapping.path)) for point in points)
        }
        come = bool(mapping)


def _none(nothing: ProgramError, when: str) -> ProgramError:
    diagnostics = [Diagnostic(f"{diagnostic.message}, {when}", diagnostic.span) for diagnostic in nothing.diagnostics]
    return ProgramError(nothing.source, diagnostics, exit_code=1)
