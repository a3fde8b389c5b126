"""Reading and updating maps from a compiled clause.

Where the store is `LocalMaps` its dictionaries are updated in place by inlined code; any other store is called through
functions bound to one map. Both take the key as a Python expression.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.interp.arithmetic import bounds, of_any_size, wrapped
from tracer.interp.source import Code, Writer
from tracer.lang.typed import AggregateName, MapDecl, Program
from tracer.lang.types import INT64, UINT64, IntType, Value
from tracer.results.buckets import linear_count, log2_bucket
from tracer.results.integers import quotient
from tracer.results.store import LocalMaps, Table, empty_value, is_signed
from tracer.results.values import Average, Key, MapStore


class MapCode:
    """Writes the operations on maps of one clause."""

    def __init__(self, program: Program, maps: MapStore, writer: Writer) -> None:
        self.decls = program.maps
        self.maps = maps
        self.writer = writer
        self.local = maps if isinstance(maps, LocalMaps) else None
        self._bound: dict[tuple[str, str], str] = {}

    def read(self, name: str, key: str) -> Code:
        """The value of a key, the type's empty value where there is none; averages as such."""
        decl = self.decls[name]
        if self.local is None:
            text = f"{self._once('read', name, lambda: reader(self.maps, decl))}({key})"
        elif decl.kind in ("avg", "stats"):
            text = f"{self._once('average', name, lambda: average_reader(self._table(name), is_signed(decl)))}({key})"
        else:
            text = f"{self._dict(name)}.get({key}, {self._empty(decl)})"
            if decl.kind in ("sum", "min", "max"):
                return of_any_size(text, _width_of(decl))
        if isinstance(decl.value, IntType):
            return Code(text, *bounds(decl.value if decl.kind == "scalar" else _width_of(decl)))
        return Code(text)

    def has(self, name: str, key: str) -> Code:
        """Whether a key is there: bool."""
        if self.local is None:
            return Code(f"({self._once('get', name, lambda: _getter(self.maps, name))}({key}) is not None)")
        return Code(f"({key} in {self._dict(name)})")

    def length(self, name: str) -> Code:
        """How many keys there are."""
        if self.local is None:
            return Code(f"{self._once('length', name, lambda: _counter(self.maps, name))}()", *bounds(UINT64))
        return Code(f"len({self._dict(name)})", *bounds(UINT64))

    def entries(self, name: str) -> str:
        """An expression for the list of (key, value) of the whole map in the order of the keys.

        A key of one part stands without its tuple.
        """
        return f"{self._once('entries', name, lambda: _lister(self.maps, self.decls[name]))}()"

    def assign(self, name: str, key: str, value: str) -> None:
        """Sets a scalar."""
        if self.local is None:
            self.writer.line(f"{self._once('set', name, lambda: _setter(self.maps, name))}({key}, {value})")
        elif not self.decls[name].key:
            self.writer.line(f"{self._dict(name)}[{key}] = {value}")
        else:
            table = self._dict(name)
            with self.writer.block(f"if {key} in {table}:"):
                self.writer.line(f"{table}[{key}] = {value}")
            with self.writer.block("else:"):
                self.writer.line(f"{self._insert(name)}({key}, {value})")

    def add(self, name: str, key: str, delta: Code) -> tuple[Code, Code]:
        """Adds to a scalar integer; returns the old value and the new one."""
        decl = self.decls[name]
        type = decl.value if isinstance(decl.value, IntType) else INT64
        low, high = bounds(type)
        old, new = self.writer.temporary(), self.writer.temporary()
        self.writer.effects += 1
        sum_code = wrapped(Code(f"({old} + {delta.text})", low + delta.low, high + delta.high), type)
        if self.local is None:
            self.writer.line(f"{old} = {self.read(name, key).text}")
            self.writer.line(f"{new} = {sum_code.text}")
            self.writer.line(f"{self._once('add', name, lambda: _adder(self.maps, name))}({key}, {delta.text})")
            return Code(old, low, high, stable=True), Code(new, low, high, stable=True)
        table = self._dict(name)
        with self.writer.block("try:"):
            self.writer.line(f"{old} = {table}[{key}]")
        with self.writer.block("except KeyError:"):
            self.writer.line(f"{old} = 0")
            self.writer.line(f"{new} = {sum_code.text}")
            self.writer.line(f"{self._insert(name)}({key}, {new})")
        with self.writer.block("else:"):
            self.writer.line(f"{table}[{key}] = {new} = {sum_code.text}")
        return Code(old, low, high, stable=True), Code(new, low, high, stable=True)

    def delete(self, name: str, key: str) -> None:
        """Removes a key."""
        if self.local is None:
            self.writer.line(f"{self._once('delete', name, lambda: _deleter(self.maps, name))}({key})")
        else:
            self.writer.line(f"{self._dict(name)}.pop({key}, None)")

    def aggregate(self, name: str, key: str, function: AggregateName, value: Code) -> None:
        """One more value for an aggregation; `key` may be written twice."""
        line, block = self.writer.line, self.writer.block
        if self.local is None:
            bound = self._once(function, name, lambda: _aggregator(self.maps, name, function))
            line(f"{bound}({key}, {value.text})")
            return
        decl, table, insert = self.decls[name], self._dict(name), self._insert(name)
        if function in ("hist", "lhist"):
            bucket = self.writer.keep(self._bucket(decl, function, wrapped(value, INT64))).text
            held = self.writer.temporary()
            line(f"{held} = {table}.get({key})")
            with block(f"if {held} is None:"):
                line(f"{insert}({key}, {{{bucket}: 1}})")
            with block("else:"):
                line(f"{held}[{bucket}] = {held}.get({bucket}, 0) + 1")
            return
        value = wrapped(value, _width_of(decl))
        # Kept where it stands behind a change of the map, which it may itself read.
        text = value.text if function in ("count", "sum") else self.writer.keep(value).text
        if function in ("count", "sum"):
            with block("try:"):
                line(f"{table}[{key}] += {'1' if function == 'count' else text}")
            with block("except KeyError:"):
                line(f"{insert}({key}, {'1' if function == 'count' else text})")
            return
        held = self.writer.temporary()
        line(f"{held} = {table}.get({key})")
        with block(f"if {held} is None:"):
            line(f"{insert}({key}, {text})" if function in ("min", "max") else f"{insert}({key}, [1, {text}])")
        if function in ("min", "max"):
            with block(f"elif {text} {'<' if function == 'min' else '>'} {held}:"):
                line(f"{table}[{key}] = {text}")
        else:
            with block("else:"):
                line(f"{held}[0] += 1")
                line(f"{held}[1] += {text}")

    def _bucket(self, decl: MapDecl, function: AggregateName, value: Code) -> Code:
        value = self.writer.keep(value)
        text = value.text
        if function == "hist" and decl.bits == 0:
            # With k = 0 the bucket is one more than the number of bits (`log2_bucket`).
            return Code(f"(({text}).bit_length() + 1 if {text} >= 0 else 0)")
        if function == "hist":
            return Code(f"{self.writer.bind(log2_bucket, 'log2_bucket')}({text}, {int(decl.bits)})")
        low, high, step = int(decl.low), int(decl.high), int(decl.step)
        last = linear_count(low, high, step) - 1
        return Code(f"(0 if {text} < {low} else {last} if {text} >= {high} else ({text} - ({low})) // {step} + 1)")

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
    """As `reader`, on the inner form of an avg or stats map of `LocalMaps`."""
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


def _setter(maps: MapStore, name: str) -> Callable[[Key, Value], None]:
    return lambda key, value: maps.set(name, key, value)


def _adder(maps: MapStore, name: str) -> Callable[[Key, int], None]:
    return lambda key, delta: maps.add(name, key, delta)


def _deleter(maps: MapStore, name: str) -> Callable[[Key], None]:
    return lambda key: maps.delete(name, key)


def _counter(maps: MapStore, name: str) -> Callable[[], int]:
    return lambda: len(maps.snapshot(name).items)


def _aggregator(maps: MapStore, name: str, function: AggregateName) -> Callable[[Key, int], None]:
    return lambda key, value: maps.aggregate(name, key, function, value)


def _lister(maps: MapStore, decl: MapDecl) -> Callable[[], list[tuple[object, object]]]:
    def entries() -> list[tuple[object, object]]:
        items = sorted(maps.snapshot(decl.name).items.items(), key=lambda item: item[0])
        return [
            (key[0] if len(key) == 1 else key, value.mean if isinstance(value, Average) else value)
            for key, value in items
        ]

    return entries
