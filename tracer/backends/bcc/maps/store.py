"""The session's maps: what the kernel holds together with what BEGIN, END and interval add in user space.

Inside a handler each map is read once, at its first use; `clear` and `zero` then take away exactly that reading
(`kernel_map`). Maps that no probe touches are dictionaries, and so are series, which probes send their values. If
probes reset a map (`marks`), user space's part of it is reset too before it is used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tracer.backends.bcc.maps.contents import Contents
from tracer.backends.bcc.maps.control import Control
from tracer.backends.bcc.maps.element_bytes import wrap
from tracer.backends.bcc.maps.kernel_map import AddedMap, ScalarMap
from tracer.backends.bcc.maps.resets import Marks, clears
from tracer.backends.bcc.maps.tables import Table
from tracer.lang.aggregations.aggregation import VALUE
from tracer.lang.aggregations.registry import kept_of
from tracer.lang.typed import Program
from tracer.lang.types import Value
from tracer.results.events import Loss
from tracer.results.merge import merge
from tracer.results.store import LocalMaps
from tracer.results.values import Key, MapSnapshot, MapValue

if TYPE_CHECKING:
    from tracer.backends.bcc.maps.stacks import Stacks

_KEPT = 64
"""How many clears of a series are remembered for their prints: more than the number of probes that run at one time."""


class KernelMaps:
    """A `MapStore` over a session's tables. `descriptors` maps a table's map numbers to descriptors, `marks` the maps
    that probes reset to their place in the control block.
    """

    def __init__(
        self,
        program: Program,
        tables: Mapping[str, Table],
        descriptors: Mapping[int, int],
        control: Control,
        cpus: int,
        marks: Mapping[str, int],
        stacks: Stacks | None = None,
    ) -> None:
        self.loss = Loss()
        self._decls = program.maps
        self._local = LocalMaps(program, self.loss)
        self._series = {name for name, decl in program.maps.items() if kept_of(decl).in_user_space}
        self._looked_back: dict[str, int] = {}
        self._before: dict[str, dict[int, MapSnapshot]] = {name: {} for name in self._series & marks.keys()}
        self._marks = {name: Marks(control, index) for name, index in marks.items() if name not in self._series}
        self._local_marks = dict.fromkeys(self._marks, 0)
        self._kernel: dict[str, AddedMap | ScalarMap] = {}
        for name, table in tables.items():
            contents = Contents(table, [descriptors[number] for number in table.numbers], cpus)
            own_marks = self._marks.get(name)
            self._kernel[name] = (
                ScalarMap(contents, control, own_marks, self.loss, stacks)
                if table.cell is VALUE
                else AddedMap(contents, control, own_marks, stacks)
            )

    def go_on(self, tables: Mapping[str, Table]) -> None:
        """More sites use these maps: what is in an array may have keys of theirs."""
        for name, kernel in self._kernel.items():
            kernel.go_on(tables[name])

    def begin_handler(self) -> None:
        for kernel in self._kernel.values():
            kernel.begin_handler()

    def end_handler(self) -> None:
        """The next handler reads anew."""
        for kernel in self._kernel.values():
            kernel.end_handler()
        self._looked_back.clear()

    def hits(self, table: Table) -> int:
        """The number of times that probes have added to an array, whatever user space has cleared since."""
        return self._kernel[table.decl.name].hits()

    def receive(self, begun: LocalMaps) -> None:
        """Takes what BEGIN has put into the maps, before anything is attached. Values that probes assign go to the
        kernel; to what probes add user space's part is added on reading.
        """
        self._local.receive(begun)
        for name, kernel in self._kernel.items():
            if isinstance(kernel, ScalarMap):
                values = self._local.table(name)
                for key, value in values.items():
                    kernel.set(key, value)
                values.clear()

    # --- what probes reset ---

    def look_back(self, name: str, mark: int | None) -> None:
        """Until the handler ends, or is said again: a map as it was at a mark (None: as it is)."""
        if name in self._kernel:
            self._kernel[name].look_back(mark)
        elif name in self._before:
            self._looked_back[name] = -1 if mark is None else mark

    def note_reset(self, name: str, before: int, cleared: bool) -> None:
        """A probe has cleared (else zeroed) a map; what it had before may go soon. A series is emptied here."""
        if name in self._kernel:
            self._kernel[name].note_reset(before, cleared)
        elif name in self._before:
            kept = self._before[name]
            kept[before] = self._local.snapshot(name)
            if len(kept) > _KEPT:
                del kept[next(iter(kept))]
            (self._local.clear if cleared else self._local.zero)(name)

    def sample(self, name: str, key: Key, when: int, value: int) -> None:
        """A value from a probe for a series."""
        self._local.aggregate(name, key, self._decls[name].kind, value, when)

    def tidy(self) -> None:
        """Gives back what probes have reset, as far as it has settled."""
        for name in self._marks:
            if name in self._kernel:
                self._kernel[name].tidy()

    def _catch_up(self, name: str) -> None:
        """Resets user space's part where a probe has reset the map since."""
        marks = self._marks.get(name)
        if marks is None:
            return
        mark = marks.now() if marks.wanted is None else marks.wanted
        before = self._local_marks[name]
        if mark > before:
            if clears(mark) != clears(before):
                self._local.clear(name)
            else:
                self._local.zero(name)
            self._local_marks[name] = mark

    # --- MapStore ---

    def get(self, name: str, key: Key) -> MapValue | None:
        self._catch_up(name)
        return self._items(name).get(key) if name in self._kernel else self._local.get(name, key)

    def snapshot(self, name: str) -> MapSnapshot:
        self._catch_up(name)
        if name in self._looked_back and (before := self._before[name].get(self._looked_back[name])) is not None:
            return before
        return MapSnapshot(self._decls[name], self._items(name)) if name in self._kernel else self._local.snapshot(name)

    def set(self, name: str, key: Key, value: Value) -> None:
        """Assigns a scalar. Where probes only add to it, what they have added so far gives way to the value, which user
        space keeps.
        """
        self._catch_up(name)
        kernel = self._kernel.get(name)
        if isinstance(kernel, ScalarMap):
            kernel.set(key, value)
            return
        if kernel is not None:
            kernel.delete(key)
        self._local.set(name, key, value)

    def add(self, name: str, key: Key, delta: int) -> None:
        """Adds to a scalar integer."""
        self._catch_up(name)
        kernel = self._kernel.get(name)
        if isinstance(kernel, ScalarMap):
            kernel.add(key, delta)
        else:
            self._local.add(name, key, delta)

    def aggregate(self, name: str, key: Key, function: str, value: int, when: int = 0) -> None:
        """Adds a value to an aggregation, in user space's part, which reading merges."""
        self._catch_up(name)
        self._local.aggregate(name, key, function, value, when)

    def delete(self, name: str, key: Key) -> None:
        """Removes a key."""
        self._catch_up(name)
        if name in self._kernel:
            self._kernel[name].delete(key)
        self._local.delete(name, key)

    def clear(self, name: str) -> None:
        self._catch_up(name)
        if name in self._kernel:
            self._kernel[name].clear()
        self._local.clear(name)

    def zero(self, name: str) -> None:
        if name not in self._kernel:
            self._catch_up(name)
            self._local.zero(name)
            return
        keys = list(self.snapshot(name).items)
        self.clear(name)
        kind = self._decls[name].kind
        for key in keys:
            if kind == "scalar":
                self.set(name, key, 0)
            else:
                self._local.aggregate(name, key, kind, 0)
        self._local.zero(name)

    def _items(self, name: str) -> dict[Key, MapValue]:
        kernel = self._kernel[name]
        items = kernel.items()
        if isinstance(kernel, ScalarMap):
            return items
        decl, marks = self._decls[name], self._marks.get(name)
        # A handler that ran between a probe's print and its handling has reset user space's part already.
        local = {} if marks is not None and self._local_marks[name] > marks.read_mark else self._local.partial(name)
        if decl.kind != "scalar":
            return merge(decl, [items, local])
        numbers = {key: value for part in (items, local) for key, value in part.items()}
        return {key: wrap(decl.value, _int(items.get(key, 0)) + _int(local.get(key, 0))) for key in numbers}


def _int(value: MapValue) -> int:
    assert isinstance(value, int)
    return value
