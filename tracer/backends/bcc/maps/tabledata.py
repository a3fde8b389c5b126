"""Reading a kernel table: all its elements at once, with the CPUs' parts put together."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from tracer.backends.bcc.maps.tables import Shape, Table
from tracer.kernel import bpf

Number = int | tuple[int, int]
"""A counter or extreme as a 64-bit number, or hits and total."""

Raw = tuple[int, bytes]
"""A key: in which of the map's tables it lies, and its bytes there (the index for arrays)."""

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_CHUNK_BYTES = 1 << 20


class TableData:
    """The descriptors of a table's maps, that of the shortest keys first, and how its bytes become numbers."""

    def __init__(self, table: Table, fds: Sequence[int], cpus: int) -> None:
        self.table = table
        self.fds = fds
        self.key_sizes = (4,) if table.key is None else table.key.sizes
        self.slots = cpus if table.per_cpu else 1
        self.value_size = table.value_size * self.slots
        self._combine = _combiner(table, self.slots)

    def numbers(self) -> dict[Raw, Number]:
        """All elements of an additive or extreme table."""
        combine = self._combine
        found = {raw: combine(value) for raw, value in self.values()}
        return {raw: number for raw, number in found.items() if number is not None}

    def values(self) -> Iterable[tuple[Raw, bytes]]:
        """All elements as bytes."""
        for number, (fd, size) in enumerate(zip(self.fds, self.key_sizes, strict=True)):
            for key, value in self._elements(fd, size):
                yield (number, key), value

    def raws(self) -> list[Raw]:
        """The keys of all elements."""
        return [raw for raw, _ in self.values()]

    def number(self, raw: Raw) -> Number | None:
        """One element as it is now."""
        value = bpf.map_lookup(self.fds[raw[0]], raw[1], self.value_size)
        return None if value is None else self._combine(value)

    def delete(self, raw: Raw) -> bool:
        """Takes an element out of the kernel's map; False where it was not there."""
        return bpf.map_delete(self.fds[raw[0]], raw[1])

    def delete_many(self, raws: Iterable[Raw]) -> None:
        """Takes elements out of the kernel's maps."""
        keys: dict[int, list[bytes]] = {}
        for number, key in raws:
            keys.setdefault(number, []).append(key)
        for number, found in keys.items():
            bpf.map_delete_many(self.fds[number], found)

    def _elements(self, fd: int, key_size: int) -> list[tuple[bytes, bytes]]:
        if self.table.max_entries == 1 and self.table.key is None:
            found = bpf.map_lookup(fd, b"\0" * 4, self.value_size)
            return [] if found is None else [(b"\0" * 4, found)]
        chunk = max(16, min(self.table.max_entries, _CHUNK_BYTES // (key_size + self.value_size)))
        elements = bpf.map_batch(fd, key_size, self.value_size, chunk)
        if elements is not None:
            return elements
        single: list[tuple[bytes, bytes]] = []
        for key in bpf.map_keys(fd, key_size):
            found = bpf.map_lookup(fd, key, self.value_size)
            if found is not None:
                single.append((key, found))
        return single


def _combiner(table: Table, slots: int) -> Callable[[bytes], Number | None]:
    """From an element's bytes to its number; None for a place of an array where nothing is."""
    if table.shape is Shape.TOTAL:
        both = struct.Struct(f"={2 * slots}Q")

        def total(value: bytes) -> Number:
            numbers = both.unpack(value)
            return sum(numbers[::2]) & _MASK, sum(numbers[1::2]) & _MASK

        return total
    if table.grid is not None and table.shape is Shape.EXTREME:
        pairs = struct.Struct(f"={2 * slots}Q")

        def furthest(value: bytes) -> Number | None:
            numbers = pairs.unpack(value)
            return max((numbers[at] for at in range(0, 2 * slots, 2) if numbers[at + 1]), default=None)

        return furthest
    words = struct.Struct(f"={slots}Q")
    if table.shape is Shape.EXTREME:
        return lambda value: max(words.unpack(value))
    return lambda value: sum(words.unpack(value)) & _MASK
