"""Records on their way from the ring to the run loop: taken out at once, decoded when they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from tracer.backends.bcc.events.records import Decode, Record, control_event, decoder, mark_in, rows_of
from tracer.backends.bcc.events.ring import Batch, Ring
from tracer.backends.bcc.maps.store import KernelMaps
from tracer.lang.types import TupleType, Value
from tracer.results.events import Event, ExitEvent, PrintfBatch, ValueBatch, ValueEvent

if TYPE_CHECKING:
    from tracer.backends.bcc.maps.stacks import Stacks

_BATCHED = ("printf", "value")
_SHOWN = (*_BATCHED, "sample", "time", "map")
_COPIES = ("stack", "python")


class Incoming:
    """The records in the ring, and those that have been copied out of it: at most `limit` bytes. Beyond that the ring
    fills, and what does not fit is counted by the programs.

    A record is decoded just before its event is handled, so that a print of a map that probes clear can make the store
    look back to its moment.
    """

    def __init__(
        self, ring: Ring, records: Sequence[Record], marked: Container[str], maps: KernelMaps, limit: int,
        stacks: Stacks | None = None,
    ) -> None:  # fmt: skip
        self._ring = ring
        self._limit = limit
        self._records = records
        self._readers = [_reader(record, marked, maps, stacks) for record in records]
        self._printf = [record.index if record.kind == "printf" else -1 for record in records]
        self._values = [_decoder(record, stacks) for record in records]
        self._rows = [rows_of(record) if record.kind in _BATCHED else None for record in records]
        formats = {index for index in self._printf if index >= 0}
        self._only_format = formats.pop() if len(formats) == 1 else None
        self._waiting: deque[Batch] = deque()
        self._bytes = 0
        self._decoding: Iterator[Event] = iter(())
        self._begun = False
        self._copies = {number for number, record in enumerate(records) if record.kind in _COPIES}
        self._current: Batch | None = None
        self._looked_at: dict[int, Batch] = {}
        if stacks is not None:
            stacks.look_ahead = self._look_ahead

    def __len__(self) -> int:
        """The number of batches that wait."""
        return len(self._waiting)

    @property
    def unfinished(self) -> bool:
        """Whether there may be events."""
        return self._begun or bool(self._waiting)

    def take(self) -> None:
        """Empties the ring."""
        if self._bytes < self._limit:
            for batch in self._ring.take():
                self._waiting.append(batch)
                self._bytes += len(batch.data)

    def events(self) -> Iterator[Event]:
        """The events of one batch: what is left of the one under way, or else the oldest that waits. Whoever stops
        early finds the others at the next call.
        """
        if not self._begun and self._waiting:
            self._begun = True
            batch = self._waiting.popleft()
            self._bytes -= len(batch.data)
            self._current = batch
            self._decoding = self._decoded(batch)
        # No `yield from`: that would close the inner generator together with this one.
        for event in self._decoding:  # noqa: UP028
            yield event
        self._begun = False

    def _look_ahead(self) -> None:
        """Takes the copies of stacks that have come since the last call, before their turn."""
        self.take()
        batches = [*([self._current] if self._current is not None else ()), *self._waiting]
        new = [batch for batch in batches if id(batch) not in self._looked_at]
        self._looked_at = {id(batch): batch for batch in batches}  # which keeps them, so that no other has their ids
        for batch in new:
            for offset in batch.offsets:
                number = _number(batch.data, offset)
                if number in self._copies:
                    self._readers[number](batch.data, offset)

    def drop(self) -> int:
        """Drops all events; returns how many of them would have printed something."""
        dropped = sum(_count(event) for event in self._decoding)
        self._begun = False
        shown = [record.kind in _SHOWN for record in self._records]
        self.take()
        while self._waiting:
            batch = self._waiting.popleft()
            self._bytes -= len(batch.data)
            dropped += sum(shown[_number(batch.data, offset)] for offset in batch.offsets)
            self.take()
        return dropped

    def _decoded(self, batch: Batch) -> Iterator[Event]:
        data = batch.data
        printf, values = self._printf, self._values
        first = _number(data, batch.offsets[0])
        record = self._records[first]
        if record.kind in _BATCHED and (batch.uniform or self._are_alike(batch)):
            quick = self._rows[first] if batch.uniform else None
            if quick is not None:
                decoded: Iterable[tuple[Value, ...]] = quick(data, batch.stride)
            else:
                decoded = map(values[first], repeat(data), batch.offsets)
            if record.kind == "printf":
                yield PrintfBatch(record.index, decoded)
            else:
                yield ValueBatch(record.index, map(itemgetter(0), decoded))
            return
        formats: list[int] = []
        rows: list[tuple[Value, ...]] = []
        for offset in batch.offsets:
            number = data[offset] | data[offset + 1] << 8
            format = printf[number]
            if format >= 0:
                formats.append(format)
                rows.append(values[number](data, offset))
                continue
            if rows:
                yield self._batch(formats, rows)
                formats, rows = [], []
            event = self._readers[number](data, offset)
            if event is not None:
                yield event
        if rows:
            yield self._batch(formats, rows)

    def _are_alike(self, batch: Batch) -> bool:
        """Whether all records have one number, as far as one look at all of them can tell."""
        if len(self._records) == 1 or len(batch.offsets) == 1:
            return True
        if len(self._records) > 256:
            return False
        numbers = bytes(itemgetter(*batch.offsets)(batch.data))
        return numbers.count(numbers[0]) == len(numbers)

    def _batch(self, formats: list[int], rows: list[tuple[Value, ...]]) -> PrintfBatch:
        return PrintfBatch(formats if self._only_format is None else self._only_format, rows)


def _number(data: bytes, offset: int) -> int:
    return data[offset] | data[offset + 1] << 8


def _count(event: Event) -> int:
    """The number of things that an event shows."""
    if isinstance(event, PrintfBatch):
        return sum(1 for _ in event.rows)
    if isinstance(event, ValueBatch):
        return sum(1 for _ in event.values)
    return 0 if isinstance(event, ExitEvent) else 1


def _decoder(record: Record, stacks: Stacks | None) -> Decode:
    decode = decoder(record.types)
    return decode if stacks is None else stacks.resolving(decode, TupleType(record.types))


def _reader(
    record: Record, marked: Container[str], maps: KernelMaps, stacks: Stacks | None
) -> Callable[[bytes, int], Event | None]:
    """The function that makes an event of such a record. Samples, clears and zeros are none: the store takes them."""
    name = record.map
    if record.kind == "value":
        index, values = record.index, _decoder(record, stacks)
        return lambda data, offset: ValueEvent(index, values(data, offset)[0])
    if record.kind == "stack":
        return lambda data, offset: stacks.take(data, offset) if stacks is not None else None
    if record.kind == "python":
        return lambda data, offset: stacks.take_function(data, offset) if stacks is not None else None
    if record.kind == "sample":
        taken = _decoder(record, stacks)

        def sample(data: bytes, offset: int) -> None:
            *key, when, value = taken(data, offset)
            maps.sample(name, tuple(key), cast("int", when), cast("int", value))

        return sample
    if record.kind == "exit" and record.types:
        code = decoder(record.types)
        return lambda data, offset: ExitEvent(cast("int", code(data, offset)[0]))
    event = control_event(record)
    if name not in marked:
        return lambda data, offset: event
    if record.kind == "map":

        def look_back(data: bytes, offset: int) -> Event:
            maps.look_back(name, mark_in(data, offset))
            return event

        return look_back
    cleared = record.kind == "clear"

    def note(data: bytes, offset: int) -> None:
        maps.note_reset(name, mark_in(data, offset), cleared)

    return note
