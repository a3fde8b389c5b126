"""The open descriptors of a session's events, the rings that they fill, and the leaders that tell of an exec. The
session knows what a sample means.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.backends.ftrace.attach.model import CannotOpen, NeedsSamples, ProcessEnded
from tracer.backends.ftrace.program import FtraceProgram
from tracer.backends.ftrace.read.copies import Copies, Copy
from tracer.backends.ftrace.read.descriptors import Opener, Opening
from tracer.backends.ftrace.read.leader import Leaders, takes_descriptors
from tracer.backends.ftrace.read.reader import Reader
from tracer.backends.ftrace.samples.decoder import Decoder
from tracer.backends.ftrace.samples.shape import Shape
from tracer.dataclass import replace
from tracer.errors import TracerError
from tracer.host.polling import readable
from tracer.kernel import buffers, perf
from tracer.kernel.limits import MORE_DESCRIPTORS
from tracer.kernel.trials.abilities import Abilities
from tracer.kernel.workers.watcher import Watcher
from tracer.kinds.site import Target

if TYPE_CHECKING:
    from tracer.backends import Unwinder
    from tracer.backends.ftrace.read.long_strings import Beside, Upkeep
    from tracer.backends.ftrace.samples.clause_decoders import ClauseDecoders
    from tracer.backends.ftrace.samples.thread_names import ThreadNames
    from tracer.kernel.workers.copier import Copier

LOOK_S = 0.05
"""How often the rings are looked at while they are not full enough to wake us."""
_BIRTHS = 1 << 18
"""Bytes of a ring for forks and exits: some thousand of each between two looks."""
_CLOCK = time.CLOCK_MONOTONIC


class Attachment:
    """Events that are open for one target, in the order of their `openings`, those `beside` others last. `shape` is
    that of their samples; `reader` is None where all are counted, and until `read`. The session enables and disables
    the `descriptors`. `details` are for those who want to know more. `named`: the threads, where they must be followed.
    """

    def __init__(
        self, openings: Sequence[Opening], program: FtraceProgram, target: Target, watcher: Watcher,
        beside: Sequence[Beside] = (),
    ) -> None:  # fmt: skip
        """Opens everything, disabled, or leaves nothing open. Raises what `Opener.open` does."""
        registers = program.unwound_registers
        self._grows = registers != 0 and not program.plan.program.config.stack_copy
        abilities = Abilities.detect()
        told = 2 + abilities.format_lost if any(opening.sampled for opening in openings) else 0
        walked = program.frames if not registers else 0
        self.shape = Shape(
            program.wants_cpu or self._grows, walked > 0 or program.kernel_frames > 0, registers, told
        )  # fmt: skip
        self.reader: Reader | None = None
        self.named: ThreadNames | None = None
        if program.wants_names:
            from tracer.backends.ftrace.samples.thread_names import ThreadNames

            self.named = ThreadNames(self.shape)
        self.details: tuple[str, ...] = ()
        limited = target.pids or target.program is not None
        self._about = frozenset(opening.id for opening in openings if limited and opening.about)
        self.beside = beside
        self._openings = list(openings)
        proper = len(openings) - len(beside)
        self._beside_at = range(proper, len(openings))
        """The numbers of the events beside others; all others are proper ones, those that came later too."""
        self._pids = target.pids
        self._follow = program.plan.follow
        self._priority = program.plan.priority
        self._copier: Copier | None = None
        self._copies: Copies | None = None
        self._upkeep: Upkeep | None = None
        self._rings: dict[int, perf.Ring] = {}
        self._leaders: Leaders | None = None
        self._dropped: list[int] = []
        self._paused: list[int] = []
        cpus = perf.online_cpus()
        self._tells_lost = abilities.format_lost
        self._of_kernel, self._unsampled = not program.plan.places, 0
        self._undo = ExitStack()
        try:
            if program.awaits_samples or not all(opening.counted for opening in openings):
                self._rings = self._rings_of(cpus, buffers.ring_of_each(len(cpus), registers != 0))
            depth = perf.max_stack(max(walked, program.kernel_frames))
            hidden = 0 if program.kernel_frames else perf.EXCLUDE_CALLCHAIN_KERNEL
            hidden |= 0 if walked else perf.EXCLUDE_CALLCHAIN_USER
            self._opener = Opener(
                cpus, self._rings, self.shape.sample_type, abilities, _CLOCK, depth, hidden, watcher, self._follow,
                registers,
            )  # fmt: skip
            self._undo.callback(self._drop_leaders)
            self._leaders = Leaders(self._pids, abilities.inherit_thread, self._follow)
            command = target.program is not None
            scoped = not takes_descriptors(target.program) and (command or not program.plan.shared)
            # Else who has fewer than a period of events would have no hit.
            scoped = scoped and not any(opening.sampled and not opening.watched for opening in openings)
            # Their events happen in other threads too.
            scoped = scoped and not self._about
            self.descriptors = self._opener.open(openings, self._pids, scoped)
            self._undo.callback(self.descriptors.close)
            self.descriptors.keepers = self._opener.keep(openings)
        except BaseException:
            self._undo.close()
            raise
        if not self.descriptors.scoped:
            self._drop_leaders()

    def read(
        self, decoders: Mapping[int, Decoder], unwinder: Unwinder | None = None, upkeep: Upkeep | None = None
    ) -> None:
        """Makes the `reader` of samples, by these decoders. `unwinder` is theirs; `upkeep` is that of events
        beside others. Raises `TracerError`.
        """
        rings = list(self._rings.values())
        pids, grows = self._own_pids(), self._follow or len(self._pids) > 1 or bool(self._about)
        named = self.named
        flags = 0 if named is None else perf.TASK | perf.COMM | perf.SAMPLE_ID_ALL
        if pids and grows:
            flags |= perf.TASK
        if flags:
            # Rings of their own, so that no number of samples leaves a fork without room.
            rings += self._rings_of(self._opener.cpus, _BIRTHS, flags).values()
        if named is not None:
            named.look(() if self._follow or self._about else self._pids)
        if self._priority:
            self._copier = self._copier_of(rings)
        # Descendants that have inherited descriptors are not known, and so cannot be given others.
        if self._grows and unwinder is not None and not (self._follow and self.descriptors.scoped):
            copies = {opening.id: Copy(number) for number, opening in enumerate(self._openings) if opening.stack}
            self._copies = Copies(copies, unwinder, self.shape, self.descriptors.doubles)
        # As with copies: descendants that have inherited descriptors cannot be given others.
        self._upkeep = None if self._follow and self.descriptors.scoped else upkeep
        strings = None if upkeep is None else upkeep.strings
        self.reader = Reader(
            rings, decoders, self.shape, pids, self._follow, self._copier, self._copies, strings,
            self._opener.identities, named, self._about,
        )  # fmt: skip

    def name(self, clauses: ClauseDecoders, decoders: dict[int, Decoder]) -> None:
        """Lets clauses ask what threads are called and which are traced, where that must be known; both are told among
        the samples.
        """
        if self._about:
            clauses.runtime.traced = lambda thread: self.reader is not None and self.reader.is_traced(thread)
            clauses.near = lambda *threads: self.reader is not None and any(map(self.reader.is_near, threads))
        if self.named is not None:
            clauses.named, decoders[self.named.decoder.id] = self.named.name, self.named.decoder

    def add(self, openings: Sequence[Opening]) -> int:
        """Opens more events, disabled, behind those that there are; returns the number of the first. Raises what
        `Opener.open` does; none of them is open then.
        """
        if any(not opening.counted for opening in openings) and self.reader is None:
            raise NeedsSamples
        current = self.descriptors
        fresh = self._opener.open(openings, self._family_now() if current.scoped else self._pids, current.scoped)
        if (fresh.scoped, fresh.check_pid) != (current.scoped, current.check_pid):
            fresh.close()
            raise NeedsSamples
        first = len(self._openings)
        self._openings += openings
        current.extend(fresh, {first + number: fd for number, fd in self._opener.keep(openings).items()})
        if self._copies is not None:
            for number, opening in enumerate(openings, first):
                if opening.stack:
                    self._copies.add(opening.id, Copy(number))
        return first

    def _family_now(self) -> Sequence[int]:
        """The processes of which events are opened that their descendants inherit: with those that there are."""
        if not self._follow:
            return self._pids
        from tracer.host.stat import descendants

        return (*self._pids, *descendants(self._pids))

    def begin(self, first: int, decoders: Mapping[int, Decoder]) -> None:
        """Enables what was added from that number on; the reader decodes its samples by these."""
        if self.reader is not None:
            self.reader.know(decoders)
        for fds in self.descriptors.by_event[first:]:
            for fd in fds:
                perf.enable(fd)

    def wait(self, wake: Sequence[int], timeout_s: float) -> bool:
        """Waits for a ring or for `timeout_s`; true where one of `wake` became readable."""
        awaited = [*wake]
        if self._copier is None or not self._copier.runs:
            # What one process is told of a ring, another is not.
            awaited += [ring.fd for ring in self._rings.values()]
        leaders = self._leaders
        if leaders is not None:
            if leaders.any_hung_up():
                timeout_s = min(timeout_s, LOOK_S)
            awaited += leaders.fds
        ready = readable(awaited, timeout_s)
        if leaders is not None and any(fd in ready for fd in leaders.fds):
            leaders.look()
        return any(fd in wake for fd in ready)

    def follow_exec(self) -> None:
        """Opens the descriptors anew where an exec has taken them away. Raises `TracerError`."""
        for pid in self._leaders.execed() if self._leaders is not None else ():
            self._open_anew(pid)

    def _open_anew(self, pid: int) -> None:
        assert self._leaders is not None
        try:
            self._leaders.renew(pid)
            fresh = self._opener.open(self._openings, [pid])
            for number in (*self._dropped, *self._paused):
                fresh.drop(number)
            if self._follow or len(self._pids) > 1:
                self.descriptors.add(fresh)
            else:
                self.descriptors.replace(fresh)
        except ProcessEnded:
            return  # the run loop will notice
        except NeedsSamples:
            message = f"process {pid} runs another program now, whose hits cannot be counted"
            raise TracerError(message, MORE_DESCRIPTORS) from None
        if self.reader is not None:
            self.reader.pids = self._own_pids()

    def fit_copies(self) -> None:
        """Adjusts the size of the copies of stacks to what they need, as far as there is room."""
        copies, reader = self._copies, self.reader
        if copies is None or reader is None:
            return
        for copy, size in copies.due(reader.lost, reader.behind):
            if copy.number in self._dropped:
                continue
            begin = time.clock_gettime_ns(_CLOCK)
            if not self._exchanged(copy, size):
                copies.later()
                return
            copies.changed(copy, size, begin, time.clock_gettime_ns(_CLOCK))

    def fit_beside(self, crowded: int) -> None:
        """Closes the events beside others where they cost too much, and opens them again where they are missed;
        `crowded`: of how many hits so far no room was left for a string.
        """
        upkeep = self._upkeep
        if upkeep is None or not upkeep.is_due(lambda number: self.descriptors.total(number)[0], crowded):
            return
        numbers = [number for number in self._beside_at if number not in self._dropped]
        if upkeep.open:
            for number in numbers:
                self.descriptors.drop(number)
            self._paused = numbers
        else:
            try:
                openings = [self._openings[number] for number in numbers]
                fresh = self._opener.open(openings, self._pids, self.descriptors.scoped)
            except (TracerError, NeedsSamples):
                self._upkeep = None
                return
            self.descriptors.go_on(numbers, fresh)
            self._paused = []
        upkeep.done()

    def _exchanged(self, copy: Copy, size: int) -> bool:
        """Exchanges the descriptors of an event for some that copy so much, unless that cannot be done now."""
        opening = replace(self._openings[copy.number], stack=size, marked=not copy.marked)
        current = self.descriptors
        try:
            fresh = self._opener.open([opening], self._pids, current.scoped)
        except (TracerError, NeedsSamples):
            return False
        if (fresh.scoped, fresh.check_pid) != (current.scoped, current.check_pid):
            fresh.close()
            return False
        if self.reader is not None:
            self.reader.collect(held_up=True)  # of a hit that finds no room now, both samples would be told as lost
        current.exchange(copy.number, fresh)
        self._openings[copy.number] = opening
        return True

    def drop(self, number: int, at_once: bool = False) -> None:
        """Ends one event with those beside it, and does not open it anew after an exec. `at_once`: see `stop_reads`."""
        beside = zip(self._beside_at, self.beside, strict=True)
        numbers = [number, *(opening for opening, one in beside if one.number == number)]
        for ending in numbers if at_once else ():
            self.descriptors.stop_reads(ending)
        for ending in numbers:
            self.descriptors.drop(ending)
            self._dropped.append(ending)

    def closing(self) -> tuple[str, ...]:
        """The details that only the end knows."""
        return () if self._copies is None else tuple(self._copies.told())

    def hits(self) -> int:
        """Hits of the target so far."""
        if self.descriptors.check_pid and self.reader is not None:
            return self.reader.delivered
        return sum(self.own_hits(number) for number in self._proper())

    def own_hits(self, number: int) -> int:
        """The hits of one event, but for what its filter drops, and what is not read yet beside samples of others."""
        by_samples = self.descriptors.check_pid or self._openings[number].sampled is not None
        if by_samples and self.reader is not None:
            return self.reader.kept[self._openings[number].id]
        return self.descriptors.total(number)[0]

    @property
    def traps_others(self) -> bool:
        """Whether other processes run into the breakpoints too, though some alone are traced."""
        return bool(self._pids) and (self._follow or self.descriptors.check_pid)

    def lost(self) -> int:
        """Samples lost so far."""
        told = sum(lost for _, lost in self._totals())
        if told or self.reader is None:
            return told
        beside = sum(self.descriptors.total(number)[1] for number in self._beside_at)
        return max(self.reader.lost - beside, 0)

    @property
    def missed(self) -> tuple[str, ...]:
        """The sentences for the end about what may have been missed."""
        if self.reader is None or not (self.reader.throttled or self._unsampled):
            return ()
        from tracer.backends.sampling import held_back, unsampled

        said = (unsampled(self._unsampled, bool(self._pids)),) if self._unsampled else ()
        return (*said, held_back(self.reader.throttled)) if self.reader.throttled else said

    def settle(self) -> None:
        """Takes note that all samples have been read: the missing ones are lost."""
        if self.reader is not None and self._tells_lost and self._of_kernel and not self.shape.told:
            seen = [self.descriptors.total(number) for number in self._proper() if self.descriptors.sampled[number]]
            self._unsampled = max(sum(hits - lost for hits, lost in seen) - self.reader.read, 0)
        elif self.reader is not None and not self._tells_lost and not self.shape.told:
            # The rings tell of a loss only with the next sample that fits. Each hit was written or lost.
            sampled = [number for number in self._proper() if self.descriptors.sampled[number]]
            hits = sum(self.descriptors.total(number)[0] for number in sampled)
            self.reader.lost = max(hits - self.reader.read, self.reader.lost)

    def detach(self) -> None:
        """Ends all events; what was counted, and what is in the rings, can still be asked for. The breakpoints are
        removed too: with many functions of libc probed, they would slow tracer's own work ten times.
        """
        self.descriptors.disable()  # which notes what they have counted
        self.descriptors.close()

    def close(self) -> None:
        """Closes everything, newest first; what was counted can still be asked for."""
        self.descriptors.disable()  # which notes what they have counted
        self._undo.close()

    def _totals(self) -> list[tuple[int, int]]:
        """Hits and lost samples of each event, but for those beside others."""
        return [self.descriptors.total(number) for number in self._proper()]

    def _proper(self) -> list[int]:
        return [number for number in range(len(self._openings)) if number not in self._beside_at]

    def _own_pids(self) -> tuple[int, ...]:
        """The processes whose samples count; () if no samples of others come."""
        return self._pids if self.descriptors.check_pid else ()

    def _rings_of(self, cpus: Sequence[int], size: int, flags: int = perf.DISABLED) -> dict[int, perf.Ring]:
        rings: dict[int, perf.Ring] = {}
        try:
            for cpu in cpus:
                rings[cpu] = perf.Ring(cpu, size, _CLOCK, flags)
                self._undo.callback(rings[cpu].close)
        except OSError as error:
            raise CannotOpen(error) from None
        return rings

    def _copier_of(self, rings: Sequence[perf.Ring]) -> Copier | None:
        from tracer.kernel.workers.copier import Copier  # what is only counted needs none

        try:
            copier = Copier(rings, buffers.waiting())
        except OSError as error:
            self.details = (f"no separate process empties the buffers: {error.strerror}; a flood may lose events",)
            return None
        self._undo.callback(copier.close)
        self.details = (f"process {copier.pid} empties the buffers, {copier.priority}",)
        return copier

    def _drop_leaders(self) -> None:
        if self._leaders is not None:
            self._leaders.close()
            self._leaders = None


