"""Assigned maps as user space sees them: the kernel's elements themselves, which it reads and writes directly.

`clear` raises the generation, so that programs find nothing from then on. What was assigned between the reading and
that moment is carried over into the new generation, unless a program has assigned that key anew.
"""

from __future__ import annotations

import errno
import struct

from tracer.backends.bcc.control import Control
from tracer.backends.bcc.maps.layout import decoder, encode, wrap
from tracer.backends.bcc.maps.marks import Behind, Ended, Past, Settling, clears, mark_of
from tracer.backends.bcc.maps.tabledata import Raw, TableData
from tracer.kernel import bpf
from tracer.lang.types import IntType, Value
from tracer.results.events import Loss
from tracer.results.store import empty_value
from tracer.results.values import Key, MapValue


class ScalarMap:
    """One such map. `past` is there where probes clear it."""

    def __init__(self, data: TableData, control: Control, loss: Loss, past: Past | None) -> None:
        self.data = data
        self.table = data.table
        self._control = control
        self._loss = loss
        self.past = past
        self._ended = None if past is None else Ended(past, lambda: dict(self.data.values()))
        layout = self.table.key
        assert layout is not None
        self._layout = layout
        self._decode_key = layout.decoder()
        self._decode_value = decoder(self.table.decl.value)
        self._old: dict[Raw, bytes] = {}
        self._settling = Settling()

    def read(self) -> dict[Raw, bytes]:
        """The elements of the current generation."""
        past = self.past
        if past is not None:
            past.begin()
            if past.moment is not None and self._ended is not None:
                return self._ended.at(past.moment)
        found = dict(self.data.values())
        if self.table.generation is not None:
            if self._old:
                self._sweep(found)
                found = dict(self.data.values())
            current = self._current()
            found = {raw: value for raw, value in found.items() if struct.unpack_from("=I", raw[1])[0] == current}
        return found if past is None else {raw: value for raw, value in found.items() if past.shown(raw)}

    def values(self, view: dict[Raw, bytes]) -> dict[Key, MapValue]:
        """The map of a reading."""
        past = self.past
        if past is None:
            return {self._decode_key(raw[1]): self._decode_value(value, 0) for raw, value in view.items()}
        items: dict[Key, MapValue] = dict.fromkeys(past.zero_keys(), self.empty())
        items.update((self._decode_key(raw[1]), self.empty()) for raw in view if past.is_zero(raw))
        items.update(
            (self._decode_key(raw[1]), self._decode_value(value, 0))
            for raw, value in view.items()
            if not past.is_zero(raw)
        )
        return items

    def raised(self, before: int, cleared: bool) -> None:
        """A probe has cleared (else zeroed) the map."""
        assert self.past is not None
        self.past.raised(before, cleared)

    def tidy(self) -> None:
        """Gives back what clears and zeros in probes have put behind."""
        past = self.past
        assert past is not None and self._ended is not None
        raises = past.due()
        if not raises:
            return
        behind = Behind.of(raises)
        gone = []
        for raw in self.data.raws():
            if not behind.is_dead(raw):
                if not behind.is_zeroed(raw):
                    continue
                past.zeroed[self._decode_key(raw[1])] = clears(mark_of(raw))
            gone.append(raw)
            self._old.pop(raw, None)
        self.data.delete_many(gone)
        self._ended.forget()
        if behind.dead is not None:
            past.zeroed = {key: at for key, at in past.zeroed.items() if at > clears(behind.dead)}

    def set(self, key: Key, value: Value) -> tuple[Raw, bytes]:
        """Assigns; returns the element."""
        raw = self._raw(key)
        data = encode(self.table.decl.value, value)
        self._write(raw, data)
        return raw, data

    def add(self, key: Key, delta: int) -> tuple[Raw, bytes]:
        """Adds to an integer. A probe's addition in the microsecond between our reading and writing would be lost."""
        raw = self._raw(key)
        before = bpf.map_lookup(self.data.fds[raw[0]], raw[1], self.data.value_size)
        number = self._decode_value(before, 0) if before is not None else 0
        assert isinstance(number, int)
        kind = self.table.decl.value
        return self.set(key, wrap(kind, number + delta) if isinstance(kind, IntType) else number + delta)

    def delete(self, key: Key) -> list[Raw]:
        """Removes a key; returns its elements."""
        raws = [self._raw(key)]
        if self.past is not None:
            self.past.zeroed.pop(key, None)
            raws += [raw for raw in self.read() if self._decode_key(raw[1]) == key]
        for raw in raws:
            if self.data.delete(raw) and self.table.length is not None:
                self._control.give(self.table.length, -1)
        return raws

    def clear(self, view: dict[Raw, bytes]) -> None:
        """Removes what a reading has seen."""
        if self.past is not None:
            self.past.zeroed.clear()
        if self.table.generation is None:
            for raw in view:
                self.data.delete(raw)
        else:
            self._old.update(view)
            self._settling.ended(self._current())
            self._control.next_generation(self.table.generation)
        if self.table.length is not None:
            self._control.empty(self.table.length)
        if self._old:
            self._sweep(dict(self.data.values()))

    def empty(self) -> Value:
        """What `zero` leaves."""
        value: Value = empty_value(self.table.decl.value)
        return value

    def _current(self) -> int:
        index = self.table.generation
        return 0 if index is None else self._control.generation(index) & 0xFFFF_FFFF

    def _raw(self, key: Key) -> Raw:
        mark = 0 if self.past is None else self.past.now()
        encoded = self._layout.encode(key, self._current(), mark=mark)
        return self._layout.sizes.index(len(encoded)), encoded

    def _write(self, raw: Raw, data: bytes) -> None:
        fd = self.data.fds[raw[0]]
        try:
            if self.table.length is not None:
                try:
                    bpf.map_update(fd, raw[1], data, bpf.UPDATE_NEW)
                    self._control.give(self.table.length, 1)
                    return
                except OSError as error:
                    if error.errno != errno.EEXIST:
                        raise
            bpf.map_update(fd, raw[1], data)
        except OSError as error:
            if error.errno not in (errno.E2BIG, errno.ENOMEM):
                raise
            self._loss.keys += 1

    def _sweep(self, found: dict[Raw, bytes]) -> None:
        """Carries what changed in old generations over, and deletes what has settled there (see `counting`)."""
        current = self._current()
        for raw, value in found.items():
            generation = struct.unpack_from("=I", raw[1])[0]
            if generation == current or (self.past is not None and not self.past.shown(raw)):
                continue
            if self._old.get(raw) != value:
                self._old[raw] = value
                self._carry(raw, value, current)
            elif self._settling.has_settled(generation):
                self.data.delete(raw)
                del self._old[raw]

    def _carry(self, raw: Raw, value: bytes, current: int) -> None:
        key = struct.pack("=I", current) + raw[1][4:]
        try:
            bpf.map_update(self.data.fds[raw[0]], key, value, bpf.UPDATE_NEW)
        except OSError as error:
            if error.errno in (errno.E2BIG, errno.ENOMEM):
                self._loss.keys += 1
            elif error.errno != errno.EEXIST:
                raise
            return
        if self.table.length is not None:
            self._control.give(self.table.length, 1)
