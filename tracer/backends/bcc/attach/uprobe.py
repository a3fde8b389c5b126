"""Places in files on the BCC backend: USDT probes, functions, lines and returns of functions."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from tracer.backends.bcc.attach.anchors import SITES_A_LINK
from tracer.backends.bcc.attach.model import Attaching, Job, Refused, Work
from tracer.backends.bcc.codegen.arguments import REGISTERS
from tracer.backends.precheck import check_alone, unprobable
from tracer.errors import TracerError
from tracer.kernel import bpf
from tracer.kernel.bpf import link_uprobes
from tracer.kernel.limits import allowed_descriptors, check_room
from tracer.kernel.syscall import Call
from tracer.kernel.trials.instructions import NOT_PROBED, Stopped, codes_at, may_go_without, parts
from tracer.kinds.site import FileIdentity, FileSite, Site
from tracer.resolve.files.identity import open_verified

if TYPE_CHECKING:
    from tracer.backends.bcc.attach.older.shared_events import ClauseEvent, SharedEvents
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.lang.typed import Clause

_WORTH = 4
"""From this many sites of a program on, a trace event is faster than perf events for each."""

_Marked = tuple[FileSite, int]
_ToCall = Callable[[list[_Marked]], Call]


class _InFiles:
    """See `attach.model.Attacher`."""

    in_order = False
    cookies = True
    context = REGISTERS

    def sleeps(self, sites: Sequence[Site]) -> bool:
        return True

    def load(
        self, code: bytes, name: str, sleepable: bool, multi: bool, functions: Sequence[int], explained: bool
    ) -> int:
        return bpf.program_load(
            code, name, sleepable=sleepable, multi=multi, functions=functions, explained=explained
        )

    def begin(self, attaching: Attaching) -> Places:
        return Places(attaching)

    def cost(self, sites: Sequence[Site], costs: HitCosts) -> Cost | None:
        return costs.of(cast("Sequence[FileSite]", sites))


IN_FILES = _InFiles()


class Places(Work):
    """See `attach.model.Work`."""

    def __init__(self, attaching: Attaching) -> None:
        super().__init__(attaching)
        self._plan, self._pids, self._multi = attaching.plan, attaching.pids, attaching.multi
        self._watcher, self._stop = attaching.watcher, attaching.stop
        self._gone: set[int] = set()
        self._files: dict[tuple[str, FileIdentity], int] = {}
        self._shared: SharedEvents | None = None
        self._events_of: dict[int, list[ClauseEvent]] = {}
        try:
            places = self._plan.places
            for file in [(site.path, site.identity) for site in {id(site.identity): site for site in places}.values()]:
                if file not in self._files:
                    self._files[file] = open_verified(*file)
            self.left_out = unprobable(self._plan, self._watcher, self._stop)
        except BaseException:
            self.end()
            raise
        self._watcher.mind(places, self._pids)

    def plan_jobs(self, jobs: Sequence[Job]) -> None:
        if self._multi:
            return
        self._events_of = self._share(jobs)
        alone = sum(len(job.sites) for job in jobs if id(job) not in self._events_of)
        check_alone(self._plan, alone)
        check_room(alone * max(len(self._pids), 1), allowed_descriptors())

    def attach(self, job: Job) -> None:
        marked = cast("list[_Marked]", job.sites)
        if id(job) in self._events_of:
            self._events(self._events_of[id(job)], job.program, job.point, [site for site, _ in marked])
            return
        for pid in self._pids or (None,):
            self._sites(job.program, job.point, marked, job.probe.clause, pid)

    def attached(self) -> None:
        if self._shared is not None:
            self._shared.attached()
            self.left_out |= self._shared.left_out

    def end(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def close(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None

    def _share(self, jobs: Sequence[Job]) -> dict[int, list[ClauseEvent]]:
        """Trace events for the programs that have several sites, by the identity of the job; none where there is no
        tracefs: then each site is attached alone.
        """
        many = [job for job in jobs if len(job.sites) >= _WORTH]
        if not many:
            return {}
        from tracer.backends.bcc.attach.older.shared_events import SharedEvents

        try:
            self._shared = SharedEvents(self._pids, self._stop, self._watcher)
        except TracerError:
            return {}
        wanted = [(job.probe, [site for site, _ in cast("list[_Marked]", job.sites)]) for job in many]
        return dict(zip(map(id, many), self._shared.define(wanted), strict=True))

    def _events(self, events: Sequence[ClauseEvent], program: int, point: int, sites: list[FileSite]) -> None:
        assert self._shared is not None
        for event in events:
            try:
                descriptors = self._shared.attach(event, program)
            except ProcessLookupError:
                raise TracerError(f"process {self._pids[0]} has gone") from None
            except OSError as error:
                raise Refused(error, sites) from error
            self.attaching.held += [(descriptor, point, len(sites)) for descriptor in descriptors]

    def _sites(
        self, program: int, point: int, marked: list[_Marked], clause: Clause, pid: int | None
    ) -> None:
        """Attaches a program to sites for one process, or (None) for all."""
        groups: dict[tuple[str, FileIdentity, bool], list[_Marked]] = {}
        latest: object = None
        for site_mark in marked:
            site = site_mark[0]
            key = site.path, id(site.identity), site.kind
            if key != latest:  # the identity itself is compared and hashed field by field
                latest = key
                group = groups.setdefault((site.path, site.identity, site.is_return_probe), [])
            group.append(site_mark)
        for (name, identity, returns), sites in groups.items():
            file = self._files[name, identity]
            call = partial(self._link if self._multi else self._event, program, file, returns, pid)
            many = SITES_A_LINK if self._multi else 1
            for first in range(0, len(sites), many):
                try:
                    self._attach_part(call, program, point, file, sites[first : first + many], clause)
                except ProcessLookupError:
                    self._note_gone(pid)
                    return

    def _note_gone(self, pid: int | None) -> None:
        """Takes note of a process that has ended. Raises `TracerError` where it was the last."""
        self._gone.add(pid or 0)
        if len(self._gone) >= len(self._pids):
            raise TracerError(f"process {pid} has gone")

    def _attach_part(
        self, call: _ToCall, program: int, point: int, file: int, marked: list[_Marked], clause: Clause
    ) -> None:
        """Attaches these sites of a clause, except those that the kernel cannot probe if they may be left out."""
        untried = [marked]
        while untried:
            if self._stop():
                raise Stopped
            # A refused link costs a wait of the kernel too.
            results = self._watcher.open([call(part) for part in untried], together=len(untried) > 1)
            self.attaching.held += [
                (result, point, len(part)) for part, result in zip(untried, results, strict=True) if result >= 0
            ]
            tried, untried = untried, []
            for part, result in zip(tried, results, strict=True):
                try:
                    if result < 0:
                        raise OSError(-result, os.strerror(-result))  # of ESRCH a ProcessLookupError
                    if not self._multi:
                        from tracer.kernel.perf import attach as perf_attach

                        perf_attach(result, program)
                except ProcessLookupError:
                    raise
                except OSError as error:
                    if error.errno == errno.EINVAL and len(part) > 1:
                        untried += [part[: len(part) // 2], part[len(part) // 2 :]]  # to name the place
                        continue
                    if error.errno not in NOT_PROBED or (
                        len(part) == 1 and not may_go_without(clause, part[0][0].spot)
                    ):
                        raise Refused(error, [site for site, _ in part]) from error
                    if len(part) > 1:
                        untried += parts(part, codes_at(_path(file), [site.offset for site, _ in part]))
                    else:
                        self.left_out[part[0][0].spot] = part[0][0]

    def _link(self, program: int, file: int, returns: bool, pid: int | None, marked: list[_Marked]) -> Call:
        cookies = [cookie for _, cookie in marked]
        references = [site.semaphore or 0 for site, _ in marked]
        return link_uprobes(
            program,
            file,
            [site.offset for site, _ in marked],
            references if any(references) else None,
            pid=pid,
            returns=returns,
            cookies=cookies if any(cookies) else None,
        )

    def _event(self, program: int, file: int, returns: bool, pid: int | None, marked: list[_Marked]) -> Call:
        ((site, _),) = marked
        from tracer.kernel.perf import uprobe_call  # links need none

        return uprobe_call(file, site.offset, pid=pid, semaphore=site.semaphore or 0, returns=returns)


def _path(file: int) -> bytes:
    """Not the file's name: another file may have it by now."""
    return b"/proc/self/fd/%d" % file
