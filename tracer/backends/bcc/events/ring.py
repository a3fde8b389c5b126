"""Reading the BPF ring buffer, mapped by ourselves (Documentation/bpf/ringbuf.rst).

Three regions: a page with the consumer's position, which we write; a page with the producers' position; the data,
mapped twice in a row so that a record never wraps. A record is u32 length (with a busy and a discard bit), u32 for the
kernel, the payload padded to eight bytes.

Programs submit without waking anybody, and we look every few milliseconds. What is there is copied out at once, so that
the ring is empty again while the copy is decoded and printed.

Memory order: a copy is made in no order that we know, and a record may be finished while it is made, so that its
header says so and its payload is still old. So it is copied twice: what the first copy's headers say is finished is
whole in the second. On x86 loads are not reordered with loads; on aarch64 the kernel's release stores would want an
acquire load here, which Python has not, but thousands of instructions lie between the copies.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence

from tracer.dataclass import dataclass

_BUSY = 1 << 31
_DISCARDED = 1 << 30
_LENGTH = _DISCARDED - 1
_CHUNK = 1 << 18
"""Bytes of a batch: some thousand records, few enough that the ring is looked at again after a millisecond or two."""
_header = struct.Struct("=I").unpack_from


@dataclass(frozen=True, slots=True)
class Batch:
    """Records copied out of the ring: their bytes, and the offsets of their payloads. `uniform`: all have one length
    and begin with the same number.
    """

    data: bytes
    offsets: Sequence[int]
    uniform: bool

    @property
    def stride(self) -> int:
        """Bytes from one record of a uniform batch to the next."""
        return self.offsets[1] - self.offsets[0] if len(self.offsets) > 1 else len(self.data)


class Ring:
    """The consumer of one ring of `size` bytes, a power of two."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        page = mmap.PAGESIZE
        self._consumer_map = mmap.mmap(fd, page)
        self._consumer_map.madvise(mmap.MADV_DONTFORK)  # a mapping in another process would keep the ring
        try:
            self._data_map = mmap.mmap(fd, page + 2 * size, prot=mmap.PROT_READ, offset=page)
        except OSError as error:
            self._consumer_map.close()
            error.call = "mmap of the ring of events"  # type: ignore[attr-defined]
            raise
        self._data_map.madvise(mmap.MADV_DONTFORK)
        self._consumer = memoryview(self._consumer_map).cast("Q")
        self._data = memoryview(self._data_map)
        self._producer = self._data[:8].cast("Q")

    def take(self) -> Iterator[Batch]:
        """Yields all complete records that are there now. Each batch's room is free again before it is handed out."""
        chunk = _CHUNK
        end = self._producer[0]
        while (start := self._consumer[0]) < end:
            length = min(end - start, chunk)
            position = mmap.PAGESIZE + (start & (self._size - 1))
            heads = bytes(self._data[position : position + length])
            data = bytes(self._data[position : position + length])
            batch, taken, busy = _uniform(heads, data) or _walk(heads, data)
            if not taken:
                if busy:
                    return
                chunk *= 2
                continue
            self._consumer[0] = start + taken
            if batch.offsets:
                yield batch
            if busy:
                return

    def close(self) -> None:
        """Unmaps the ring."""
        for view in (self._consumer, self._producer, self._data):
            view.release()
        self._consumer_map.close()
        self._data_map.close()


def _uniform(heads: bytes, data: bytes) -> tuple[Batch, int, bool] | None:
    """The quick way: if the headers and first words of all records equal the first one's, no record is looked at on its
    own. None where they differ. `heads` is the copy made before `data`.
    """
    (head,) = _header(heads, 0)
    if head & (_BUSY | _DISCARDED):
        return None
    stride = (head & _LENGTH) + 15 & ~7
    count = len(data) // stride
    if not count:
        return None
    end = count * stride
    # Bytes 0 to 3 are the header, 8 and 9 the record's number.
    for copy, place in ((heads, 3), (heads, 0), (heads, 1), (heads, 2), (data, 8), (data, 9)):
        if copy[place:end:stride].count(copy[place]) != count:
            return None
    return Batch(data if end == len(data) else data[:end], range(8, end, stride), True), end, False


def _walk(heads: bytes, data: bytes) -> tuple[Batch, int, bool]:
    """Record by record: the batch, how many bytes it covers, and whether a record still being written ended it."""
    offsets: list[int] = []
    place, length = 0, len(data)
    while place < length:
        (head,) = _header(heads, place)
        if head & _BUSY:
            return Batch(data, offsets, False), place, True
        following = place + ((head & _LENGTH) + 15 & ~7)
        if following > length:
            break
        if not head & _DISCARDED:
            offsets.append(place + 8)
        place = following
    return Batch(data, offsets, False), place, False
