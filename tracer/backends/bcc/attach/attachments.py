"""Programs → sites: all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import repeat

from tracer.backends.bcc.attach.anchors import Anchors
from tracer.backends.bcc.attach.loader import CALLS
from tracer.backends.bcc.attach.model import Attacher, Attaching, Held, Job, Marked, Refused, Work
from tracer.backends.bcc.attach.registry import attacher_of
from tracer.backends.bcc.codegen.sites import SiteTexts, cookie
from tracer.kernel.trials.instructions import NOT_PROBED, Stopped
from tracer.kernel.workers.watcher import AT_ONCE_S, Watcher
from tracer.kinds.site import FileSite, Spot
from tracer.plan.model import Plan, ProbePlan
from tracer.plan.points import first_numbers

_WAIT_NS, _CONTENTION_NS = 50_000_000, 4_000
"""How long the kernel waits when a link is closed, and how much longer for each site if links are closed at the same
time, since they contend for its locks. On Linux 6.18 with two CPUs, 57,000 sites: one link 65 ms; four one by one 220,
at once 300; fourteen one by one 670, at once 280.
"""


class Attachments:
    """The links and events of a session. `left_out` are the sites that the kernel does not probe."""

    def __init__(
        self, pids: Sequence[int], multi: bool, is_child: bool = False, processes: Sequence[int] = ()
    ) -> None:
        """`pids`: each has links or events of its own, so that no other process runs into the breakpoints; () for one
        of each for all. `processes`: see `Attaching`.
        """
        self._processes = processes
        self.left_out: dict[Spot, FileSite] = {}
        self._pids = pids
        self._is_child = is_child
        self._multi = multi
        self._descriptors: list[Held] = []
        self._works: dict[Attacher, Work] = {}
        self._anchors: list[Anchors] = []
        self._ends: set[int] = set()
        """The descriptors at the ends of calls."""

    @cached_property
    def _watcher(self) -> Watcher:
        """Started when it is needed first: what this process changes afterwards is copied for it."""
        return Watcher()

    @property
    def _has_watcher(self) -> bool:
        return "_watcher" in self.__dict__

    @property
    def not_undone(self) -> str | None:
        """See `backends.base.Session`."""
        return self._watcher.not_undone if self._has_watcher else None

    def attach(
        self, plan: Plan, programs: dict[tuple[int, int], int], texts: SiteTexts, noted: dict[int, range],
        stop: Callable[[], bool] = lambda: False,
    ) -> int:  # fmt: skip
        """Attaches every variant; returns the number of sites, 0 where `stop` said so. On failure nothing is left
        attached.

        Clauses at one site must run in the order of the program: the last clause comes first where the kernel runs the
        consumers of a breakpoint in the reverse order of their registration (kernel/events/uprobes.c, consumer_add).
        """
        attaching = Attaching(plan, self._pids, self._multi, self._watcher, self._descriptors, stop, self._processes)
        try:
            every = [variant.sites for probe in plan.probes for variant in probe.variants]
            for attacher in dict.fromkeys(map(attacher_of, every)):
                self._works[attacher] = attacher.begin(attaching)
            for work in self._works.values():
                self.left_out |= work.left_out
            jobs = _jobs(plan, programs, texts, noted, self.left_out)
            if CALLS in programs:
                from tracer.backends.bcc.attach.call_counters import counting

                jobs += counting(plan, programs, self.left_out)
            if any(attacher.in_order for attacher in self._works):
                last = [job for job in jobs if _attacher(job).in_order]
                jobs = [job for job in jobs if not _attacher(job).in_order] + _ends_first(last[::-1])
            for attacher, work in self._works.items():
                work.plan_jobs([job for job in jobs if _attacher(job) is attacher])
            self._anchors = [Anchors(pid, plan, self._watcher, self._multi, self._is_child) for pid in self._pids]
            attached: dict[int, bool] = {}
            for job in jobs:
                before = len(self._descriptors)
                try:
                    self._works[_attacher(job)].attach(job)
                except Refused as error:
                    raise error.under(job.probe, plan) from error
                if job.probe.clause.is_end:
                    self._ends.update(held for held, *_ in self._descriptors[before:])
                clause = job.probe.clause.id
                attached[clause] = attached.get(clause, False) or before < len(self._descriptors)
            for work in self._works.values():
                work.attached()
                self.left_out |= work.left_out
            for probe in plan.probes:
                if probe.variants and not attached[probe.clause.id]:
                    unprobed = [site for variant in probe.variants for site in variant.sites]
                    raise Refused(OSError(NOT_PROBED[0], ""), unprobed).under(probe, plan)
            for anchors in self._anchors:
                anchors.attached(self.left_out, self._points)
        except Stopped:
            self.detach()
            return 0
        except BaseException:
            self.detach()
            raise
        finally:
            for work in self._works.values():
                work.end()
        sites = plan.sites
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
        self._close_in_order(held)
        for anchors in self._anchors:
            anchors.close()
        if self._watcher.settled:
            self._leave()

    def _leave(self) -> None:
        for work in self._works.values():
            work.close()
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
        ending_links = [link for link in self._descriptors if link[1] in ending]
        self._descriptors = [link for link in self._descriptors if link[1] not in ending]
        self._close_in_order(ending_links)
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
        for work in self._works.values():
            work.keep_up()

    @property
    def missed(self) -> Sequence[str]:
        """The sentences at the end about what may have been missed."""
        of_works = [said for work in self._works.values() for said in work.missed]
        return [said for anchors in self._anchors for said in anchors.missed] + of_works

    @property
    def misses(self) -> int:
        """See `model.Work`."""
        return sum(work.misses for work in self._works.values())

    @property
    def _points(self) -> set[int]:
        return {point for _, point, _ in self._descriptors}

    def _close_in_order(self, held: list[Held]) -> None:
        """Closes those at the ends of calls last: what was seen to begin before shall be seen to end."""
        last = [link for link in held if link[0] in self._ends]
        self._close([link for link in held if link[0] not in self._ends] if last else held)
        if last:
            self._close(last)

    def _close(self, held: list[Held]) -> None:
        """Closing a link waits until no program runs. Several links that are closed at the same time share that wait.
        Perf events do not: the kernel holds a lock meanwhile.
        """
        for work in self._works.values():
            work.closing([descriptor for descriptor, *_ in held])
        waits = (len(held) - 1) * _WAIT_NS
        together = self._multi and len(held) > 2 and waits > _CONTENTION_NS * sum(sites for *_, sites in held)
        idle = {descriptor for work in self._works.values() for descriptor in work.idle}
        self._watcher.close([descriptor for descriptor, *_ in held if descriptor not in idle], together)
        self._watcher.close([descriptor for descriptor, *_ in held if descriptor in idle], idle=True)


def _attacher(job: Job) -> Attacher:
    return attacher_of([job.sites[0][0]])


def _ends_first(jobs: list[Job]) -> list[Job]:
    """The jobs with the ends of spans first: a span that begins before its end is attached would never end. What is at
    one event stays in its order.
    """
    moved: set[Spot] = set()
    first = [job for job in jobs if job.probe.clause.is_end]
    while first:
        moved.update(site.spot for job in first for site, _ in job.sites)
        more = [job for job in jobs if job not in first and any(site.spot in moved for site, _ in job.sites)]
        if not more:
            break
        first += more
    return [job for job in jobs if job in first] + [job for job in jobs if job not in first]


def _jobs(
    plan: Plan, programs: dict[tuple[int, int], int], texts: SiteTexts, noted: dict[int, range],
    left_out: Collection[Spot],
) -> list[Job]:  # fmt: skip
    """The programs to attach, in that order."""
    numbers = first_numbers(plan)
    # Both clauses of calls are of one attach point: the numbers of the second's sites follow those of the first.
    marks = {point: iter(some) for point, some in noted.items()}
    jobs_of = [_by_program(probe, numbers[probe.clause.id], programs, texts, marks) for probe in plan.probes]
    return [
        Job(probe, program, point, kept)
        for probe, by_program in zip(reversed(plan.probes), reversed(jobs_of), strict=True)
        for (program, point), sites in reversed(by_program.items())
        if (kept := [marked for marked in sites if marked[0].spot not in left_out] if left_out else sites)
    ]


def _by_program(
    probe: ProbePlan, first: int, programs: dict[tuple[int, int], int], texts: SiteTexts,
    marks: dict[int, Iterator[int]],
) -> dict[tuple[int, int], list[Marked]]:  # fmt: skip
    """The sites of each program of a clause, which may serve many variants; `first` numbers its first attach point."""
    texts_of = texts.cookies
    by_program: dict[tuple[int, int], list[Marked]] = {}
    numbers = [marks.get(first + point, repeat(0)) for point in range(len(probe.clause.names))]
    one_point = len(numbers) == 1
    for variant in probe.variants:
        text = texts_of.get(variant.id, 0)
        if one_point:
            marked = by_program.setdefault((programs[variant.id, first], first), [])
            marked += [(site, cookie(text, number)) for site, number in zip(variant.sites, numbers[0], strict=False)]
            continue
        for site in variant.sites:
            point, mark = first + site.point, cookie(text, next(numbers[site.point]))
            by_program.setdefault((programs[variant.id, point], point), []).append((site, mark))
    return by_program
