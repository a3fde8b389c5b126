"""The session's maps: what the kernel holds together with what BEGIN, END and interval added in user space.

Inside a handler each map is read once, at its first use; `clear` and `zero` then take away exactly that reading
(`counting`, `scalars`). Maps that no probe touches are dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tracer.backends.bcc.control import Control
from tracer.backends.bcc.counting import CountingMap
from tracer.backends.bcc.layout import wrap
from tracer.backends.bcc.scalars import ScalarMap
from tracer.backends.bcc.tabledata import Number, Raw, TableData
from tracer.backends.bcc.tables import Shape, Table
from tracer.lang.typed import AggregateName, Program
from tracer.lang.types import Value
from tracer.results.events import Loss
from tracer.results.merge import merge
from tracer.results.store import LocalMaps
from tracer.results.values import Key, MapSnapshot, MapValue

_T = TypeVar("_T")


class KernelMaps:
    """A `MapStore` over a session's tables. `descriptors` maps a table's map numbers to descriptors."""

    def __init__(
        self, program: Program, tables: dict[str, Table], descriptors: dict[int, int], control: Control, cpus: int
    ) -> None:
        self.loss = Loss()
        self._decls = program.maps
        self._local = LocalMaps(program, self.loss)
        self._counting: dict[str, CountingMap] = {}
        self._scalars: dict[str, ScalarMap] = {}
        for name, table in tables.items():
            long = None if table.long_number is None else descriptors[table.long_number]
            data = TableData(table, descriptors[table.number], long, cpus)
            if table.shape is Shape.VALUE:
                self._scalars[name] = ScalarMap(data, control, self.loss)
            else:
                self._counting[name] = CountingMap(data, control, self._local)
        self._in_handler = False
        self._numbers: dict[str, dict[Raw, Number]] = {}
        self._values: dict[str, dict[Raw, bytes]] = {}

    def begin_handler(self) -> None:
        """From here to `end_handler` each map is read at one moment."""
        self._in_handler = True

    def end_handler(self) -> None:
        """The next handler reads anew."""
        self._in_handler = False
        self._numbers.clear()
        self._values.clear()

    def get(self, name: str, key: Key) -> MapValue | None:
        """The value of a key, or None where there is none."""
        if name in self._counting or name in self._scalars:
            return self._items(name).get(key)
        return self._local.get(name, key)

    def snapshot(self, name: str) -> MapSnapshot:
        """The whole map."""
        if name in self._counting or name in self._scalars:
            return MapSnapshot(self._decls[name], self._items(name))
        return self._local.snapshot(name)

    def set(self, name: str, key: Key, value: Value) -> None:
        """Assigns a scalar."""
        if name in self._scalars:
            raw, data = self._scalars[name].set(key, value)
            if name in self._values:
                self._values[name][raw] = data
            return
        if name in self._counting:
            # Probes only add to it: what they added so far gives way to the value, which user space keeps.
            self._counting[name].delete(key, self._view(name))
        self._local.set(name, key, value)

    def add(self, name: str, key: Key, delta: int) -> None:
        """Adds to a scalar integer."""
        if name not in self._scalars:
            self._local.add(name, key, delta)
            return
        raw, data = self._scalars[name].add(key, delta)
        if name in self._values:
            self._values[name][raw] = data

    def aggregate(self, name: str, key: Key, function: AggregateName, value: int) -> None:
        """One more value for an aggregation: in user space's part, which reading merges."""
        self._local.aggregate(name, key, function, value)

    def delete(self, name: str, key: Key) -> None:
        """Removes a key."""
        if name in self._scalars:
            raw = self._scalars[name].delete(key)
            if name in self._values:
                self._values[name].pop(raw, None)
            return
        if name in self._counting:
            self._counting[name].delete(key, self._view(name))
        self._local.delete(name, key)

    def clear(self, name: str) -> None:
        """Removes all keys."""
        if name in self._scalars:
            self._scalars[name].clear(self._scalar_view(name))
            if self._in_handler:
                self._values[name] = {}
        elif name in self._counting:
            self._counting[name].clear(self._view(name))
            if self._in_handler:
                # The reading stays, and everything in it is taken: the map is empty until the handler ends.
                self._numbers[name] = {}
        self._local.clear(name)

    def zero(self, name: str) -> None:
        """Sets all values to 0, and keeps the keys."""
        keys = list(self.snapshot(name).items)
        if name in self._scalars:
            self.clear(name)
            for key in keys:
                self.set(name, key, self._scalars[name].empty())
            return
        if name in self._counting:
            self.clear(name)
            decl = self._decls[name]
            for key in keys:
                if decl.kind == "scalar":
                    self._local.set(name, key, 0)
                else:
                    self._local.aggregate(name, key, decl.kind, 0)
        self._local.zero(name)

    # --- readings ---

    def _items(self, name: str) -> dict[Key, MapValue]:
        if name in self._scalars:
            return self._scalars[name].values(self._scalar_view(name))
        counted = self._counting[name].values(self._view(name))
        decl = self._decls[name]
        own = self._local.partial(name)
        if decl.kind != "scalar":
            return merge(decl, [counted, own])
        for key, value in own.items():
            before = counted.get(key, 0)
            assert isinstance(before, int)
            counted[key] = before + value
        return {key: wrap(decl.value, value) for key, value in counted.items() if isinstance(value, int)}

    def _view(self, name: str) -> dict[Raw, Number]:
        return _once(self._numbers, name, self._counting[name].read, self._in_handler)

    def _scalar_view(self, name: str) -> dict[Raw, bytes]:
        return _once(self._values, name, self._scalars[name].read, self._in_handler)


def _once(views: dict[str, _T], name: str, read: Callable[[], _T], keep: bool) -> _T:
    """The reading of this handler, or a new one."""
    found = views.get(name)
    if found is None:
        found = read()
        if keep:
            views[name] = found
    return found
