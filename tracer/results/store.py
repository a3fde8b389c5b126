"""Maps in Python dictionaries: the store of ftrace, of programs that trace nothing, and of what user space adds on BCC.

Inside, values have a form that is quick to update, and the Python of clauses updates it in place
(`LocalMaps.table`); `get` and `snapshot` give them the form of `results.values`.

| kind | inside |
|---|---|
| scalar | the value |
| count, sum | int, not wrapped: sums wrap when they are read |
| min, max | int, or `UNSET` after `zero` |
| avg, stats | list of hits and total, not wrapped |
| hist, lhist | dict from bucket number to count |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.lang.aggregations.aggregation import UNSET as UNSET, is_signed as is_signed
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.fixed_width import wrap_int
from tracer.lang.typed import MapDecl, Program
from tracer.lang.types import (
    BoolType,
    IntType,
    Stack,
    StackType,
    StringType,
    Symbol,
    SymbolType,
    TupleType,
    Type,
    Value,
    is_block,
    memory_size,
)
from tracer.results.events import Loss
from tracer.results.values import Key, MapSnapshot, MapValue

Table = dict[Key, Any]


class LocalMaps:
    """A `MapStore` in this process. `loss.keys` counts the updates that found their map full."""

    def __init__(self, program: Program, loss: Loss | None = None) -> None:
        self.loss = Loss() if loss is None else loss
        self.most = program.most_keys
        self._decls = program.maps
        self._tables: dict[str, Table] = {name: {} for name in program.maps}

    def table(self, name: str) -> Table:
        """The live dictionary of a map, in the inner form; it is the same object as long as the store lives."""
        return self._tables[name]

    def inserter(self, name: str) -> Callable[[Key, Any], None]:
        """A function that adds a key that is not there yet, or counts it as lost where the map is full."""
        table, loss, limit = self._tables[name], self.loss, self.most(name)
        if self._decls[name].forgets:

            def replace(key: Key, value: Any) -> None:
                if len(table) >= limit:
                    del table[next(iter(table))]
                table[key] = value

            return replace

        def insert(key: Key, value: Any) -> None:
            if len(table) < limit:
                table[key] = value
            else:
                loss.found_full(name)

        return insert

    def receive(self, begun: LocalMaps) -> None:
        """Takes what another store holds, which is not written any more. This one is empty."""
        for name, table in begun._tables.items():
            self._tables[name].update(table)

    def get(self, name: str, key: Key) -> MapValue | None:
        inner = self._tables[name].get(key)
        return None if inner is None else _outer(self._decls[name], inner)

    def snapshot(self, name: str) -> MapSnapshot:
        """The whole map, copied."""
        decl = self._decls[name]
        return MapSnapshot(decl, {key: _outer(decl, inner) for key, inner in self._tables[name].items()})

    def partial(self, name: str) -> Table:
        """A copy of the map for `results.merge`: as `snapshot`, but `UNSET` stays where min and max have no value."""
        decl = self._decls[name]
        return {
            key: UNSET if inner is UNSET else _outer(decl, inner) for key, inner in self._tables[name].items()
        }

    def set(self, name: str, key: Key, value: Value) -> None:
        table = self._tables[name]
        self._renew(name, key)
        if key in table:
            table[key] = value
        else:
            self.inserter(name)(key, value)

    def add(self, name: str, key: Key, delta: int) -> None:
        """Adds to a scalar integer; wraps at its width."""
        table = self._tables[name]
        type = self._decls[name].value
        total = table.get(key, 0) + delta
        self.set(name, key, wrap_int(total, type.bits, type.signed) if isinstance(type, IntType) else total)

    def aggregate(self, name: str, key: Key, function: str, value: int, when: int = 0) -> None:
        """One more value for an aggregation; `when` is the moment of one of a series."""
        decl, table = self._decls[name], self._tables[name]
        inner = table.get(key)
        self._renew(name, key)
        aggregation, sample = AGGREGATIONS[function], wrap_int(value, 64, is_signed(decl))
        updated = aggregation.update(decl, inner, (when, sample) if aggregation.kept.in_user_space else sample)
        if inner is None:
            self.inserter(name)(key, updated)
        else:
            table[key] = updated

    def _renew(self, name: str, key: Key) -> None:
        """Moves the key, in a map that forgets, behind all others in the order of their writing."""
        if self._decls[name].forgets and key in self._tables[name]:
            table = self._tables[name]
            table[key] = table.pop(key)

    def delete(self, name: str, key: Key) -> None:
        self._tables[name].pop(key, None)

    def clear(self, name: str) -> None:
        self._tables[name].clear()

    def zero(self, name: str) -> None:
        table = self._tables[name]
        decl = self._decls[name]
        for key in table:
            table[key] = _zero(decl)

    def begin_handler(self) -> None:
        """Nothing else writes this store while a handler runs."""

    def end_handler(self) -> None:
        """See `begin_handler`."""


def empty_value(type: Type) -> Any:
    """The value of a missing key or an unset variable of a type."""
    if isinstance(type, StringType):
        return b""
    if isinstance(type, BoolType):
        return False
    if isinstance(type, TupleType):
        return tuple(empty_value(item) for item in type.items)
    if isinstance(type, StackType):
        return Stack(0, ())
    if isinstance(type, SymbolType):
        return Symbol(0, 0)
    if is_block(type):
        return bytes(memory_size(type))
    return 0


def nothing(decl: MapDecl) -> MapValue:
    """The value of a key that holds none yet, or none since `zero`."""
    return _outer(decl, _zero(decl))


def zeroed(decl: MapDecl) -> Any:
    """The value of a key after `zero`, for `results.merge`: `UNSET` where the next value of any size replaces it."""
    return UNSET if _zero(decl) is UNSET else nothing(decl)


def _zero(decl: MapDecl) -> Any:
    return empty_value(decl.value) if decl.kind == "scalar" else AGGREGATIONS[decl.kind].zero()


def _outer(decl: MapDecl, inner: Any) -> MapValue:
    outer: MapValue = inner if decl.kind == "scalar" else AGGREGATIONS[decl.kind].outer(decl, inner)
    return outer
