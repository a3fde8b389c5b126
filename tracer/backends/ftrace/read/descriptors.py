"""The perf descriptors of a session: which to open for whom, so that every hit of the target is seen exactly once.

* Every process: one descriptor for each event and CPU.
* Some processes: for each event, thread and CPU, as perf record does, inherited by the threads that it starts later
  (`inherit_thread`, Linux 5.13). No other process is trapped. A thread that starts while descriptors are being opened
  may have inherited one or not, and nothing tells which: so it all begins anew until no thread has come in between.
* The command of -c and its descendants: the same, inherited over fork too. It waits behind its pipe meanwhile. With an
  *anchor*, a machine-wide descriptor of the event that is never enabled: others are trapped, but neither counted nor
  sampled. Without it breakpoints go astray. A uprobe is placed where an event's task has its memory, and the scheduler
  lets a parent and a child that have inherited the same events swap these; when the parent ends, the event that names
  the child goes, and with it the child's breakpoints (tried on 6.18: of 300 children whose parent had ended a sixth to
  a quarter was missed; perf_event_context_sched_out, uprobe_perf_filter).
* Running processes and their descendants: machine-wide, and the samples of others are dropped (see `reader`). A child
  that it forks while descriptors are being opened would have inherited some of them.
* A process that is about to exec a set-user-ID program would lose its descriptors (see `leader`): machine-wide ones.
* Where that does not end, where it takes too many descriptors, or where the kernel inherits over fork alone:
  machine-wide (or inheriting) descriptors, and the samples of other processes are dropped on reading.

Counters of one process need no CPU and drop nothing: there they need `inherit_thread`, or to follow from the start.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from tracer.backends.ftrace.attach.model import CannotOpen, NeedsSamples, ProcessEnded
from tracer.dataclass import dataclass, field, replace
from tracer.host.stat import threads_of
from tracer.kernel import bpf, perf
from tracer.kernel.limits import allowed_descriptors, check_room
from tracer.kernel.syscall import Call
from tracer.kernel.trials.abilities import Abilities

if TYPE_CHECKING:
    from tracer.kernel.workers.watcher import Watcher
    from tracer.kinds.sampled import Sampled
    from tracer.kinds.watched import Watched

_ATTEMPTS, _KEPT = 6, 256
_WATCHING = 50  # attempts where memory is watched, which cannot be done machine-wide
_ANCHOR = -2  # in place of the CPU of an anchor


@dataclass(frozen=True, slots=True)
class Opening:
    """An event to open: its number, its filter, and whether it is counted or sampled; with so many bytes of the
    `stack`, or 0. `marked`: its samples end with one more word (see `copies`). `early`: it is enabled before others and
    disabled after them, as it adds to their samples (see `long_strings`), or sees calls end. `sampled`: the site of one
    that is no trace event. `mode`: its samples tell the mode of the program. `about`: its hits are about other threads
    than those in which they happen. `of_kernel`: not defined by us.
    """

    id: int
    filter: str | None
    counted: bool
    stack: int = 0
    marked: bool = False
    early: bool = False
    sampled: Sampled | Watched | None = None
    mode: bool = False
    about: bool = False
    of_kernel: bool = False

    @property
    def watched(self) -> Watched | None:
        """The site of one that is in the memory of each process."""
        return cast("Watched", self.sampled) if self.sampled is not None and self.sampled.in_memory else None


@dataclass(slots=True)
class Descriptors:
    """Open descriptors, by event in the order of the openings. `check_pid` is set where samples of others come too,
    `scoped` where they are those of the threads of processes; `filtered` tells for each event whether its filter was
    taken, `sampled` whether it was not merely counted, `early` whether it is enabled before others, and disabled after
    them. `before` is what replaced descriptors had seen, `doubles` how many of those hits others have seen too.
    `anchors` are beside them, each with the number of its event. `keepers`, by event, keep it until all is closed (see
    `Opener.keep`); those `of_kernel` need none. `identified`: what is read of one has its number.
    """

    watcher: Watcher
    by_event: list[list[int]]
    check_pid: bool
    scoped: bool = False
    filtered: list[bool] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    early: list[bool] = field(default_factory=list)
    before: list[tuple[int, int]] = field(default_factory=list)
    doubles: Counter[int] = field(default_factory=Counter)
    anchors: list[tuple[int, int]] = field(default_factory=list)
    keepers: dict[int, int] = field(default_factory=dict)
    of_kernel: set[int] = field(default_factory=set)
    identified: bool = False
    counts: list[tuple[int, int]] | None = None

    def enable(self) -> None:
        """Hits count from now on."""
        for fd in self._in_turn(True):
            perf.enable(fd)

    def disable(self) -> None:
        """Hits no longer count; a second call does nothing."""
        if self.counts is None:
            for fd in self._in_turn(False):
                perf.disable(fd)
            self.counts = [self._read(number) for number in range(len(self.by_event))]

    def _in_turn(self, first: bool) -> list[int]:
        """All descriptors, those first that are early or (False) those that are not."""
        events = [*zip(self.by_event, self.early or [False] * len(self.by_event), strict=True)]
        return [fd for turn in (first, not first) for fds, is_early in events if is_early is turn for fd in fds]

    def total(self, number: int) -> tuple[int, int]:
        """Hits and lost samples of one event so far."""
        hits, lost = self.counts[number] if self.counts is not None else self._read(number)
        return hits - self.doubles[number], lost

    def replace(self, fresh: Descriptors) -> None:
        """Goes on with other descriptors for the same events, which are enabled in the same moment."""
        seen = Descriptors(self.watcher, self.by_event, self.check_pid, before=self.before, identified=self.identified)
        seen.disable()
        fresh.enable()
        assert seen.counts is not None
        self.by_event, self.before = fresh.by_event, seen.counts
        self.check_pid, self.scoped = fresh.check_pid, fresh.scoped
        seen.close()

    def exchange(self, number: int, fresh: Descriptors) -> None:
        """Goes on with others for one event, those of `fresh`. A hit meanwhile may come from both."""
        fds = self.by_event[number]
        for fd in fresh.by_event[0]:
            perf.enable(fd)
        for fd in fds:
            perf.disable(fd)
        self.before[number] = self._read(number)
        self.by_event[number] = fresh.by_event[0]
        self.watcher.close(fds)

    def stop_reads(self, number: int) -> None:
        """Nothing is read for an event any more, where there can be BPF programs: the kernel asks them before it reads.
        It ends at once, while the breakpoints may stay for longer.
        """
        with suppress(OSError, KeyError):
            program = bpf.program_load(bpf.NOTHING, "tracer_gate")
            try:
                perf.attach(self.keepers[number], program)
            finally:
                os.close(program)

    def drop(self, number: int) -> None:
        """Ends one event: it traps nobody any more, and its counts stay as they are."""
        for fd in (fds := self.by_event[number]):
            perf.disable(fd)
        self.before[number] = self._read(number)
        fds += [fd for event, fd in self.anchors if event == number]
        self.anchors = [anchor for anchor in self.anchors if anchor[0] != number]
        self.watcher.close(fds)
        fds.clear()

    def go_on(self, numbers: Sequence[int], fresh: Descriptors) -> None:
        """Goes on with events that had been dropped, by `fresh` descriptors, in their order."""
        fresh.enable()
        for number, fds in zip(numbers, fresh.by_event, strict=True):
            self.by_event[number] = fds
        self.check_pid |= fresh.check_pid

    def add(self, fresh: Descriptors) -> None:
        """Goes on with further descriptors, which are enabled, beside those that descendants have inherited."""
        if fresh.check_pid:
            fresh.close()
            raise NeedsSamples
        fresh.enable()
        for fds, more in zip(self.by_event, fresh.by_event, strict=True):
            fds += more
        self.anchors += fresh.anchors

    def extend(self, fresh: Descriptors, keepers: Mapping[int, int]) -> None:
        """Takes further events behind those that there are. `keepers` are theirs."""
        first = len(self.by_event)
        self.by_event += fresh.by_event
        self.filtered += fresh.filtered
        self.sampled += fresh.sampled
        self.early += fresh.early
        self.before += fresh.before
        self.anchors += [(first + number, fd) for number, fd in fresh.anchors]
        self.keepers |= keepers
        self.of_kernel |= {first + number for number in fresh.of_kernel}

    def close(self) -> None:
        """Closes all; a second call does nothing."""
        fds = [(number, fd) for number, fds in enumerate(self.by_event) for fd in fds] + self.anchors
        self.watcher.close([fd for number, fd in fds if number in self.of_kernel], idle=True)
        self.watcher.close([fd for number, fd in fds if number not in self.of_kernel])
        self.watcher.close(self.keepers.values())
        for event in self.by_event:
            event.clear()
        self.anchors.clear()
        self.keepers.clear()

    def _read(self, number: int) -> tuple[int, int]:
        hits, lost = self.before[number]
        for fd in self.by_event[number]:
            one, of_those = perf.read_count(fd, self.identified)
            hits += one
            lost += of_those
        return hits, lost


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens the descriptors of a session. `rings` has one for each CPU where anything is sampled, else none. `follow`:
    descriptors of a process are also those of its descendants. `hidden`: the flags for the parts of call chains that no
    clause wants. Samples with stacks have the `registers` of that mask.
    `identities` gets the numbers that the samples of an opening have which is no trace event, with its own.
    """

    cpus: Sequence[int]
    rings: Mapping[int, perf.Ring]
    sample_type: int
    abilities: Abilities
    clock: int | None
    max_stack: int
    hidden: int
    watcher: Watcher
    follow: bool = False
    registers: int = 0
    identities: dict[int, int] = field(default_factory=dict)

    def open(self, openings: Sequence[Opening], pids: Sequence[int], scoped: bool = True) -> Descriptors:
        """Opens all of them, disabled: of some processes, or (without any) of all. Not `scoped`, those of some are
        machine-wide nevertheless.

        Raises `TracerError`; `NeedsSamples` where a counter would count others too.
        """
        wide = len(openings) * len(self.cpus)
        allowed = allowed_descriptors()
        if not pids:
            check_room(wide, allowed)
            return self._open_wide(openings)
        for _ in range(_ATTEMPTS if scoped else 0):
            threads = threads_of(*pids)
            if not threads:
                raise ProcessEnded(pids[0])
            needed = sum(len(threads) * (1 if opening.counted else len(self.cpus)) for opening in openings)
            needed += len(openings) if self.follow else 0
            if needed > allowed:
                break
            opened = self._open_scoped(openings, threads, pids)
            if set(threads_of(*pids)) <= set(threads):
                return opened
            opened.close()
            time.sleep(0.002)
        if any(opening.counted for opening in openings):
            raise NeedsSamples
        check_room(wide, allowed)
        for attempt in range(_WATCHING):
            time.sleep(0.0005 * attempt)
            threads = threads_of(*pids)
            opened = self._open_wide(openings, pids)
            opened.check_pid = True
            if all(opening.watched is None for opening in openings) or set(threads_of(*pids)) <= set(threads):
                return opened
            opened.close()
        raise CannotOpen(OSError(errno.EAGAIN, ""), next(n for n, opening in enumerate(openings) if opening.watched))

    def keep(self, openings: Sequence[Opening]) -> dict[int, int]:
        """Opens one descriptor more for each event, of a process that it does not trap. Where the last of an event is
        closed, the kernel waits for all threads that are in a probe, and everybody who defines or opens one waits with
        it. Where only this one is left, the breakpoints go at once, and nobody waits; it is closed in the end.
        """
        flags = perf.DISABLED | perf.ENABLE_ON_EXEC  # by the second no breakpoints are put into that process
        events = [(number, one) for number, one in enumerate(openings) if not (one.sampled or one.of_kernel)][:_KEPT]
        calls = [
            perf.event_call(perf.Attributes(perf.TYPE_TRACEPOINT, opening.id, flags=flags), self.watcher.pid, -1)
            for _, opening in events
        ]
        opened = self.watcher.open(calls, passing=list(errno.errorcode), last=True)
        return {number: fd for (number, _), fd in zip(events, opened, strict=False) if fd >= 0}

    def _open_wide(self, openings: Sequence[Opening], pids: Sequence[int] = ()) -> Descriptors:
        return self._open_all(openings, [(-1, 0)], pids, scoped=False)

    def _open_scoped(self, openings: Sequence[Opening], threads: Sequence[int], pids: Sequence[int]) -> Descriptors:
        only_threads = self.abilities.inherit_thread and not self.follow
        if not only_threads and not self.follow and any(opening.counted for opening in openings):
            raise NeedsSamples
        flags = perf.INHERIT | (perf.INHERIT_THREAD if only_threads else 0)
        opened = self._open_all(openings, [(thread, flags) for thread in threads], pids, scoped=True)
        opened.check_pid = not only_threads and not self.follow
        opened.scoped = True
        return opened

    def _open_all(
        self, openings: Sequence[Opening], targets: Sequence[tuple[int, int]], pids: Sequence[int], scoped: bool
    ) -> Descriptors:
        opened = Descriptors(
            self.watcher, [[] for _ in openings], False, filtered=[True] * len(openings),
            sampled=[not opening.counted for opening in openings], early=[opening.early for opening in openings],
            before=[(0, 0)] * len(openings), identified=bool(self.sample_type & perf.SAMPLE_READ),
            of_kernel={number for number, opening in enumerate(openings) if opening.of_kernel},
        )  # fmt: skip
        number = 0
        try:
            wanted = self._calls(openings, targets, pids, scoped)
            # A thread may have ended meanwhile.
            of_threads = scoped or any(opening.watched is not None for opening in openings)
            answers = self.watcher.open([call for *_, call in wanted], passing=[errno.ESRCH] if of_threads else [])
            for (number, cpu, _), fd in zip(wanted, answers, strict=False):
                if fd >= 0 and cpu == _ANCHOR:
                    opened.anchors.append((number, fd))
                elif fd >= 0:
                    opened.by_event[number].append(fd)
            for (number, cpu, _), fd in zip(wanted, answers, strict=False):
                if fd >= 0 and cpu != _ANCHOR:
                    self._lead(opened, number, openings[number], fd, cpu)
                elif fd < 0 and (fd != -errno.ESRCH or not of_threads):
                    raise OSError(-fd, os.strerror(-fd))
        except OSError as error:
            opened.close()
            raise CannotOpen(error, number) from None
        except NeedsSamples:
            opened.close()
            raise
        return opened

    def _calls(
        self, openings: Sequence[Opening], targets: Sequence[tuple[int, int]], pids: Sequence[int], scoped: bool
    ) -> list[tuple[int, int, Call]]:
        """The calls in the order in which they are made, each with the number of its event, and the CPU."""
        wanted = []
        for number, opening in enumerate(openings):
            if opening.watched is not None:
                wanted += [(number, cpu, call) for cpu, call in self._watching(opening, opening.watched, pids)]
                continue
            attributes = self._attributes(opening, targets[0][1])
            if scoped and self.follow:
                anchor = perf.Attributes(perf.TYPE_TRACEPOINT, opening.id, flags=perf.DISABLED)
                wanted.append((number, _ANCHOR, perf.event_call(anchor, -1, self.cpus[0])))
            for thread, _ in targets:
                for cpu in [-1] if scoped and opening.counted else self.cpus:
                    wanted.append((number, cpu, perf.event_call(attributes, thread, cpu)))
        return wanted

    def _watching(self, opening: Opening, site: Watched, pids: Sequence[int]) -> Iterator[tuple[int, Call]]:
        """The calls for memory of processes: it is watched in each of their threads, and in those that these start."""
        from tracer.backends.watching import address_in, inherited

        flags = inherited(self.follow)
        for pid in pids:
            attributes = replace(self._attributes(opening, flags), config1=address_in(site, pid))
            for thread in threads_of(pid):
                yield from ((cpu, perf.event_call(attributes, thread, cpu)) for cpu in self.cpus)

    def _lead(self, opened: Descriptors, number: int, opening: Opening, fd: int, cpu: int) -> None:
        """Sets the filter of a descriptor, and where its samples go."""
        if opening.filter is not None and opened.filtered[number]:
            try:
                perf.set_filter(fd, opening.filter)
            except OSError:
                # Python tests the whole predicate anyhow; a counter has nobody to do so.
                if opening.counted:
                    raise NeedsSamples from None
                opened.filtered[number] = False
        if not opening.counted:
            perf.set_output(fd, self.rings[cpu].fd)
        if opening.sampled is not None:
            self.identities[perf.identity(fd)] = opening.id

    def _attributes(self, opening: Opening, flags: int) -> perf.Attributes:
        lost = perf.FORMAT_LOST if self.abilities.format_lost else 0
        lost |= perf.FORMAT_ID if self.sample_type & perf.SAMPLE_READ else 0
        if opening.counted:
            return perf.Attributes(perf.TYPE_TRACEPOINT, opening.id, 0, lost, flags | perf.DISABLED)
        flags |= perf.DISABLED | self.hidden
        if opening.watched is not None:
            from tracer.backends.watching import attributes as of_memory

            attributes = of_memory(opening.watched, 0, self.sample_type, lost, flags, self.clock, self.max_stack)
        elif opening.sampled is not None:
            from tracer.backends.sampling import attributes as of_site

            site = cast("Sampled", opening.sampled)
            attributes = of_site(site, self.sample_type, lost, flags, self.clock, self.max_stack)
        else:
            attributes = perf.Attributes(
                perf.TYPE_TRACEPOINT, opening.id, self.sample_type, lost, flags, 0, self.clock, self.max_stack
            )
        if not opening.stack:
            if opening.mode:  # it stands before the registers, of which there has to be one
                return replace(attributes, sample_type=self.sample_type | perf.SAMPLE_REGS_USER, registers=1)
            return attributes
        sample_type = self.sample_type | perf.SAMPLE_REGS_USER | perf.SAMPLE_STACK_USER
        if opening.marked:
            sample_type |= perf.SAMPLE_WEIGHT
        return replace(attributes, sample_type=sample_type, registers=self.registers, stack=opening.stack)
