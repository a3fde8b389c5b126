"""The session's maps: what the kernel holds together with what BEGIN, END and interval added in user space.

Inside a handler each map is read once, at its first use; `clear` and `zero` then take away exactly that reading
(`counting`, `scalars`). Maps that no probe touches are dictionaries. What probes clear (`marks`) is cleared in user
space's part too, before it is used again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tracer.backends.bcc.control import Control
from tracer.backends.bcc.maps.counting import CountingMap
from tracer.backends.bcc.maps.layout import wrap
from tracer.backends.bcc.maps.marks import Past, clears, newer
from tracer.backends.bcc.maps.scalars import ScalarMap
from tracer.backends.bcc.maps.tabledata import Number, Raw, TableData
from tracer.backends.bcc.maps.tables import Shape, Table
from tracer.lang.typed import AggregateName, Program
from tracer.lang.types import Value
from tracer.results.events import Loss
from tracer.results.merge import merge
from tracer.results.store import LocalMaps
from tracer.results.values import Key, MapSnapshot, MapValue

_T = TypeVar("_T")


class KernelMaps:
    """A `MapStore` over a session's tables. `descriptors` maps a table's map numbers to descriptors, `marks` the maps
    that probes clear to their place in the control block.
    """

    def __init__(
        self,
        program: Program,
        tables: dict[str, Table],
        descriptors: dict[int, int],
        control: Control,
        cpus: int,
        marks: dict[str, int],
    ) -> None:
        self.loss = Loss()
        self._decls = program.maps
        self._local = LocalMaps(program, self.loss)
        self._counting: dict[str, CountingMap] = {}
        self._scalars: dict[str, ScalarMap] = {}
        self._past = {name: Past(control, index) for name, index in marks.items()}
        self._local_marks = dict.fromkeys(marks, 0)
        for name, table in tables.items():
            data = TableData(table, [descriptors[number] for number in table.numbers], cpus)
            if table.shape is Shape.VALUE:
                self._scalars[name] = ScalarMap(data, control, self.loss, self._past.get(name))
            else:
                self._counting[name] = CountingMap(data, control, self._past.get(name))
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
        for past in self._past.values():
            past.moment = None

    # --- what probes clear ---

    def look_back(self, name: str, mark: int | None) -> None:
        """Until the handler ends, or is said again: a map as it was at a mark (None: as it is)."""
        self._past[name].moment = mark
        self._numbers.pop(name, None)
        self._values.pop(name, None)

    def raised(self, name: str, before: int, cleared: bool) -> None:
        """A probe has cleared (else zeroed) a map; what it had before may go soon."""
        if name in self._counting:
            self._counting[name].raised(before, cleared)
        elif name in self._scalars:
            self._scalars[name].raised(before, cleared)

    def tidy(self) -> None:
        """Gives back what probes have cleared, as far as it has settled."""
        for name, past in self._past.items():
            if past.waits():
                table = self._counting.get(name) or self._scalars[name]
                table.tidy()

    def _catch_up(self, name: str) -> None:
        """Clears or zeroes user space's part where a probe has cleared or zeroed the map since."""
        past = self._past.get(name)
        if past is None:
            return
        mark = past.now() if past.moment is None else past.moment
        before = self._local_marks[name]
        if newer(mark, before):
            if clears(mark) != clears(before):
                self._local.clear(name)
            else:
                self._local.zero(name)
            self._local_marks[name] = mark

    # --- MapStore ---

    def get(self, name: str, key: Key) -> MapValue | None:
        """The value of a key, or None where there is none."""
        self._catch_up(name)
        if name in self._counting or name in self._scalars:
            return self._items(name).get(key)
        return self._local.get(name, key)

    def snapshot(self, name: str) -> MapSnapshot:
        """The whole map."""
        self._catch_up(name)
        if name in self._counting or name in self._scalars:
            return MapSnapshot(self._decls[name], self._items(name))
        return self._local.snapshot(name)

    def set(self, name: str, key: Key, value: Value) -> None:
        """Assigns a scalar."""
        self._catch_up(name)
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
        self._catch_up(name)
        if name not in self._scalars:
            self._local.add(name, key, delta)
            return
        raw, data = self._scalars[name].add(key, delta)
        if name in self._values:
            self._values[name][raw] = data

    def aggregate(self, name: str, key: Key, function: AggregateName, value: int) -> None:
        """One more value for an aggregation: in user space's part, which reading merges."""
        self._catch_up(name)
        self._local.aggregate(name, key, function, value)

    def delete(self, name: str, key: Key) -> None:
        """Removes a key."""
        self._catch_up(name)
        if name in self._scalars:
            for raw in self._scalars[name].delete(key):
                self._values.get(name, {}).pop(raw, None)
            return
        if name in self._counting:
            self._counting[name].delete(key, self._view(name))
        self._local.delete(name, key)

    def clear(self, name: str) -> None:
        """Removes all keys."""
        self._catch_up(name)
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
        view = self._view(name)
        counted = self._counting[name].values(view)
        zeros = self._counting[name].zeros(view)
        decl = self._decls[name]
        past = self._past.get(name)
        # A handler that ran between a probe's print and its handling has cleared user space's part already.
        own = {} if past is not None and newer(self._local_marks[name], past.at) else self._local.partial(name)
        if decl.kind != "scalar":
            return merge(decl, [counted, own, zeros])
        for key in zeros:
            counted.setdefault(key, 0)
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
