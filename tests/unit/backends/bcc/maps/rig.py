"""A session's maps over an in-memory bpf(2): a test does what programs do at a hit, and moves the clock."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tests.harness.bpf import FakeBpf, Map, fake_bpf
from tests.unit.backends.bcc.plans import plan_of
from tracer.backends.bcc.maps import resets
from tracer.backends.bcc.maps.control import Control, control_size
from tracer.backends.bcc.maps.element_bytes import encode
from tracer.backends.bcc.maps.store import KernelMaps
from tracer.backends.bcc.maps.tables import Table, marks as marked_maps, tables
from tracer.kernel import bpf
from tracer.kernel.bpf import MapType
from tracer.lang.aggregations.aggregation import COUNTER, EXTREME, TOTAL
from tracer.lang.aggregations.buckets import log2_bucket
from tracer.lang.types import IntType, Value
from tracer.results.values import Key, MapValue

TOP = 1 << 63


@dataclass
class Clock:
    """A monotonic clock that stands still."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Rig:
    """`fake` is the kernel, `maps` what a session makes of it."""

    fake: FakeBpf
    clock: Clock
    tables: dict[str, Table]
    descriptors: dict[int, int]
    control: Control
    maps: KernelMaps
    marks: dict[str, int]
    words: memoryview
    generations: int
    lengths: int

    # --- what programs do ---

    def hit(self, name: str, key: Key = (), value: int = 1, cpu: int = 0) -> None:
        """`@x[key]++`, `+= value`, `count()`, `hist(value)`, `max(value)` …, whatever the map is."""
        table = self.tables[name]
        bucket = log2_bucket(value, *table.decl.parameters) if table.decl.kind == "hist" else 0
        if table.key is None:
            assert table.grid is not None
            place = next(at for at in range(table.grid.count) if table.grid.key(at) == key)
            held, raw = self.map(name), struct.pack("=I", place * table.buckets + bucket)
        else:
            held, raw = self._raw(table, key, bucket)
        there = held.is_array or raw in held.elements
        words = held.words(raw, cpu)
        if table.cell is COUNTER:
            words[0] += 1
        elif table.cell is TOTAL:
            words[:] = words[0] + 1, words[1] + value
        else:
            assert table.cell is EXTREME
            signed = isinstance(table.decl.value, IntType) and table.decl.value.signed
            number = (value ^ (TOP if signed else 0)) % 2**64
            number = ~number % 2**64 if table.decl.kind == "min" else number
            if held.is_array:
                words[:] = max(number, words[0]) if words[1] else number, 1
            else:
                words[0] = max(number, words[0])
        held.put(raw, words, cpu)
        if not there:
            self._made(table)

    def assign(self, name: str, key: Key, value: Value) -> None:
        """`@x[key] = value`."""
        table = self.tables[name]
        held, raw = self._raw(table, key)
        there = raw in held.elements
        held.set(raw, encode(table.decl.value, value))
        if not there:
            self._made(table)

    def reset(self, name: str, cleared: bool = True) -> int:
        """`clear(@x)`, else `zero(@x)`, in a probe, up to its record; returns the mark before."""
        at = self._mark_at(name)
        before = self.words[at]
        self.words[at] += 1 if cleared else 1 << 32
        return before

    def mark(self, name: str) -> int:
        """What the record of `print(@x)` in a probe holds."""
        return self.words[self._mark_at(name)]

    def length(self, name: str) -> int:
        """`len(@x)` in a probe."""
        index = self.tables[name].length
        assert index is not None
        at = 5 + self.generations + index
        return (self.words[at] + self.words[at + self.lengths]) % 2**64

    # --- what a test looks at ---

    def map(self, name: str, tier: int = 0) -> Map:
        """The kernel's map of a map."""
        return self.fake.maps[self.descriptors[self.tables[name].numbers[tier]]]

    def items(self, name: str) -> dict[Key, MapValue]:
        return dict(self.maps.snapshot(name).items)

    def taken(self, name: str) -> dict[Key, MapValue]:
        """A handler that prints and clears."""
        self.maps.begin_handler()
        items = self.items(name)
        self.maps.clear(name)
        assert self.items(name) == {}
        self.maps.end_handler()
        return items

    def printed(self, name: str, mark: int) -> dict[Key, MapValue]:
        """The handling of `print(@x)` of a probe."""
        self.maps.begin_handler()
        self.maps.look_back(name, mark)
        items = self.items(name)
        self.maps.end_handler()
        return items

    def settle(self) -> None:
        """Time goes by until no program still adds to what it found before a clear."""
        self.clock.now += 1.0

    def _raw(self, table: Table, key: Key, bucket: int = 0) -> tuple[Map, bytes]:
        assert table.key is not None
        generation = 0 if table.generation is None else self.words[5 + table.generation]
        raw = table.key.encode(key, generation, bucket, 0 if table.mark is None else self.mark(table.decl.name))
        return self.map(table.decl.name, table.key.sizes.index(len(raw))), raw

    def _mark_at(self, name: str) -> int:
        return 5 + self.generations + 2 * self.lengths + self.marks[name]

    def _made(self, table: Table) -> None:
        if table.length is not None:
            self.words[5 + self.generations + table.length] += 1


@contextmanager
def rigs() -> Iterator[Callable[..., Rig]]:
    """Makes the maps of programs."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(resets, "time", SimpleNamespace(monotonic=clock.monotonic))

        def make(text: str, cpus: int = 4, **settings: int) -> Rig:
            made = _rig(stack.enter_context(fake_bpf(cpus=cpus, **settings)), clock, text)
            stack.callback(made.control.close)
            stack.callback(made.words.release)
            return made

        yield make


def _rig(fake: FakeBpf, clock: Clock, text: str) -> Rig:
    plan = plan_of(text)
    made = tables(plan)
    marked = marked_maps(plan)
    ended = sum(table.generation is not None for table in made.values())
    lengths = sum(table.length is not None for table in made.values())
    size = control_size(ended, lengths, 0, len(marked))
    fd = bpf.map_create(MapType.ARRAY, 4, size, 1, bpf.F_MMAPABLE)
    memory = fake.maps[fd].memory
    assert memory is not None
    descriptors = {
        number: bpf.map_create(_kind(table), 4 if table.key is None else table.key.sizes[tier], table.value_size,
                                   table.max_entries)
        for table in made.values()
        for tier, number in enumerate(table.numbers)
    }  # fmt: skip
    control = Control(fd, ended, lengths, 0, len(marked))
    maps = KernelMaps(plan.program, made, descriptors, control, fake.cpus, marked)
    words = memoryview(memory).cast("Q")
    return Rig(fake, clock, made, descriptors, control, maps, marked, words, ended, lengths)


def _kind(table: Table) -> MapType:
    if table.grid is not None:
        return MapType.PERCPU_ARRAY
    return MapType.PERCPU_HASH if table.per_cpu else MapType.HASH
