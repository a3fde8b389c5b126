"""Reads the rings of all CPUs into samples in the order of time.

The rings are emptied in rounds, more often than samples are worked through, so that a slow program does not make them
overflow. Each CPU writes in the order of time, but a sample that is stamped may not be written yet while another CPU's
later one already is. So a sample is handed on only once a whole round lies behind it: its time is before the moment at
which the round before began to read.
"""

from __future__ import annotations

import struct
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from tracer.backends.ftrace.samples.decoder import Decoder
from tracer.backends.ftrace.samples.shape import PID, TID, TIME, Bytes, Sample, Shape
from tracer.host.stat import threads_of
from tracer.kernel import buffers, perf

if TYPE_CHECKING:
    from tracer.backends.ftrace.read.copies import Copies
    from tracer.backends.ftrace.read.long_strings import LongStrings
    from tracer.backends.ftrace.samples.thread_names import ThreadNames
    from tracer.kernel.workers.copier import Copier

_MOST_BORN = 1 << 16
_MANY = 64  # samples unpacked one by one after a short run, before long runs are tried again
_SHORT = 8
_PIECE = 1 << 18  # bytes decoded between two looks at the rings


class Reader:
    """Empties rings and decodes. `decoders` are by event number; with `pids` samples of others are dropped, but with
    `follow` not those of their descendants. Where these are followed, or there are several processes, forks are in the
    rings too. Where there is a `copier`, it empties the rings. `copies`: those that can grow. `long_strings` has what
    events beside others tell. `identities`: the numbers of the events of descriptors that are no trace events.
    `named`: what takes note of the names of threads. `about`: the events that are about other threads than those in
    which they happen: all samples of them are kept.
    """

    def __init__(
        self, rings: Sequence[perf.Ring], decoders: Mapping[int, Decoder], shape: Shape, pids: Sequence[int] = (),
        follow: bool = False, copier: Copier | None = None, copies: Copies | None = None,
        long_strings: LongStrings | None = None, identities: Mapping[int, int] | None = None,
        named: ThreadNames | None = None, about: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        self._rings = rings
        self._copier = copier
        self._copies = copies
        self._long_strings = long_strings
        self._identities = identities or {}
        self._named = named
        self._decoders = decoders
        self._shape = shape
        self.pids = pids
        self._follow = follow
        self._family = {*pids} if pids and (follow or len(pids) > 1 or about) else None
        self._about = about
        self._threads = set(threads_of(*pids)) if about else set[int]()
        self._near = {*pids}
        """Those of the family, and perhaps others: whose stacks are worth walking."""
        self._forks: list[tuple[int, int]] = []
        self._born: dict[int, int] = {}
        """The parents of threads that have begun, whose records may not have had their turn."""
        self._unsettled = False
        self._returned: list[Sample] = []
        self._rounds: deque[perf.Round] = deque()
        self._backlog = 0
        self._limit = buffers.waiting()
        self._carry: list[Sample] = []
        self._horizon = 0
        self._complete = True
        self._sizes: dict[tuple[int, int], struct.Struct] = {}
        self.lost = 0
        """Samples lost according to the rings' own records, for kernels whose descriptors do not tell."""
        self.throttled = 0
        """How often the kernel stopped sampling something until the next tick."""
        self.read = 0
        """Samples found in the rings, those of other processes too."""
        self.delivered = 0
        """Samples handed on."""
        self.kept: Counter[int] = Counter()
        """Those of the process, or the family, by the number of their event; only where samples of others come too, or
        what perf counts is not its samples.
        """

    def know(self, decoders: Mapping[int, Decoder]) -> None:
        """Decodes samples of further events too."""
        self._decoders = {**self._decoders, **decoders}

    @property
    def waiting(self) -> int:
        """The number of times that there are samples to ask for: rounds to be decoded, and what was put back."""
        return len(self._rounds) + bool(self._returned)

    @property
    def unfinished(self) -> bool:
        """Whether there are samples that only the next rounds release."""
        return bool(self._rounds or self._carry or self._returned)

    @property
    def behind(self) -> bool:
        """Whether nearly as much waits as may wait out of the rings."""
        return self._backlog > self._limit // 4 * 3

    def collect(self, held_up: bool = False) -> None:
        """Does one round: it takes what is in the rings now. A round that finds nothing releases what the ones before
        it found; who is `held_up` and cannot handle that has no use for it, and may ask for long.
        """
        for taken in self._taken():
            if taken.blocks or (not held_up and (self._carry or self._rounds)):
                self._rounds.append(taken)
                self._backlog += sum(map(len, taken.blocks))
                self._complete = taken.complete
            elif self._copier is not None and not self._rounds:
                self._copier.free(taken)

    def keep_up(self) -> None:
        """Sees to it that the rings are emptied while samples are worked through."""
        if self._copier is None or self._copier.is_full:
            self.collect()

    def _taken(self) -> list[perf.Round]:
        rounds: list[perf.Round] = []
        if self._copier is not None:
            rounds = self._copier.take()
            if self._copier.runs:
                return rounds
            self._copier = None
        if self._backlog <= self._limit:  # else it waits in the rings, and counts as lost once those are full
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            rounds.append(perf.Round(now, True, [block for ring in self._rings if (block := ring.take())]))
        return rounds

    def next_samples(self, final: bool = False, until: int | None = None) -> list[Sample]:
        """The samples that were put back, else those that the oldest round releases, oldest first, but none later than
        `until`; with `final` all that there are, after some calls.
        """
        if self._returned:
            # They are earlier than all that a round releases. No round is decoded meanwhile: who is behind would get
            # ever more of them put back.
            samples = self._returned
            keep = len(samples) if until is None else bisect_right(samples, until, key=itemgetter(TIME))
            self._returned = samples[keep:]
            del samples[keep:]
            self.delivered += self._hits_among(samples)
            return samples
        samples = self._carry
        if self._rounds:
            oldest = self._rounds.popleft()
            # Forks are in the last rings, which are emptied last: they come first, so that they are known.
            for block in oldest.blocks[::-1]:
                self._backlog -= len(block)
                # A copy of all stacks would take longer than to walk them.
                self._decode(block if self._shape.registers else bytes(block), samples)
            self._forks.clear()
            if self._copier is not None:
                self._copier.free(oldest)
            horizon = self._horizon
            if oldest.complete:
                self._horizon = oldest.began
        else:
            horizon = self._horizon
        samples.sort(key=itemgetter(TIME))
        if final and not self._rounds and self._complete:
            self._carry = []
        else:
            limit = horizon if until is None else min(horizon, until)
            keep = bisect_right(samples, limit, key=itemgetter(TIME))
            self._carry = samples[keep:]
            del samples[keep:]
        if self._long_strings is not None:
            samples = self._long_strings.paired(samples)
        if self._family is not None:
            if self._about:
                samples = self._about_threads(samples, self._family)
            else:
                samples = _of_family(samples, self._family, self._follow)
            self.kept.update(map(itemgetter(self._shape.event), samples))
        self.delivered += self._hits_among(samples)
        return samples

    def is_traced(self, thread: int) -> bool:
        """Whether a thread is one of those that are traced; of one that has just begun before its first sample too."""
        return thread in self._threads

    def is_near(self, thread: int) -> bool:
        """Whether a thread may be one of those that are traced, when a sample is decoded: before its turn."""
        return thread in self._threads or ((parent := self._born.get(thread)) is not None and self._is_near(parent))

    def _about_threads(self, samples: list[Sample], family: set[int]) -> list[Sample]:
        """The samples of the family and those about it, as far as events alone tell."""
        event, near = self._shape.event, {*family}
        wide, rest = list[Sample](), list[Sample]()
        for sample in samples:
            if sample[0] == perf.RECORD_FORK:
                pid, parent, thread = sample[PID], sample[TID], sample[_NEW_THREAD]
                belongs = parent in near and (self._follow or pid == parent)
                (self._threads.add if belongs else self._threads.discard)(thread)
                (near.add if belongs else near.discard)(pid)
                rest.append(sample)
            else:  # the names of all threads, too
                (wide if sample[0] != perf.RECORD_SAMPLE or sample[event] in self._about else rest).append(sample)
        kept = _of_family(rest, family, self._follow)
        return sorted([*kept, *wide], key=itemgetter(TIME)) if wide else kept

    def put_back(self, samples: list[Sample]) -> None:
        """Takes back samples that were handed on and not used: they come first the next time."""
        self.delivered -= self._hits_among(samples)
        self._returned = samples + self._returned

    def drop(self) -> int:
        """Throws away all samples that are there; returns how many that were."""
        dropped = 0
        self.collect()
        while self.unfinished:
            dropped += self._hits_among(self.next_samples(final=True))
            if not self._rounds:
                self.collect()
        return dropped

    def _hits_among(self, samples: list[Sample]) -> int:
        """How many are no word of the kernel's about a thread."""
        return len(samples) if self._named is None else sum(sample[0] == perf.RECORD_SAMPLE for sample in samples)

    def _decode(self, data: Bytes, out: list[Sample]) -> None:
        """Appends the samples of a ring's bytes."""
        begin = len(out)
        if self._shape.callchain:
            self._decode_singly(data, out)
        else:
            self._decode_runs(data, out)
        self.read += len(out) - begin
        if self.pids and self._family is None:
            (pid,) = self.pids
            out[begin:] = [sample for sample in out[begin:] if sample[PID] == pid]
        if (self.pids or self._shape.told) and self._family is None:
            self.kept.update(map(itemgetter(self._shape.event), out[begin:]))

    def _decode_runs(self, data: Bytes, out: list[Sample]) -> None:
        header = struct.Struct("=IHH").unpack_from
        number = struct.Struct("=H").unpack_from
        number_at = struct.calcsize(self._shape.prefix) + 4
        event_index = self._shape.event
        decoders, view, copies = self._decoders, memoryview(data), self._copies
        pid, walks = struct.Struct("=I").unpack_from, bool(self.pids and self._shape.registers)
        position, end, singly, looked = 0, len(data), 0, 0
        while position < end:
            kind, _, size = header(data, position)
            if kind != perf.RECORD_SAMPLE:
                self._other(kind, data, position, out)
                position += size
                continue
            event = number(data, position + number_at)[0] or self._identified(data, position)
            decoder = decoders[event]
            if decoder.decode is not None:
                if walks and event not in self._about and not self._is_near(pid(data, position + 8)[0]):
                    self.read += 1
                elif copies is None:
                    out.append(decoder.decode(data, position))
                elif not copies.is_double(event, data, position):
                    out.append(decoder.decode(data, position))
                    copies.look(event)
                position += size
                continue
            record = self._struct(decoder, size)
            if singly:
                singly -= 1
                out.append(record.unpack_from(data, position))
                position += size
                continue
            before = len(out)
            stop = min(end, position + _PIECE)
            for sample in record.iter_unpack(view[position : stop - (stop - position) % size]):
                if sample[2] != size or sample[event_index] != event or sample[0] != perf.RECORD_SAMPLE:
                    break
                out.append(sample)
            run = len(out) - before
            position += run * size
            if run < _SHORT:
                singly = _MANY
            if position > looked + _PIECE:
                looked = position
                self.keep_up()

    def _decode_singly(self, data: Bytes, out: list[Sample]) -> None:
        header = struct.Struct("=IHH").unpack_from
        number = struct.Struct("=H").unpack_from
        count = struct.Struct("=Q").unpack_from
        chain_at = struct.calcsize(self._shape.prefix)
        pid, walks = struct.Struct("=I").unpack_from, bool(self.pids and self._shape.registers)
        copies, position = self._copies, 0
        while position < len(data):
            kind, _, size = header(data, position)
            if kind != perf.RECORD_SAMPLE:
                self._other(kind, data, position, out)
                position += size
                continue
            raw = position + chain_at + 8 + 8 * count(data, position + chain_at)[0] + 4
            event = number(data, raw)[0] or self._identified(data, position)
            decode = self._decoders[event].decode
            assert decode is not None, "with call chains every event has a decode function"
            if walks and event not in self._about and not self._is_near(pid(data, position + 8)[0]):
                self.read += 1
            elif copies is None:
                out.append(decode(data, position))
            elif not copies.is_double(event, data, position):
                out.append(decode(data, position))
                copies.look(event)
            position += size

    def _is_near(self, pid: int) -> bool:
        """Whether a process may be one of those that are traced."""
        while self._unsettled:
            born = {child for parent, child in self._forks if parent in self._near} - self._near
            self._near |= born
            self._unsettled = bool(born)
        return pid in self._near

    def _identified(self, data: Bytes, position: int) -> int:
        """The number of an event whose record has none."""
        return self._identities[_IDENTITY(data, position + self._shape.descriptor)[0]]

    def _struct(self, decoder: Decoder, size: int) -> struct.Struct:
        """The whole record, its padding included."""
        key = (decoder.id, size)
        layout = self._sizes.get(key)
        if layout is None:
            layout = self._sizes[key] = struct.Struct(f"{decoder.codes}{size - struct.calcsize(decoder.codes)}x")
        return layout

    def _other(self, kind: int, data: Bytes, position: int, out: list[Sample]) -> None:
        before = len(out)
        if kind == perf.RECORD_LOST:
            self.lost += struct.unpack_from("=Q", data, position + 16)[0]
            if self._long_strings is not None:
                out.append(self._long_strings.lost(data, position + 24, self.pids[0] if self.pids else 0))
        elif kind == perf.RECORD_THROTTLE:
            self.throttled += 1
        elif kind == perf.RECORD_FORK and self._family is not None:
            *head, thread, _, at_ns = _BIRTH.unpack_from(data, position)
            birth = (*head, at_ns, thread)
            self._forks.append((birth[TID], birth[PID]))
            if len(self._born) >= _MOST_BORN:
                self._born.clear()
            self._born[thread] = birth[TID]
            self._unsettled = self._follow
            out.append(birth)
        if self._named is not None and (told := self._named.told(kind, data, position)) is not None:
            out.append(told)
        self.read -= len(out) - before


_IDENTITY = struct.Struct("=Q").unpack_from

_BIRTH = struct.Struct("=IHHIIIIQ")
"""A fork: header, pid, ppid, two threads, time."""
_NEW_THREAD = -1
"""In a fork as a sample, which has the parent in the place of the thread: the thread that begins."""


def _of_family(samples: list[Sample], family: set[int], follow: bool) -> list[Sample]:
    """The samples of the family, which with `follow` its forks extend. Exits do not matter: only a fork uses a number
    again.
    """
    kept = []
    for sample in samples:
        if sample[0] != perf.RECORD_FORK:
            if sample[PID] in family:
                kept.append(sample)
        elif sample[PID] != sample[TID]:  # no mere thread
            (family.add if follow and sample[TID] in family else family.discard)(sample[PID])
    return kept
