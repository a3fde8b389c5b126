"""Reading the BPF ring buffer, mapped by ourselves (Documentation/bpf/ringbuf.rst).

Three regions: a page with the consumer's position, which we write; a page with the producers' position; the data,
mapped twice in a row so that a record never wraps. A record is u32 length (with a busy and a discard bit), u32 for the
kernel, the payload padded to eight bytes.

Programs submit without waking anybody, and we look every few milliseconds. What is there is copied out at once, so that
the ring is empty again while the copy is decoded and printed.

Memory order: positions and headers are read by single native loads. On x86 loads are not reordered with loads; on
aarch64 the kernel's release stores would want an acquire load here, which Python has not, but between our load of
the position and that of the data lie thousands of instructions and a system-wide ordered call (`mmap` reads).
"""

from __future__ import annotations

import mmap
import struct

_BUSY = 1 << 31
_DISCARDED = 1 << 30
_LENGTH = _DISCARDED - 1
_header = struct.Struct("=I").unpack_from


class Ring:
    """The consumer of one ring of `size` bytes, a power of two."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        page = mmap.PAGESIZE
        self._consumer_map = mmap.mmap(fd, page)
        self._data_map = mmap.mmap(fd, page + 2 * size, prot=mmap.PROT_READ, offset=page)
        self._consumer = memoryview(self._consumer_map).cast("Q")
        self._data = memoryview(self._data_map)
        self._producer = self._data[:8].cast("Q")

    def take(self) -> tuple[bytes, list[int]]:
        """All complete records: a copy of their bytes, and the offsets of their payloads in it."""
        start = self._consumer[0]
        length = self._producer[0] - start
        if not length:
            return b"", []
        at = mmap.PAGESIZE + (start & (self._size - 1))
        data = bytes(self._data[at : at + length])
        offsets: list[int] = []
        place = 0
        while place < length:
            (head,) = _header(data, place)
            if head & _BUSY:
                break
            if not head & _DISCARDED:
                offsets.append(place + 8)
            place += (head & _LENGTH) + 15 & ~7
        self._consumer[0] = start + place
        return data, offsets

    def close(self) -> None:
        """Unmaps the ring."""
        for view in (self._consumer, self._producer, self._data):
            view.release()
        self._consumer_map.close()
        self._data_map.close()
