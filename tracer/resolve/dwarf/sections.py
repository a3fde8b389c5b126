"""The bytes of a section of debug information, unpacked where they are compressed.

Sources: gABI, "Section Compression"; before it GNU's `.zdebug_` sections: "ZLIB", the size in eight bytes, zlib's data.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tracer.resolve.elf.file import MAX_READ, Elf
from tracer.resolve.elf.structures import Section

_COMPRESSED = 0x800  # SHF_COMPRESSED
_ZLIB, _ZSTD = 1, 2
_HEADERS = {8: struct.Struct("<I4xQ8x"), 4: struct.Struct("<II4x")}
"""The layouts of a compression header by the bytes of an address: the kind, and the size before compression."""
_AT_LEAST, _MOST_UNPACKED = 1 << 20, 64
"""A compressed section may become so many bytes, or so many times its size; line programs take three times."""


def content(elf: Elf, name: str) -> bytes:
    """The section `.debug_…`, nothing where there is none. Raises `TracerError` for a damaged one. An object file has
    one for each type unit, which begin anew: they are put together.
    """
    sections = [section for section in elf.sections if section.name == name]
    if not sections:
        old = name.replace(".debug_", ".zdebug_")
        sections = [section for section in elf.sections if section.name == old]
    parts = [_content(elf, section) for section in sections]
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _content(elf: Elf, section: Section) -> bytes:
    data, name = elf.content(section), section.name
    if name.startswith(".zdebug_"):
        if len(data) < 12 or data[:4] != b"ZLIB":
            raise elf.error(f"section {name} is damaged")
        return _unpacked(elf, name, _ZLIB, data[12:], int.from_bytes(data[4:12], "big"))
    if not section.flags & _COMPRESSED:
        return data
    header = _HEADERS[elf.word]
    if len(data) < header.size:
        raise elf.error(f"section {name} is damaged")
    kind, size = header.unpack_from(data)
    return _unpacked(elf, name, kind, data[header.size :], size)


def _unpacked(elf: Elf, name: str, kind: int, data: bytes, size: int) -> bytes:
    if kind not in (_ZLIB, _ZSTD) or size > min(MAX_READ, _AT_LEAST + _MOST_UNPACKED * len(data)):
        raise elf.error(f"section {name} is compressed in a way that is not supported", "only zlib's and zstd's are")
    if not size:
        return b""
    if kind == _ZSTD:
        unpack = _zstd()
        if unpack is None:
            raise elf.error(f"section {name} is compressed by zstd, which is not on this machine", "install libzstd1")
        unpacked = unpack(data, size)
        if unpacked is None:
            raise elf.error(f"section {name} is damaged: zstd cannot unpack it")
        return unpacked
    try:
        return zlib.decompressobj().decompress(memoryview(data), size)
    except zlib.error as error:
        raise elf.error(f"section {name} is damaged: {error}") from None


@lru_cache(maxsize=1)
def _zstd() -> Callable[[bytes, int], bytes | None] | None:
    """The decompression by zstd's own library: Python has it from 3.14 on."""
    import ctypes

    try:
        library: Any = ctypes.CDLL("libzstd.so.1")
    except OSError:
        return None
    decompress, failed = library.ZSTD_decompress, library.ZSTD_isError
    decompress.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    decompress.restype = ctypes.c_size_t
    failed.argtypes = (ctypes.c_size_t,)

    def unpack(data: bytes, size: int) -> bytes | None:
        room = ctypes.create_string_buffer(size)
        done = decompress(room, size, data, len(data))
        return None if failed(done) or done != size else room.raw

    return unpack
