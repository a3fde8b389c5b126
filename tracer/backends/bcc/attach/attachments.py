"""Programs → sites: all of them or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from itertools import repeat
from typing import TYPE_CHECKING

from tracer.backends.bcc.attach.anchors import SITES_A_LINK, Anchors
from tracer.backends.bcc.attach.loader import CALLS
from tracer.backends.bcc.codegen.sites.hit_marks import cookie
from tracer.backends.bcc.codegen.sites.text import SiteTexts
from tracer.backends.precheck import check_alone, unprobable
from tracer.errors import TracerError
from tracer.kernel.bpf import link_uprobes
from tracer.kernel.limits import allowed_descriptors, check_room
from tracer.kernel.syscall import Call
from tracer.kernel.trials.instructions import NOT_PROBED, Stopped, codes_at, may_go_without, parts
from tracer.kernel.workers.watcher import AT_ONCE_S, Watcher
from tracer.plan.model import Plan, ProbePlan
from tracer.plan.points import first_numbers
from tracer.probes.site import FileIdentity, FileSite, Spot
from tracer.resolve.files.identity import open_verified

if TYPE_CHECKING:
    from tracer.backends.bcc.attach.shared_events import ClauseEvent, SharedEvents
    from tracer.lang.typed import Clause

_WAIT_NS, _CONTENTION_NS = 50_000_000, 4_000
"""How long the kernel waits when a link is closed, and how much longer for each site if links are closed at the same
time, since they contend for its locks. On Linux 6.18 with two CPUs, 57,000 sites: one link 65 ms; four one by one 220,
at once 300; fourteen one by one 670, at once 280.
"""

_WORTH = 4
"""From this many sites of a program on, a trace event is faster than perf events for each."""

_Marked = tuple[FileSite, int]
"""A site, and the cookie by which its program knows it."""

_Job = tuple[ProbePlan, int, int, list[_Marked]]
"""A clause, one of its programs, the number of the attach point, and the sites where it runs."""

_Held = tuple[int, int, int]
"""A link or event, the number of its attach point, and how many sites it has."""

_ToCall = Callable[[list[_Marked]], Call]
_Stop = Callable[[], bool]


class Attachments:
    """The links and events of a session. `left_out` are the sites that the kernel does not probe."""

    def __init__(self, pids: Sequence[int], multi: bool, is_child: bool = False) -> None:
        """`pids`: each has links or events of its own, so that no other process runs into the breakpoints; () for one
        of each for all.
        """
        self.left_out: dict[Spot, FileSite] = {}
        self._pids = pids
        self._gone: set[int] = set()
        self._is_child = is_child
        self._multi = multi
        self._descriptors: list[_Held] = []
        self._files: dict[tuple[str, FileIdentity], int] = {}
        self._shared: SharedEvents | None = None
        self._anchors: list[Anchors] = []

    @cached_property
    def _watcher(self) -> Watcher:
        """Started when it is needed first: what this process changes afterwards is copied for it."""
        return Watcher()

    @property
    def _has_watcher(self) -> bool:
        return "_watcher" in self.__dict__

    @property
    def left(self) -> str | None:
        """See `backends.base.Session`."""
        return self._watcher.left if self._has_watcher else None

    def attach(
        self, plan: Plan, programs: dict[tuple[int, int], int], texts: SiteTexts, noted: dict[int, range],
        stop: _Stop = lambda: False,
    ) -> int:  # fmt: skip
        """Attaches every variant; returns the number of sites, 0 where `stop` said so. On failure nothing is left
        attached.

        The last clause first: the kernel runs the consumers of a breakpoint in the reverse order of their registration
        (kernel/events/uprobes.c, consumer_add), and clauses at one site must run in the order of the program.
        """
        try:
            sites = plan.sites
            places = plan.places
            for file in [(site.path, site.identity) for site in {id(site.identity): site for site in places}.values()]:
                if file not in self._files:
                    self._files[file] = open_verified(*file)
            self.left_out = unprobable(plan, self._watcher, stop)
            self._watcher.mind(places, self._pids)
            jobs = _jobs(plan, programs, texts, noted, self.left_out)
            if CALLS in programs:
                from tracer.backends.bcc.attach.call_counters import counting

                jobs += counting(plan, programs, self.left_out)
            shared = {} if self._multi else self._share(jobs, plan, stop)
            if not self._multi:
                alone = sum(len(sites) for number, (*_, sites) in enumerate(jobs) if number not in shared)
                check_alone(plan, alone)
                check_room(alone * max(len(self._pids), 1), allowed_descriptors())
            self._anchors = [Anchors(pid, plan, self._watcher, self._multi, self._is_child) for pid in self._pids]
            attached: dict[int, bool] = {}
            for number, (probe, program, point, marked) in enumerate(jobs):
                before = len(self._descriptors)
                try:
                    if number in shared:
                        self._events(shared[number], program, point, [site for site, _ in marked])
                    for pid in (self._pids or (None,)) if number not in shared else ():
                        self._sites(program, point, marked, probe.clause, stop, pid)
                except _Refused as error:
                    raise error.under(probe, plan) from error
                attached[probe.clause.id] = attached.get(probe.clause.id, False) or before < len(self._descriptors)
            if self._shared is not None:
                self._shared.attached()
                self.left_out |= self._shared.left_out
            for probe in plan.probes:
                if not attached[probe.clause.id]:
                    every = [site for variant in probe.variants for site in variant.sites]
                    raise _Refused(OSError(NOT_PROBED[0], ""), every).under(probe, plan)
            for anchors in self._anchors:
                anchors.attached(self.left_out, self._points)
        except Stopped:
            self.detach()
            return 0
        except BaseException:
            self.detach()
            raise
        finally:
            for descriptor in self._files.values():
                os.close(descriptor)
            self._files.clear()
        return len(sites) - (sum(site.spot in self.left_out for site in sites) if self.left_out else 0)

    def tell_waits(self, say: Callable[[str], None]) -> None:
        """Has a line said where the kernel takes long."""
        self._watcher.waits = say

    def hold(self, *descriptors: int) -> None:
        """Keeps descriptors open until no probe is left, even if tracer is killed before. Raises `Gone`."""
        self._watcher.hold(*descriptors)

    def detach(self) -> None:
        """Closes links and events: no program runs afterwards. Where the kernel takes long, `close` waits for it."""
        if not self._has_watcher:
            return
        held, self._descriptors = self._descriptors, []
        self._watcher.patience_s = AT_ONCE_S
        self._close(held)
        for anchors in self._anchors:
            anchors.close()
        if self._watcher.settled:
            self._leave()

    def _leave(self) -> None:
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        self._watcher.leave()  # it ends while there is other work to do

    def close(self) -> None:
        """Detaches, and waits until the watcher has ended."""
        if not self._has_watcher:
            return
        self.detach()
        self._watcher.settle()
        self._leave()
        self._watcher.end()

    def detach_point(self, point: int, alone: Sequence[FileSite]) -> None:
        """Closes those of one attach point, which is the last at the places of the sites `alone`."""
        ending = (point, CALLS[1])  # calls and returns are counted for all attach points, or for none
        own = [each for each in self._descriptors if each[1] in ending]
        self._descriptors = [each for each in self._descriptors if each[1] not in ending]
        self._close(own)
        for anchors in self._anchors:
            anchors.drop(ending)
        self._watcher.check(alone)

    @property
    def wake(self) -> tuple[int, ...]:
        """Readable when `keep_up` has something to do."""
        return tuple([fd for anchors in self._anchors for fd in anchors.wake])

    def keep_up(self) -> None:
        """Goes on where the main thread of a process has ended, or another has exec'ed."""
        for anchors in self._anchors:
            anchors.look(self._points)

    @property
    def missed(self) -> Sequence[str]:
        """What may have been missed, for the end."""
        return [said for anchors in self._anchors for said in anchors.missed]

    @property
    def _points(self) -> set[int]:
        return {point for _, point, _ in self._descriptors}

    def _close(self, held: list[_Held]) -> None:
        """Closing a link waits until no program runs. Several links that are closed at the same time share that wait.
        Perf events do not: the kernel holds a lock meanwhile.
        """
        waits = (len(held) - 1) * _WAIT_NS
        together = self._multi and len(held) > 2 and waits > _CONTENTION_NS * sum(sites for *_, sites in held)
        self._watcher.close([descriptor for descriptor, _, _ in held], together)

    def _share(self, jobs: Sequence[_Job], plan: Plan, stop: _Stop) -> dict[int, list[ClauseEvent]]:
        """Trace events for the programs that have several sites, by the number of the job; none where there is no
        tracefs: then each site is attached alone.
        """
        many = [number for number, (*_, sites) in enumerate(jobs) if len(sites) >= _WORTH]
        if not many:
            return {}
        from tracer.backends.bcc.attach.shared_events import SharedEvents

        try:
            self._shared = SharedEvents(self._pids, stop, self._watcher)
        except TracerError:
            return {}
        wanted = [(jobs[number][0], [site for site, _ in jobs[number][3]]) for number in many]
        return dict(zip(many, self._shared.define(wanted), strict=True))

    def _events(self, events: Sequence[ClauseEvent], program: int, point: int, sites: list[FileSite]) -> None:
        assert self._shared is not None
        for event in events:
            try:
                descriptors = self._shared.attach(event, program)
            except ProcessLookupError:
                raise TracerError(f"process {self._pids[0]} has gone") from None
            except OSError as error:
                raise _Refused(error, sites) from error
            self._descriptors += [(descriptor, point, len(sites)) for descriptor in descriptors]

    def _sites(
        self, program: int, point: int, marked: list[_Marked], clause: Clause, stop: _Stop, pid: int | None
    ) -> None:
        """For one process, or (None) for all."""
        groups: dict[tuple[str, FileIdentity, bool], list[_Marked]] = {}
        latest: object = None
        for each in marked:
            site = each[0]
            key = site.path, id(site.identity), site.kind
            if key != latest:  # the identity itself is compared and hashed field by field
                latest = key
                group = groups.setdefault((site.path, site.identity, site.is_return_probe), [])
            group.append(each)
        for (name, identity, returns), sites in groups.items():
            file = self._files[name, identity]
            call = partial(self._link if self._multi else self._event, program, file, returns, pid)
            many = SITES_A_LINK if self._multi else 1
            for first in range(0, len(sites), many):
                try:
                    self._attach_part(call, program, point, file, sites[first : first + many], clause, stop)
                except ProcessLookupError:
                    self._note_gone(pid)
                    return

    def _note_gone(self, pid: int | None) -> None:
        """One has ended. Raises `TracerError` where it was the last."""
        self._gone.add(pid or 0)
        if len(self._gone) >= len(self._pids):
            raise TracerError(f"process {pid} has gone")

    def _attach_part(
        self, call: _ToCall, program: int, point: int, file: int, marked: list[_Marked], clause: Clause, stop: _Stop
    ) -> None:
        """Attaches these sites of a clause, except those that the kernel cannot probe if they may be left out."""
        untried = [marked]
        while untried:
            if stop():
                raise Stopped
            # A refused link costs a wait of the kernel too.
            results = self._watcher.open([call(part) for part in untried], together=len(untried) > 1)
            self._descriptors += [
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
                        raise _Refused(error, [site for site, _ in part]) from error
                    if len(part) > 1:
                        untried += parts(part, codes_at(_path(file), [site.offset for site, _ in part]))
                    else:
                        self.left_out[part[0][0].spot] = part[0][0]

    def _link(self, program: int, file: int, returns: bool, pid: int | None, marked: list[_Marked]) -> Call:
        cookies = [each for _, each in marked]
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


def _jobs(
    plan: Plan, programs: dict[tuple[int, int], int], texts: SiteTexts, noted: dict[int, range],
    left_out: Collection[Spot],
) -> list[_Job]:  # fmt: skip
    """The programs to attach, in that order."""
    numbers = first_numbers(plan)
    return [
        (probe, program, point, kept)
        for probe in reversed(plan.probes)
        for (program, point), sites in reversed(
            _by_program(probe, numbers[probe.clause.id], programs, texts, noted).items()
        )
        if (kept := [each for each in sites if each[0].spot not in left_out] if left_out else sites)
    ]


def _by_program(
    probe: ProbePlan, first: int, programs: dict[tuple[int, int], int], texts: SiteTexts, noted: dict[int, range]
) -> dict[tuple[int, int], list[_Marked]]:
    """The sites of each program of a clause, which may serve many variants; `first` numbers its first attach point."""
    texts_of = texts.cookies
    found: dict[tuple[int, int], list[_Marked]] = {}
    own = [iter(noted.get(first + point, repeat(0))) for point in range(len(probe.clause.names))]
    one_point = len(own) == 1
    for variant in probe.variants:
        text = texts_of.get(variant.id, 0)
        if one_point:
            marked = found.setdefault((programs[variant.id, first], first), [])
            marked += [(site, cookie(text, number)) for site, number in zip(variant.places, own[0], strict=False)]
            continue
        for site in variant.places:
            point, mark = first + site.point, cookie(text, next(own[site.point]))
            found.setdefault((programs[variant.id, point], point), []).append((site, mark))
    return found


class _Refused(Exception):
    """The kernel does not attach to some sites: its error, and these."""

    def under(self, probe: ProbePlan, plan: Plan) -> TracerError:
        from tracer.backends.bcc.attach.refused import under

        return under(probe, plan, *self.args)
