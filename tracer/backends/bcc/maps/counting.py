"""Additive and extreme maps as user space sees them: the kernel's elements, less what earlier clears took away.

User space never writes these elements while probes run: setting a per-CPU value overwrites every CPU's, and what was
added meanwhile is gone. So `clear` and `delete` note what had been read (`_taken`), and reading subtracts it: each hit
is in exactly one reading. For min and max there is nothing to subtract; an element that still holds what was
taken counts as empty, and since clearing also raises the generation, new values go to new elements anyway.

An element of an old generation is deleted in the kernel once a reading, `SETTLED_S` after the clear, finds nothing new
in it. What remains is a program that was stopped for longer than that between finding its element and adding to it:
its one hit is lost. (A program that waits for a page has not looked for its element yet, and makes a new one.)

Where probes clear the map (`marks`), `print(@x); clear(@x)` there shows the elements of the mark that it ended. What
was added to them after that was shown goes over into the present (`_late`), so that no hit is in no print.
"""

from __future__ import annotations

import struct

from tracer.backends.bcc.control import Control
from tracer.backends.bcc.maps.marks import Behind, Ended, Past, Settling, clears, mark_of, moved
from tracer.backends.bcc.maps.tabledata import Number, Raw, TableData
from tracer.backends.bcc.maps.tables import Shape
from tracer.lang.typed import MapKind
from tracer.results.integers import wrap_int
from tracer.results.store import UNSET, is_signed
from tracer.results.values import Average, Key, MapValue

_TOP = 1 << 63
_MASK = 0xFFFF_FFFF_FFFF_FFFF


class CountingMap:
    """One such map, as far as it is in the kernel. `past` is there where probes clear it."""

    def __init__(self, data: TableData, control: Control, past: Past | None) -> None:
        self.data = data
        self.table = data.table
        self.name = self.table.decl.name
        self._control = control
        self.past = past
        self._taken: dict[Raw, Number] = {}
        self._printed: dict[int, dict[Raw, Number]] = {}
        self._last_print: tuple[int, dict[Raw, Number]] | None = None
        self._late: dict[Raw, Number] = {}
        self._ended = None if past is None else Ended(past, self._elements)
        self._settling = Settling()
        self._decode = self.table.key.decoder() if self.table.key is not None else lambda raw: self._in_array(raw)[0]
        self._signed = is_signed(self.table.decl)

    def read(self) -> dict[Raw, Number]:
        """The kernel's elements now; gives back those of old generations that nothing changes any more."""
        past = self.past
        if past is not None:
            past.begin()
            if past.moment is not None and self._ended is not None:
                view = self._ended.at(past.moment)
                self._last_print = past.moment, view
                return view
        found = self._elements()
        if self.table.generation is not None and self._taken:
            self._reclaim(found)
        if past is None:
            return found
        return {raw: number for raw, number in found.items() if past.shown(raw)}

    def raised(self, before: int, cleared: bool) -> None:
        """A probe has cleared (else zeroed) the map; a print just before it has shown what that ended."""
        assert self.past is not None
        self.past.raised(before, cleared)
        if self._last_print is not None and self._last_print[0] == before:
            self._printed[before] = self._last_print[1]
        self._last_print = None

    def tidy(self) -> None:
        """Gives back what clears and zeros in probes have put behind."""
        past = self.past
        assert past is not None and self._ended is not None
        raises = past.due()
        if not raises:
            return
        behind = Behind.of(raises)
        gone = []
        for raw in self._elements() if self._printed else [*self.data.raws(), *self._late]:
            if not behind.is_dead(raw):
                if not behind.is_zeroed(raw):
                    continue
                past.zeroed[self._place(raw)[0]] = clears(mark_of(raw))
            gone.append(raw)
            self._late.pop(raw, None)
            self._taken.pop(raw, None)
        self.data.delete_many(gone)
        self._ended.forget()
        self._printed = {mark: view for mark, view in self._printed.items() if not behind.reaches(mark)}
        if behind.dead is not None:
            past.zeroed = {key: at for key, at in past.zeroed.items() if at > clears(behind.dead)}

    def values(self, view: dict[Raw, Number]) -> dict[Key, MapValue]:
        """The map of a reading, in the forms of `results.values`, without what user space added."""
        found: dict[Key, Number] = {}
        counts: dict[Key, dict[int, int]] = {}
        histogram = self.table.buckets > 1
        for raw, number in view.items():
            left = self._left(raw, number)
            if left is None or (self.past is not None and self.past.is_zero(raw)):
                continue
            if histogram:
                key, bucket = self._place(raw)
                buckets = counts.setdefault(key, {})
                buckets[bucket] = buckets.get(bucket, 0) + _int(left)
            else:
                key = self._decode(raw[1])
                held = found.get(key)
                found[key] = left if held is None else self._joined(held, left)
        if histogram:
            return dict(counts)
        return {key: self._value(number) for key, number in found.items()}

    def zeros(self, view: dict[Raw, Number]) -> dict[Key, MapValue]:
        """The keys that zero() in a probe has kept, with nothing in them, for `merge`."""
        if self.past is None:
            return {}
        keys = {
            self._place(raw)[0]: None
            for raw, number in view.items()
            if self.past.is_zero(raw) and self._left(raw, number) is not None
        }
        return {key: _nothing(self.table.decl.kind) for key in (*keys, *self.past.zero_keys())}

    def clear(self, view: dict[Raw, Number]) -> None:
        """Takes away what a reading has seen."""
        self._taken.update(view)
        if self.past is not None:
            self.past.zeroed.clear()
        if self.table.generation is not None:
            self._settling.ended(self._generation())
            self._control.next_generation(self.table.generation)
        if self.table.length is not None:
            self._control.empty(self.table.length)

    def delete(self, key: Key, view: dict[Raw, Number]) -> None:
        """Takes away one key. Where probes read the map too it must really go; so must an extreme, but for one in an
        array: that is deleted at the end alone, when nothing is added any more.
        """
        extreme = self.table.shape is Shape.EXTREME and self.table.grid is None
        really = not self.table.per_cpu or extreme
        gone = False
        if self.past is not None:
            self.past.zeroed.pop(key, None)
        for raw in [raw for raw in view if self._place(raw)[0] == key]:
            if really:
                gone = self.data.delete(raw) or gone
                view.pop(raw)
                self._taken.pop(raw, None)
                self._late.pop(raw, None)
            else:
                self._taken[raw] = view[raw]
        if gone and self.table.length is not None:
            self._control.give(self.table.length, -1)

    def _place(self, raw: Raw) -> tuple[Key, int]:
        """The key of the program, and the bucket."""
        if self.table.grid is not None:
            return self._in_array(raw[1])
        return self._decode(raw[1]), int(struct.unpack_from("=I", raw[1], 4)[0]) if self.table.buckets > 1 else 0

    def _in_array(self, index: bytes) -> tuple[Key, int]:
        """The key and the bucket at a place of an array."""
        assert self.table.grid is not None
        place, bucket = divmod(struct.unpack("=I", index)[0], self.table.buckets)
        return self.table.grid.key(place), bucket

    def _elements(self) -> dict[Raw, Number]:
        """The kernel's elements, with what came late to those that had been printed in the present ones."""
        found = self.data.numbers()
        if self._printed:
            assert self.past is not None
            now = self.past.now()
            for raw, number in found.items():
                printed = self._printed.get(mark_of(raw))
                left = None if printed is None else self._less(number, printed.get(raw))
                if printed is not None and left is not None:
                    printed[raw] = number
                    place = moved(raw, now)
                    held = self._late.get(place)
                    self._late[place] = left if held is None else self._joined(held, left)
        for raw, number in self._late.items():
            held = found.get(raw)
            found[raw] = number if held is None else self._joined(held, number)
        return found

    def _left(self, raw: Raw, number: Number) -> Number | None:
        """What of an element no clear has taken; None for nothing."""
        return self._less(number, self._taken.get(raw))

    def _less(self, number: Number, taken: Number | None) -> Number | None:
        if isinstance(number, tuple):
            hits, total = taken if isinstance(taken, tuple) else (0, 0)
            return ((number[0] - hits) & _MASK, (number[1] - total) & _MASK) if number[0] != hits else None
        if self.table.shape is Shape.EXTREME:
            return number if taken != number else None
        left = (number - (_int(taken) if taken is not None else 0)) & _MASK
        return left or None

    def _joined(self, one: Number, other: Number) -> Number:
        """Two generations of one key."""
        if isinstance(one, tuple) and isinstance(other, tuple):
            return (one[0] + other[0]) & _MASK, (one[1] + other[1]) & _MASK
        if self.table.shape is Shape.EXTREME:
            return max(_int(one), _int(other))
        return (_int(one) + _int(other)) & _MASK

    def _value(self, number: Number) -> MapValue:
        match self.table.decl.kind:
            case "avg" | "stats":
                assert isinstance(number, tuple)
                return Average(number[0], wrap_int(number[1], 64, self._signed))
            case "max":
                return wrap_int(_int(number) ^ (_TOP if self._signed else 0), 64, self._signed)
            case "min":
                return wrap_int(~_int(number) ^ (_TOP if self._signed else 0), 64, self._signed)
            case "count":
                return _int(number)
            case _:
                return wrap_int(_int(number), 64, self._signed)

    def _reclaim(self, found: dict[Raw, Number]) -> None:
        current = self._generation()
        for raw in list(found):
            generation = struct.unpack_from("=I", raw[1])[0]
            if generation == current or not self._settling.has_settled(generation):
                continue
            if found[raw] == self._taken.get(raw):
                self.data.delete(raw)
                self._late.pop(raw, None)
                del self._taken[raw], found[raw]

    def _generation(self) -> int:
        index = self.table.generation
        return 0 if index is None else self._control.generation(index) & 0xFFFF_FFFF


def _nothing(kind: MapKind) -> MapValue:
    if kind in ("min", "max"):
        return UNSET
    if kind in ("avg", "stats"):
        return Average(0, 0)
    return {} if kind in ("hist", "lhist") else 0


def _int(number: Number) -> int:
    """A counter's number; of hits and total the total."""
    return number[1] if isinstance(number, tuple) else number
