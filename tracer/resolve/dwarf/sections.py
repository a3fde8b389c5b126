"""The bytes of a section of debug information, unpacked where they are compressed.

Sources: gABI, "Section Compression"; before it GNU's `.zdebug_` sections: "ZLIB", the size in eight bytes, zlib's data.
"""

from __future__ import annotations

import struct
import zlib

from tracer.resolve.elf.file import MAX_READ, Elf

_COMPRESSED = 0x800  # SHF_COMPRESSED
_AT_LEAST, _MOST_UNPACKED = 1 << 20, 64
"""Bytes that a compressed section may become, and how many times its size; line programs take three."""


def content(elf: Elf, name: str) -> bytes:
    """The section `.debug_…`, nothing where there is none. Raises `TracerError` for a damaged one."""
    section = elf.section(name)
    if section is None:
        section = elf.section(name.replace(".debug_", ".zdebug_"))
        if section is None:
            return b""
        data = elf.content(section)
        if len(data) < 12 or data[:4] != b"ZLIB":
            raise elf.error(f"section {name} is damaged")
        return _unpacked(elf, name, data[12:], int.from_bytes(data[4:12], "big"))
    data = elf.content(section)
    if not section.flags & _COMPRESSED:
        return data
    if len(data) < 24:
        raise elf.error(f"section {name} is damaged")
    kind, _, size, _ = struct.unpack_from("<IIQQ", data)
    if kind != 1:
        raise elf.error(f"section {name} is compressed in a way that is not supported", "only zlib's is")
    return _unpacked(elf, name, data[24:], size)


def _unpacked(elf: Elf, name: str, data: bytes, size: int) -> bytes:
    if size > min(MAX_READ, _AT_LEAST + _MOST_UNPACKED * len(data)):
        raise elf.error(f"section {name} is compressed in a way that is not supported", "only zlib's is")
    try:
        return zlib.decompressobj().decompress(memoryview(data), size) if size else b""
    except zlib.error as error:
        raise elf.error(f"section {name} is damaged: {error}") from None
