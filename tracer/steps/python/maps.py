"""Reading and updating maps from the Python of a clause.

Where the store is `LocalMaps` its dictionaries are updated in place by inlined code; any other store is called through
functions bound to one map. Both take the key as a Python expression that may be written twice.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.lang.aggregations.aggregation import MEAN
from tracer.lang.aggregations.registry import buckets_of, kept_of
from tracer.lang.fixed_width import quotient
from tracer.lang.typed import MapDecl, Program
from tracer.lang.types import INT64, UINT64, IntType, Type, Value as HeldValue
from tracer.results.store import LocalMaps, Table, empty_value, is_signed
from tracer.results.values import Average, Key, MapStore
from tracer.steps.arithmetic import UNBOUNDED, limits
from tracer.steps.python.value_source import PythonValues
from tracer.steps.values import Value


class PythonMaps:
    """Writes the operations on maps of one clause."""

    def __init__(self, program: Program, maps: MapStore, values: PythonValues) -> None:
        self.decls = program.maps
        self.maps = maps
        self.values = values
        self.writer = values.writer
        self.local = maps if isinstance(maps, LocalMaps) else None
        self._bound: dict[tuple[str, str], str] = {}

    def read(self, name: str, key: str, type: Type) -> str:
        """The value of a key in a type, the type's empty value where there is none; averages as such."""
        decl = self.decls[name]
        low, high = limits(decl.value if decl.kind == "scalar" else _width_of(decl))
        if self.local is None:
            text = f"{self._once('read', name, lambda: reader(self.maps, decl))}({key})"
        elif kept_of(decl) is MEAN:
            text = f"{self._once('average', name, lambda: average_reader(self._table(name), is_signed(decl)))}({key})"
        else:
            text = f"{self._dict(name)}.get({key}, {self._empty(decl)})"
            if kept_of(decl).wraps:
                text = self.values.wrapped(text, *UNBOUNDED, _width_of(decl))
        return self.values.wrapped(text, low, high, type) if isinstance(type, IntType) else text

    def has(self, name: str, key: str) -> str:
        """Whether a key is there: bool."""
        if self.local is None:
            return f"{self._once('get', name, lambda: _getter(self.maps, name))}({key}) is not None"
        return f"{key} in {self._dict(name)}"

    def length(self, name: str) -> str:
        """The text of the number of keys."""
        if self.local is None:
            return f"{self._once('length', name, lambda: _counter(self.maps, name))}()"
        return f"len({self._dict(name)})"

    def entries(self, name: str) -> str:
        """An expression for the list of (key, value) of the whole map in the order of the keys.

        A key of one part stands without its tuple.
        """
        return f"{self._once('entries', name, lambda: _lister(self.maps, self.decls[name]))}()"

    def assign(self, name: str, key: str, value: str) -> None:
        """Sets a scalar."""
        if self._by_store(name):
            self.writer.line(f"{self._once('set', name, lambda: _setter(self.maps, name))}({key}, {value})")
        elif not self.decls[name].key:
            self.writer.line(f"{self._dict(name)}[{key}] = {value}")
        else:
            table = self._dict(name)
            with self.writer.block(f"if {key} in {table}:"):
                self.writer.line(f"{table}[{key}] = {value}")
            with self.writer.block("else:"):
                self.writer.line(f"{self._insert(name)}({key}, {value})")

    def add(self, name: str, key: str, value: Value, before: str | None) -> None:
        """Adds to a scalar integer; `before` is the variable that takes what it was."""
        type = self.decls[name].value
        assert isinstance(type, IntType)
        delta = self.values.text(value)
        old = before or self.writer.temporary()
        if self._by_store(name):
            if before is not None:
                self.writer.line(f"{old} = {self.read(name, key, type)}")
            self.writer.line(f"{self._once('add', name, lambda: _adder(self.maps, name))}({key}, {delta})")
            return
        table, total = self._dict(name), self.values.wrapped(f"({old} + {delta})", *UNBOUNDED, type)
        self.writer.line(f"{old} = {table}.get({key})")
        with self.writer.block(f"if {old} is None:"):
            self.writer.line(f"{old} = 0")
            self.writer.line(f"{self._insert(name)}({key}, {total})")
        with self.writer.block("else:"):
            self.writer.line(f"{table}[{key}] = {total}")

    def delete(self, name: str, key: str) -> None:
        """Removes a key."""
        if self.local is None:
            self.writer.line(f"{self._once('delete', name, lambda: _deleter(self.maps, name))}({key})")
        else:
            self.writer.line(f"{self._dict(name)}.pop({key}, None)")

    def aggregate(self, name: str, key: str, sample: Value | None) -> None:
        """Writes the lines that add a value to an aggregation."""
        line, block, decl = self.writer.line, self.writer.block, self.decls[name]
        kept = kept_of(decl)
        if self._by_store(name) or not kept.first:
            bound = self._once("aggregate", name, lambda: _aggregator(self.maps, decl))
            line(f"{bound}({key}, {'0' if sample is None else self.values.text(sample)})")
            return
        table, insert = self._dict(name), self._insert(name)
        if sample is None:
            text = "1"
        elif buckets_of(decl) is not None:
            text = self._bucket(decl, self._kept(self.values.as_integer(sample, INT64)))
        else:
            text = self.values.as_integer(sample, _width_of(decl))
        if kept.quick:
            held = ""
            with block("try:"):
                line(kept.more[0].format(table=table, key=key, value=text))
            otherwise = "except KeyError:"
        else:
            text, held = self._kept(text), self.writer.temporary()
            line(f"{held} = {table}.get({key})")
            otherwise = f"if {held} is None:"
        with block(otherwise):
            line(f"{insert}({key}, {kept.first.format(value=text)})")
        if held:
            with block("else:"):
                for statement in kept.more:
                    line(statement.format(table=table, key=key, held=held, value=text))

    def sample(self, name: str, key: str, when: Value, value: Value) -> None:
        """Writes the line that adds a value to a series."""
        bound = self._once("sample", name, lambda: _sampler(self.maps, self.decls[name]))
        self.writer.line(f"{bound}({key}, {self.values.text(value)}, {self.values.text(when)})")

    def _by_store(self, name: str) -> bool:
        """Whether the store itself writes the map: that of another place, or where the order of writing matters."""
        return self.local is None or self.decls[name].forgets

    def _kept(self, text: str) -> str:
        if text.isidentifier() or text.isdigit():
            return text
        name = self.writer.temporary()
        self.writer.line(f"{name} = {text}")
        return name

    def _bucket(self, decl: MapDecl, text: str) -> str:
        buckets = buckets_of(decl)
        assert buckets is not None
        parameters = buckets.of(decl)
        text_of_bucket = buckets.text(text, *parameters)
        arguments = ", ".join((text, *map(str, parameters)))
        return text_of_bucket or f"{self.writer.bind(buckets.number, buckets.function)}({arguments})"

    def _empty(self, decl: MapDecl) -> str:
        empty = empty_value(decl.value) if decl.kind == "scalar" else 0
        return "0" if empty == 0 and not isinstance(empty, bool) else self.writer.bind(empty, "empty")

    def _table(self, name: str) -> Table:
        assert self.local is not None
        return self.local.table(name)

    def _dict(self, name: str) -> str:
        return self._once("map", name, lambda: self._table(name))

    def _insert(self, name: str) -> str:
        def inserter() -> object:
            assert self.local is not None
            return self.local.inserter(name)

        return self._once("insert", name, inserter)

    def _once(self, what: str, name: str, make: Callable[[], object]) -> str:
        bound = self._bound.get((what, name))
        if bound is None:
            bound = self._bound[what, name] = self.writer.bind(make(), what)
        return bound


def _width_of(decl: MapDecl) -> IntType:
    """The type in which an aggregation keeps its values."""
    return INT64 if is_signed(decl) else UINT64


def reader(maps: MapStore, decl: MapDecl) -> Callable[[Key], object]:
    """A function from a key to what `@map[key]` is worth."""
    empty = empty_value(decl.value) if decl.kind == "scalar" else 0

    def read(key: Key) -> object:
        value = maps.get(decl.name, key)
        if value is None:
            return empty
        return value.mean if isinstance(value, Average) else value

    return read


def average_reader(table: Table, signed: bool) -> Callable[[Key], int]:
    """The reader of an avg or stats map's inner form in `LocalMaps`, as `reader` is for others."""
    sign = 1 << 63

    def read(key: Key) -> int:
        inner = table.get(key)
        if inner is None:
            return 0
        total = inner[1] & (2 * sign - 1)
        return quotient((total ^ sign) - sign if signed else total, inner[0])

    return read


def _getter(maps: MapStore, name: str) -> Callable[[Key], object]:
    return lambda key: maps.get(name, key)


def _setter(maps: MapStore, name: str) -> Callable[[Key, HeldValue], None]:
    return lambda key, value: maps.set(name, key, value)


def _adder(maps: MapStore, name: str) -> Callable[[Key, int], None]:
    return lambda key, delta: maps.add(name, key, delta)


def _deleter(maps: MapStore, name: str) -> Callable[[Key], None]:
    return lambda key: maps.delete(name, key)


def _counter(maps: MapStore, name: str) -> Callable[[], int]:
    return lambda: len(maps.snapshot(name).items)


def _aggregator(maps: MapStore, decl: MapDecl) -> Callable[[Key, int], None]:
    return lambda key, value: maps.aggregate(decl.name, key, decl.kind, value)


def _sampler(maps: MapStore, decl: MapDecl) -> Callable[[Key, int, int], None]:
    return lambda key, value, when: maps.aggregate(decl.name, key, decl.kind, value, when)


def _lister(maps: MapStore, decl: MapDecl) -> Callable[[], list[tuple[object, object]]]:
    def entries() -> list[tuple[object, object]]:
        items = sorted(maps.snapshot(decl.name).items.items(), key=lambda item: item[0])
        return [
            (key[0] if len(key) == 1 else key, value.mean if isinstance(value, Average) else value)
            for key, value in items
        ]

    return entries
