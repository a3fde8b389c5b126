"""Reading a kernel table: all its elements at once, with the CPUs' parts put together."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from tracer.backends.bcc import syscall
from tracer.backends.bcc.tables import Shape, Table

Number = int | tuple[int, int]
"""A counter or extreme as a 64-bit number, or hits and total."""

Raw = tuple[bool, bytes]
"""A key: whether it lies in the long table, and its bytes there (the index for arrays)."""

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_CHUNK_BYTES = 1 << 20


class TableData:
    """The descriptors of a table's maps, and how its bytes become numbers."""

    def __init__(self, table: Table, short: int, long: int | None, cpus: int) -> None:
        self.table = table
        self.fds = {False: short} if long is None else {False: short, True: long}
        self.slots = cpus if table.per_cpu else 1
        self.value_size = table.value_size * self.slots
        self._combine = _combiner(table, self.slots)

    def key_size(self, long: bool) -> int:
        """Bytes of a key in one of the two maps."""
        layout = self.table.key
        if layout is None:
            return 4
        return layout.size if long or layout.short is None else layout.short

    def numbers(self) -> dict[Raw, Number]:
        """All elements of an additive or extreme table."""
        combine = self._combine
        return {raw: combine(value) for raw, value in self.values()}

    def values(self) -> Iterable[tuple[Raw, bytes]]:
        """All elements as bytes."""
        for long, fd in self.fds.items():
            for key, value in self._elements(fd, self.key_size(long)):
                yield (long, key), value

    def raws(self) -> list[Raw]:
        """The keys of all elements."""
        return [raw for raw, _ in self.values()]

    def number(self, raw: Raw) -> Number | None:
        """One element as it is now."""
        value = syscall.map_lookup(self.fds[raw[0]], raw[1], self.value_size)
        return None if value is None else self._combine(value)

    def delete(self, raw: Raw) -> bool:
        """Takes an element out of the kernel's map; False where it was not there."""
        return syscall.map_delete(self.fds[raw[0]], raw[1])

    def delete_many(self, raws: Iterable[Raw]) -> None:
        """Takes elements out of the kernel's maps."""
        keys: dict[bool, list[bytes]] = {}
        for long, key in raws:
            keys.setdefault(long, []).append(key)
        for long, found in keys.items():
            syscall.map_delete_many(self.fds[long], found)

    def _elements(self, fd: int, key_size: int) -> list[tuple[bytes, bytes]]:
        if self.table.key is None and self.table.buckets == 1:
            found = syscall.map_lookup(fd, b"\0" * 4, self.value_size)
            return [] if found is None else [(b"\0" * 4, found)]
        chunk = max(16, min(self.table.max_entries, _CHUNK_BYTES // (key_size + self.value_size)))
        elements = syscall.map_batch(fd, key_size, self.value_size, chunk)
        if elements is not None:
            return elements
        single: list[tuple[bytes, bytes]] = []
        for key in syscall.map_keys(fd, key_size):
            found = syscall.map_lookup(fd, key, self.value_size)
            if found is not None:
                single.append((key, found))
        return single


def _combiner(table: Table, slots: int) -> Callable[[bytes], Number]:
    if table.shape is Shape.TOTAL:
        both = struct.Struct(f"={2 * slots}Q")

        def total(value: bytes) -> Number:
            numbers = both.unpack(value)
            return sum(numbers[::2]) & _MASK, sum(numbers[1::2]) & _MASK

        return total
    words = struct.Struct(f"={slots}Q")
    if table.shape is Shape.EXTREME:
        return lambda value: max(words.unpack(value))
    return lambda value: sum(words.unpack(value)) & _MASK
