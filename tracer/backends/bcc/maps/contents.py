"""A table's elements as bytes, read and written by bpf(2)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from tracer.backends.bcc.maps.tables import Table
from tracer.kernel import bpf

Raw = tuple[int, bytes]
"""A key: in which of the map's tables it lies, and its bytes there (the index for arrays)."""

_CHUNK_BYTES = 1 << 20


class Contents:
    """The maps of a table: `fds`, that of the shortest keys first. A value has `slots` parts, one for each CPU."""

    def __init__(self, table: Table, fds: Sequence[int], cpus: int) -> None:
        self.table = table
        self.slots = cpus if table.per_cpu else 1
        self._fds = fds
        self._value_size = table.value_size * self.slots

    def all(self) -> Iterator[tuple[Raw, bytes]]:
        """Yields all elements. Of those that come and go meanwhile any may be there."""
        key = self.table.key
        for tier, size in enumerate((4,) if key is None else key.sizes):
            for raw, value in self._elements(self._fds[tier], size):
                yield (tier, raw), value

    def hits(self) -> int:
        """The number of additions to an array: the words of counters, and the first words of totals."""
        width, words = self.table.value_size // 8, self._value_size // 8
        return sum(sum(struct.unpack(f"={words}Q", value)[::width]) for _, value in self.all())

    def get(self, raw: Raw) -> bytes | None:
        """The bytes of an element; None where it is not there."""
        return bpf.map_lookup(self._fds[raw[0]], raw[1], self._value_size)

    def put(self, raw: Raw, value: bytes, flags: int = bpf.UPDATE_ANY) -> None:
        """Writes one element. Raises `OSError`."""
        bpf.map_update(self._fds[raw[0]], raw[1], value, flags)

    def delete(self, raw: Raw) -> bool:
        """Takes one element out; False where it was not there."""
        return bpf.map_delete(self._fds[raw[0]], raw[1])

    def delete_many(self, raws: Iterable[Raw]) -> None:
        """Takes elements out; those that are not there are no error."""
        keys: dict[int, list[bytes]] = {}
        for tier, key in raws:
            keys.setdefault(tier, []).append(key)
        for tier, of_tier in keys.items():
            bpf.map_delete_many(self._fds[tier], of_tier)

    def _elements(self, fd: int, key_size: int) -> Iterable[tuple[bytes, bytes]]:
        if self.table.max_entries == 1 and self.table.key is None:
            keys = [bytes(4)]
        else:
            chunk = max(16, min(self.table.max_entries, _CHUNK_BYTES // (key_size + self._value_size)))
            elements = bpf.map_batch(fd, key_size, self._value_size, chunk)
            if elements is not None:
                return elements
            keys = bpf.map_keys(fd, key_size)
        pairs = ((key, bpf.map_lookup(fd, key, self._value_size)) for key in keys)
        return ((key, value) for key, value in pairs if value is not None)
