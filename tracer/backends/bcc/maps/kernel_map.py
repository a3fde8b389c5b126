"""A map that probes touch, as user space sees it: the kernel's elements, less what earlier clears took away.

User space never writes an element that probes add to: setting a per-CPU value overwrites every CPU's, and what was
added meanwhile is gone. So `clear` and `delete` note what had been read (`_taken`), and reading subtracts it: each hit
is in exactly one reading. Scalars are assigned, by programs and user space alike: these it writes and deletes directly,
and what was assigned between reading and clearing is carried over into the new generation, unless a program has
assigned that key anew.

An element of an old generation is deleted once a reading, `SETTLED_S` after the clear, finds nothing new in it. What
remains is a program that was stopped for longer than that between finding its element and adding to it: its one hit is
lost. (A program that waits for a page has not looked for its element yet, and makes a new one.)
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tracer.backends.bcc.maps.contents import Contents, Raw
from tracer.backends.bcc.maps.control import Control
from tracer.backends.bcc.maps.element_bytes import encode, wrap
from tracer.backends.bcc.maps.elements import Element, element_of
from tracer.backends.bcc.maps.resets import (
    Generations,
    History,
    Marks,
    clears,
    generation_of,
    in_order,
    mark_of,
    moved_to,
)
from tracer.kernel import bpf
from tracer.lang.aggregations.aggregation import VALUE
from tracer.lang.types import IntType, TupleType, Value
from tracer.results.events import Loss
from tracer.results.store import zeroed
from tracer.results.values import Key, MapValue

if TYPE_CHECKING:
    from tracer.backends.bcc.maps.stacks import Stacks
    from tracer.backends.bcc.maps.tables import Table

E = TypeVar("E")


class KernelMap(Generic[E]):
    """The common part of scalars and of maps that probes add to. There are `marks` if probes reset the map."""

    def __init__(
        self, contents: Contents, control: Control, marks: Marks | None, stacks: Stacks | None = None
    ) -> None:
        self.table = table = contents.table
        self._contents = contents
        self._control = control
        self._zero = zeroed(table.decl)
        self._element: Element[E] = element_of(table, contents.slots, stacks)
        self._generations = None if table.generation is None else Generations(control, table.generation)
        adds = table.cell is not VALUE
        self._history = None if marks is None else History(marks, self._element, self._read, adds)
        self._decode_key = None if table.key is None else table.key.decoder()
        self._settled = False
        """Whether keys have numbers that stand for something else."""
        if stacks is not None and table.key is not None and self._decode_key is not None:
            decode = self._decode_key
            self._decode_key = stacks.resolving(decode, TupleType(table.key.parts))
            self._settled = self._decode_key is not decode
        self._taken: dict[Raw, E] = {}
        self._in_handler = False
        self._reading: dict[Raw, E] | None = None
        self._by_key: tuple[dict[Raw, E], dict[Key, list[Raw]]] | None = None
        """A reading, and the elements of each key in it."""

    def begin_handler(self) -> None:
        """Begins a handler: up to `end_handler` the map is read once."""
        self._in_handler = True

    def end_handler(self) -> None:
        """The next handler reads anew."""
        self._in_handler = False
        self._reading = self._by_key = None
        if self._history is not None:
            self._history.marks.wanted = None

    def hits(self) -> int:
        """See `Contents.hits`."""
        return self._contents.hits()

    # --- reading ---

    def items(self) -> dict[Key, MapValue]:
        """The map, in the forms of `results.values`, without what user space adds; `UNSET` in a min or max map is what
        zero() left.
        """
        element, view = self._element, self._view()
        values: dict[Key, Any] = {}
        marks = None if self._history is None else self._history.marks
        zeros = [] if marks is None else marks.zero_keys()
        for raw, now in view.items():
            rest = element.since(now, self._taken.get(raw))
            if rest is None:
                continue
            key, bucket = self._place(raw)
            if marks is not None and marks.is_zero(raw):
                zeros.append(key)
            else:
                holder: dict[Any, Any] = values.setdefault(key, {}) if self.table.buckets > 1 else values
                place = bucket if self.table.buckets > 1 else key
                held = holder.get(place)
                holder[place] = rest if held is None else element.joined(held, rest)
        for holder in values.values() if self.table.buckets > 1 else [values]:
            for place, rest in holder.items():
                holder[place] = element.value(rest)
        for key in zeros:
            values.setdefault(key, self._zero)
        return values

    def _view(self) -> dict[Raw, E]:
        """The reading of this handler, or a new one."""
        if self._reading is not None:
            return self._reading
        view = self._present()
        if self._in_handler:
            self._reading = view
        return view

    def _elements(self, key: Key) -> Sequence[Raw]:
        """The elements of a key in the view: several with generations, buckets, or numbers that stand for the same."""
        view = self._view()
        if self._by_key is None or self._by_key[0] is not view:
            self._by_key = view, {}
            for raw in view:
                self._by_key[1].setdefault(self._place(raw)[0], []).append(raw)
        return self._by_key[1].get(key, ())

    def _present(self) -> dict[Raw, E]:
        """The elements now, or at the mark that a print wants. Gives back those of old generations that nothing changes
        any more.
        """
        history = self._history
        if history is None:
            elements = self._read()
            self._reclaim(elements)
            return elements
        marks = history.marks
        marks.begin()
        if marks.wanted is not None:
            return history.elements_at(marks.wanted)
        elements = history.present()
        self._reclaim(elements)
        return {raw: element for raw, element in elements.items() if marks.shows(raw)}

    def _read(self) -> dict[Raw, E]:
        """The kernel's elements."""
        read = self._element.read
        elements = ((raw, read(data)) for raw, data in self._contents.all())
        return {raw: element for raw, element in elements if element is not None}

    def _reclaim(self, elements: dict[Raw, E]) -> None:
        """Deletes what has settled in old generations, and takes it out of `found`."""
        if self._generations is None or not (current := self._generations.current()):
            return
        for raw, element in list(elements.items()):
            generation = generation_of(raw)
            if generation == current:
                continue
            if element != self._taken.get(raw):
                self._changed_late(raw, element, elements)
            elif self._generations.has_settled(generation):
                self._contents.delete(raw)
                self._forget(raw)
                del elements[raw]

    def _changed_late(self, raw: Raw, element: E, elements: dict[Raw, E]) -> None:
        """An element of an old generation has changed since it was read: it stays, and the next clear takes it."""

    def _forget(self, raw: Raw) -> None:
        """An element has been deleted."""
        self._taken.pop(raw, None)
        if self._history is not None:
            self._history.forget(raw)

    def _place(self, raw: Raw) -> tuple[Key, int]:
        """The key of the program, and the bucket."""
        table = self.table
        if self._decode_key is not None:
            return self._decode_key(raw[1]), struct.unpack_from("=I", raw[1], 4)[0] if table.buckets > 1 else 0
        assert table.grid is not None
        place, bucket = divmod(struct.unpack("=I", raw[1])[0], table.buckets)
        return table.grid.key(place), bucket

    def go_on(self, table: Table) -> None:
        """Takes the place of the table, from which it differs in the keys of an array alone."""
        self.table = self._contents.table = table

    # --- what probes reset ---

    def look_back(self, mark: int | None) -> None:
        """Until the handler ends, or is said again: the map as it was at a mark of the kernel (None: as it is)."""
        assert self._history is not None
        self._history.marks.wanted = None if mark is None else in_order(mark)
        self._reading = None

    def note_reset(self, before: int, cleared: bool) -> None:
        """A probe has cleared (else zeroed) the map, whose mark had been `before`."""
        assert self._history is not None
        self._history.note(in_order(before), cleared)

    def tidy(self) -> None:
        """Gives back what probes have reset, as far as it has settled."""
        history = self._history
        if history is None or (settled := history.marks.settled()) is None:
            return
        zeroed = history.marks.zeroed
        gone = history.settle(settled)
        for raw in gone:
            self._taken.pop(raw, None)
            zeroed[self._place(raw)[0]] = clears(mark_of(raw))
        self._contents.delete_many(gone)
        history.marks.zeroed = {key: mark for key, mark in zeroed.items() if mark >= clears(settled.cleared)}

    # --- clearing ---

    def clear(self) -> None:
        """Removes the values that this handler has read."""
        view = self._view()
        if self._history is not None:
            self._history.marks.zeroed.clear()
        self._take(view)
        if self._generations is not None:
            self._generations.end()
        if self.table.length is not None:
            self._control.empty(self.table.length)
        if self._in_handler:
            # The reading stays, and everything in it is taken: the map is empty until the handler ends.
            self._reading = {}

    def _take(self, view: dict[Raw, E]) -> None:
        """Takes the values in `view` out of what counts from now on."""
        self._taken.update(view)


class AddedMap(KernelMap[Any]):
    """A map that probes add to."""

    def delete(self, key: Key) -> None:
        """Takes away one key. Where probes read the map too it must really go; so must an extreme, but for one in an
        array: that is deleted at the end alone, when nothing is added any more.
        """
        view = self._view()
        extreme = not self.table.cell.subtracts and self.table.grid is None
        gone = False
        if self._history is not None:
            self._history.marks.zeroed.pop(key, None)
        for raw in [raw for raw in self._elements(key) if raw in view]:
            if extreme or not self.table.per_cpu:
                gone = self._contents.delete(raw) or gone
                self._forget(raw)
                del view[raw]
            else:
                self._taken[raw] = view[raw]
        if gone and self.table.length is not None:
            self._control.give(self.table.length, -1)


class ScalarMap(KernelMap[bytes]):
    """A map of values that are assigned. `loss.keys` counts those that found it full."""

    def __init__(
        self, contents: Contents, control: Control, marks: Marks | None, loss: Loss, stacks: Stacks | None = None
    ) -> None:
        super().__init__(contents, control, marks, stacks)
        self._loss = loss

    def set(self, key: Key, value: Value) -> None:
        """Assigns."""
        raw, data = self._raw(key), encode(self.table.decl.value, value)
        self._write(raw, data)
        if self._reading is not None:
            self._reading[raw] = data

    def add(self, key: Key, delta: int) -> None:
        """Adds to an integer. A probe's addition in the microsecond between our reading and writing would be lost."""
        before = self._contents.get(self._raw(key))
        number = 0 if before is None else self._element.value(before)
        assert isinstance(number, int)
        kind = self.table.decl.value
        self.set(key, wrap(kind, number + delta) if isinstance(kind, IntType) else number + delta)

    def delete(self, key: Key) -> None:
        """Removes a key."""
        raws = [*self._elements(key)] if self._settled else []
        raws = raws or [self._raw(key)]
        if self._history is not None:
            self._history.marks.zeroed.pop(key, None)
            raws += [raw for raw in self._present() if raw not in raws and self._place(raw)[0] == key]
        for raw in raws:
            if self._contents.delete(raw) and self.table.length is not None:
                self._control.give(self.table.length, -1)
            if self._reading is not None:
                self._reading.pop(raw, None)

    def clear(self) -> None:
        """Removes what this handler's reading has seen."""
        super().clear()
        if self._generations is not None:
            self._reclaim(self._read())

    def _take(self, view: dict[Raw, bytes]) -> None:
        if self._generations is not None:
            super()._take(view)
        else:
            for raw in view:
                self._contents.delete(raw)

    def _present(self) -> dict[Raw, bytes]:
        elements = super()._present()
        if self._generations is None or (self._history is not None and self._history.marks.wanted is not None):
            return elements
        current = self._generations.current()
        return {raw: value for raw, value in elements.items() if generation_of(raw) == current}

    def _changed_late(self, raw: Raw, element: bytes, elements: dict[Raw, bytes]) -> None:
        if self._generations is None or (self._history is not None and not self._history.marks.shows(raw)):
            return
        self._taken[raw] = element
        moved = moved_to(raw, self._generations.current())
        if self._write(moved, element, only_new=True):
            elements[moved] = element

    def _raw(self, key: Key) -> Raw:
        if self._settled and (raws := self._elements(key)):
            return raws[-1]  # the one whose value is shown, where there are several
        layout = self.table.key
        assert layout is not None
        generation = 0 if self._generations is None else self._generations.current()
        mark = 0 if self._history is None else in_order(self._history.marks.now())
        encoded = layout.encode(key, generation, mark=mark)
        return layout.sizes.index(len(encoded)), encoded

    def _write(self, raw: Raw, data: bytes, only_new: bool = False) -> bool:
        """Writes an element, or counts that there is no room; whether it was written."""
        try:
            try:
                self._contents.put(raw, data, bpf.UPDATE_NEW)
            except FileExistsError:
                if not only_new:
                    self._contents.put(raw, data)
                return not only_new
        except OSError as error:
            if error.errno not in (errno.E2BIG, errno.ENOMEM):
                raise
            self._loss.found_full(self.table.decl.name)
            return False
        if self.table.length is not None:
            self._control.give(self.table.length, 1)
        return True
