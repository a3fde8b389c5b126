"""Strings that an event could not hold: what a second event beside it has of them.

Of a string of 4,096 bytes or more an event has as many bytes as those after it were measured to need (see `fetchargs`).
So for each of its strings there is an event beside it at the same places: this string, then *padding*, which is code of
the traced file without a NUL, then the other strings of the hit, and the thread's name. However long the string is,
more than max_strlen of it are copied into the padding's room, before any other can take that. The thread's name is
missing exactly where one of the strings was too long (or all of them more than a page), and the event's filter lets
only these hits become samples: a hit with short strings costs the time to copy the padding, and no room in the rings.

The event proper drives everything: its samples are the hits, the losses, the order. A sample from beside gives a value
where that of the same hit has `NO_ROOM`, and is thrown away then. It comes right before: the kernel runs the probe that
was opened last first (consumer_add; tried on 6.1 and 6.18), so the events beside are opened last, and enabled first.
Where samples were lost, no later one is taken for that of the same hit.

What these events cost is a third of what a hit costs, more where it takes much padding. While there are few hits nobody
notices. Where there are many, and none with a long string was among them, they are closed (`Upkeep`): a flood
of short strings does not pay for long ones that do not come. The first long string after that is left out and counted,
as all are where there are no such events, and opens them again, for good.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tracer.backends.ftrace.fetchargs import SENTINEL, Number, Text
from tracer.backends.ftrace.program import ProbeEvent
from tracer.backends.ftrace.read.padding import padding_of
from tracer.backends.ftrace.samples.decoder import Decoder, Slots
from tracer.backends.ftrace.samples.shape import TID, TIME, Bytes, Sample, Shape
from tracer.backends.ftrace.samples.writer import COMM_TOKEN
from tracer.dataclass import dataclass, field
from tracer.host.stat import threads_of
from tracer.kernel import perf
from tracer.kernel.limits import allowed_descriptors
from tracer.kernel.trials.abilities import Abilities
from tracer.kernel.uprobe_events import events as uprobe_events
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kernel.uprobe_events.events import EventFormat, ProbePlace
from tracer.steps.python.runtime import NO_ROOM

_MOST_WANTED = 2047
"""Bytes of a string: with more padding too many hits would have more than a page, and each of them a sample."""
_MOST_TEXTS, _MOST_PLACES = 4, 256
"""Of an event, of all together."""
_HIT_NS, _STRING_NS = 100, 60
"""What an event costs a hit, and each of its strings (6.18 on an AMD EPYC: 290 ns with one padding string of 1,025
bytes, 1,650 with 24 of 42 bytes; the event proper takes 800).
"""
_FREE_S, _SHARE = 0.02, 0.01
"""So much time the events beside others may take, and such a share of a CPU."""
_LOOK_S = 0.02
_FIELD = re.compile(r"\bf(\d+)\b")
_ALL = (1 << 64) - 1
_NUMBERS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_U32, _U64 = struct.Struct("=I").unpack_from, struct.Struct("=Q").unpack_from


@dataclass(frozen=True, slots=True)
class Beside(uprobe_events.UprobeEvent):
    """The event beside `event`, the one of that `number`, for one of its strings. Its fetch arguments are so many
    `numbers`, that of the string's address last, then the string, then others.
    """

    event: ProbeEvent
    number: int
    text: Text
    numbers: int
    filter: str

    @property
    def cost_ns(self) -> int:
        """The nanoseconds that it costs a hit, about."""
        return _HIT_NS + _STRING_NS * len(self.places[0].fetches)


def define_beside(definitions: Definitions, events: Sequence[ProbeEvent], pids: Sequence[int]) -> list[Beside]:
    """Defines the events beside these; those that cannot be are left out. None where there would be too many, also for
    the descriptors that the threads of the processes need, or where descriptors do not tell their losses: those of an
    event beside others could not be told from theirs.
    """
    if not Abilities.detect().format_lost:
        return []
    threads = len(threads_of(*pids)) if pids else 1
    room = allowed_descriptors() // (2 * max(threads, 1) * (len(perf.online_cpus()) + 1))
    wanted = [hidden for number, event in enumerate(events) if not event.counts for hidden in _beside(event, number)]
    if sum(len(hidden.places) for hidden in wanted) > _MOST_PLACES or len(events) + len(wanted) > room:
        return []
    return definitions.define_if_possible(wanted)


def _beside(event: ProbeEvent, number: int) -> Iterator[Beside]:
    texts = [event.texts(branch) for branch in range(len(event.branches))]
    if max(map(len, texts)) > _MOST_TEXTS:
        return
    tested = _tested(event)
    for fetch in sorted({fetch for some in texts for fetch in some}):
        alike: dict[object, tuple[Text, list[ProbePlace]]] = {}
        for place in event.places:
            text = texts[place.branch].get(fetch)
            padding = padding_of(place.file, text.need + 2) if text is not None and text.need <= _MOST_WANTED else ()
            if text is None or not padding:
                continue
            shown = [*tested, *([text.base.fetch] if isinstance(text.base, Number) else [])]
            others = [place.fetches[other] for other in texts[place.branch] if other != fetch]
            fetches = *(place.fetches[number] for number in shown), place.fetches[fetch], *padding, *others, SENTINEL
            key = tuple(fetch.type for fetch in fetches), text.base, text.offset, text.need
            alike.setdefault(key, (text, []))[1].append(ProbePlace(place.site, fetches, place.branch))
        for some, (text, places) in enumerate(alike.values()):
            numbers = len(tested) + isinstance(text.base, Number)
            name = f"{event.name}_s{fetch}_{some}"
            last = len(places[0].fetches) - 1
            yield Beside(name, tuple(places), event, number, text, numbers, _filter(event, tested, last))


def _tested(event: ProbeEvent) -> list[int]:
    """The fetch arguments that the event's filter tests."""
    parts = event.filter.text.split('"')[::2] if event.filter else []  # a name between quotes may look like one
    return sorted({int(number) for part in parts for number in _FIELD.findall(part)})


def _filter(event: ProbeEvent, tested: Sequence[int], last: int) -> str:
    """The event's own, and that the last string has no bytes: a pattern that matches all has not matched those (tried
    on 6.1 and 6.18).
    """
    starved = f'!(f{last} ~ "*")'
    if event.filter is None:
        return starved
    parts = event.filter.text.split('"')
    parts[::2] = [_FIELD.sub(lambda match: f"f{tested.index(int(match[1]))}", part) for part in parts[::2]]
    of_event = '"'.join(parts)
    return f"({of_event}) && {starved}"


@dataclass(slots=True)
class LongStrings:
    """Pairs the samples from beside with those of the events proper. `shape` is that of both."""

    shape: Shape
    _slots: dict[int, tuple[Callable[[Sample], Slots], int, int]] = field(default_factory=dict)
    seen: bool = False
    """Whether a hit with a long string has come."""
    _newest: int = 0
    _latest: dict[int, dict[int, Sample]] = field(default_factory=dict)

    def decoder(self, beside: Beside, format: EventFormat, proper: Decoder) -> Decoder:
        """That of an event beside another, whose decoder is `proper`."""
        base = beside.text.base
        index = self.shape.event + 1 + base.fetch if isinstance(base, Number) else -1
        self._slots[format.id] = proper.slots, beside.text.fetch, index
        return Decoder(format.id, "", self._decode(beside, format), _nothing, lambda sample: {})

    def _decode(self, beside: Beside, format: EventFormat) -> Callable[[Bytes, int], Sample]:
        text, need = beside.text, beside.text.need
        here, behind = (format.fields[f"f{beside.numbers + more}"].offset for more in (0, 1))
        base = format.fields[f"f{beside.numbers - 1}"] if isinstance(text.base, Number) else None
        code = "" if base is None else _NUMBERS[base.size]
        number = struct.Struct(f"={code.lower() if base is not None and base.signed else code}").unpack_from
        head = struct.Struct(self.shape.prefix)
        raw = head.size + 4
        callchain, id = self.shape.callchain, format.id

        def decode(b: Bytes, o: int) -> Sample:
            r = o + raw + (8 + 8 * _U64(b, o + raw - 4)[0] if callchain else 0)
            pointer = None if base is None else number(b, r + base.offset)[0]
            offset, padding = _U32(b, r + here)[0], _U32(b, r + behind)[0]
            offset, size = offset & 0xFFFF, offset >> 16
            value: object = NO_ROOM
            if pointer is not None and (pointer + text.offset) & _ALL == COMM_TOKEN:
                pass  # the kernel would read the thread's name there
            elif size - 1 > need or (size and padding >> 16 and padding & 0xFFFF == offset + size):
                value = bytes(b[r + offset : r + offset + size - 1])
            elif not size and padding >> 16:
                value = None
            sample = (*head.unpack_from(b, o), id, pointer, value)
            self._newest = max(self._newest, sample[TIME])
            self.seen = True
            return sample

        return decode

    def lost(self, data: Bytes, following: int, pid: int) -> Sample:
        """The sample that stands for lost ones, which the kernel tells in one piece with the record `following` them:
        it has the time of that one.
        """
        (moment,) = _U64(data, following + 16)
        self._newest = max(self._newest, moment)
        return (perf.RECORD_LOST, 0, 0, pid, 0, moment, *(0,) * (self.shape.event - 6), -1)

    def paired(self, samples: list[Sample]) -> list[Sample]:
        """Samples in the order of time, without those from beside, whose values are in the others."""
        if not self._latest and (not samples or samples[0][TIME] > self._newest):
            return samples
        kept: list[Sample] = []
        event, latest, slots = self.shape.event, self._latest, self._slots
        for sample in samples:
            if sample[0] == perf.RECORD_LOST:
                latest.clear()
            elif sample[0] != perf.RECORD_SAMPLE:
                kept.append(sample)
            elif sample[event] in slots:
                latest.setdefault(sample[TID], {})[sample[event]] = sample
            else:
                values = latest.pop(sample[TID], None)
                kept.append(sample if values is None else self._filled(sample, values))
        return kept

    def _filled(self, sample: Sample, of_events: dict[int, Sample]) -> Sample:
        values: list[Any] = list(sample)
        for number, beside in of_events.items():
            slots, text, base = self._slots[number]
            pointer, value = beside[-2:]
            if base >= 0 and sample[base] != pointer:
                continue
            for slot in slots(sample).get(text, ()):
                if values[slot] is NO_ROOM:
                    values[slot] = value
        return tuple(values)


@dataclass(slots=True)
class Upkeep:
    """Decides when events `beside` others are worth what they cost. They are `open` at first. `listed` has the kernel's
    number of hits of each event by its name, or None, those too that a filter drops.
    """

    beside: Sequence[Beside]
    strings: LongStrings
    listed: Callable[[], dict[str, list[int]] | None]
    open: bool = True
    _begin: float = field(default_factory=time.monotonic)
    _again: float = 0.0
    _crowded: int = 0

    def is_due(self, hits: Callable[[int], int], crowded: int) -> bool:
        """Whether they are to be closed now, or opened again. `hits` tells those of an event by its number; `crowded`:
        of how many hits no room was left for a string.
        """
        if not self.open:
            return crowded > self._crowded
        now = time.monotonic()
        if self.strings.seen or now < self._again:
            return False
        self._crowded = crowded
        # The list is one of all tracers, and may be long.
        listed = (self.listed() or {}) if any(string.event.filter for string in self.beside) else {}
        self._again = time.monotonic() + _LOOK_S + 20 * (time.monotonic() - now)
        costs = [(string.cost_ns, max(hits(string.number), sum(listed.get(string.name, ())))) for string in self.beside]
        taken = sum(cost * times for cost, times in costs) / 1e9
        return taken > _FREE_S + _SHARE * (now - self._begin)

    def done(self) -> None:
        """Notes that they are what they were not before; once open again they stay so."""
        self.open = self.strings.seen = not self.open


def _nothing(sample: Sample) -> None:
    """A sample from beside is no hit."""


def upkeep_of(
    beside: Sequence[Beside], shape: Shape, definitions: Definitions, decoders: dict[int, Decoder]
) -> Upkeep:
    """The upkeep of events beside others, whose decoders come to those."""
    strings = LongStrings(shape)
    for hidden in beside:
        format, proper = definitions.format(hidden), decoders[definitions.format(hidden.event).id]
        decoders[format.id] = strings.decoder(hidden, format, proper)
    return Upkeep(beside, strings, definitions.hits)
