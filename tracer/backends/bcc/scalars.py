"""Assigned maps as user space sees them: the kernel's elements themselves, which it reads and writes directly.

`clear` raises the generation, so that programs find nothing from then on. What was assigned between the reading and
that moment is carried over into the new generation, unless a program has assigned that key anew.
"""

from __future__ import annotations

import errno
import struct
import time

from tracer.backends.bcc import syscall
from tracer.backends.bcc.control import Control
from tracer.backends.bcc.counting import SETTLED_S
from tracer.backends.bcc.layout import decoder, encode, wrap
from tracer.backends.bcc.tabledata import Raw, TableData
from tracer.lang.types import IntType, Value
from tracer.results.events import Loss
from tracer.results.store import empty_value
from tracer.results.values import Key, MapValue


class ScalarMap:
    """One such map."""

    def __init__(self, data: TableData, control: Control, loss: Loss) -> None:
        self.data = data
        self.table = data.table
        self._control = control
        self._loss = loss
        layout = self.table.key
        assert layout is not None
        self._layout = layout
        self._decode_key = layout.decoder()
        self._decode_value = decoder(self.table.decl.value)
        self._old: dict[Raw, bytes] = {}
        self._cleared_at: dict[int, float] = {}

    def read(self) -> dict[Raw, bytes]:
        """The elements of the current generation."""
        found = dict(self.data.values())
        if self.table.generation is None:
            return found
        if self._old:
            self._sweep(found)
            found = dict(self.data.values())
        current = self._current()
        return {raw: value for raw, value in found.items() if struct.unpack_from("=I", raw[1])[0] == current}

    def values(self, view: dict[Raw, bytes]) -> dict[Key, MapValue]:
        """The map of a reading."""
        return {self._decode_key(raw[1]): self._decode_value(value, 0) for raw, value in view.items()}

    def set(self, key: Key, value: Value) -> tuple[Raw, bytes]:
        """Assigns; returns the element."""
        raw = self._raw(key)
        data = encode(self.table.decl.value, value)
        self._write(raw, data)
        return raw, data

    def add(self, key: Key, delta: int) -> tuple[Raw, bytes]:
        """Adds to an integer. A probe's addition in the microsecond between our reading and writing would be lost."""
        raw = self._raw(key)
        before = syscall.map_lookup(self.data.fds[raw[0]], raw[1], self.data.value_size)
        number = self._decode_value(before, 0) if before is not None else 0
        assert isinstance(number, int)
        kind = self.table.decl.value
        return self.set(key, wrap(kind, number + delta) if isinstance(kind, IntType) else number + delta)

    def delete(self, key: Key) -> Raw:
        """Removes a key; returns its element."""
        raw = self._raw(key)
        if self.data.delete(raw) and self.table.length is not None:
            self._control.give(self.table.length, -1)
        return raw

    def clear(self, view: dict[Raw, bytes]) -> None:
        """Removes what a reading has seen."""
        if self.table.generation is None:
            for raw in view:
                self.data.delete(raw)
        else:
            self._old.update(view)
            self._cleared_at[self._current()] = time.monotonic()
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
        encoded = self._layout.encode(key, self._current())
        return self._layout.short is not None and len(encoded) == self._layout.size, encoded

    def _write(self, raw: Raw, data: bytes) -> None:
        fd = self.data.fds[raw[0]]
        try:
            if self.table.length is not None:
                try:
                    syscall.map_update(fd, raw[1], data, syscall.UPDATE_NEW)
                    self._control.give(self.table.length, 1)
                    return
                except OSError as error:
                    if error.errno != errno.EEXIST:
                        raise
            syscall.map_update(fd, raw[1], data)
        except OSError as error:
            if error.errno not in (errno.E2BIG, errno.ENOMEM):
                raise
            self._loss.keys += 1

    def _sweep(self, found: dict[Raw, bytes]) -> None:
        """Carries what changed in old generations over, and deletes what has settled there (see `counting`)."""
        current = self._current()
        settled = time.monotonic() - SETTLED_S
        for raw, value in found.items():
            generation = struct.unpack_from("=I", raw[1])[0]
            if generation == current:
                continue
            if self._old.get(raw) != value:
                self._old[raw] = value
                self._carry(raw, value, current)
            elif self._cleared_at.get(generation, settled) <= settled:
                self.data.delete(raw)
                del self._old[raw]

    def _carry(self, raw: Raw, value: bytes, current: int) -> None:
        key = struct.pack("=I", current) + raw[1][4:]
        try:
            syscall.map_update(self.data.fds[raw[0]], key, value, syscall.UPDATE_NEW)
        except OSError as error:
            if error.errno in (errno.E2BIG, errno.ENOMEM):
                self._loss.keys += 1
            elif error.errno != errno.EEXIST:
                raise
            return
        if self.table.length is not None:
            self._control.give(self.table.length, 1)
