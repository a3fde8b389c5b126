"""Library names → files: `libc.so.6`, `libc`, `c`, through the loader's cache and its default directories.

The cache (/etc/ld.so.cache) is read in its present format, `glibc-ld.so.cache1.1`, which glibc has written alone since
2.32 and behind the old one before. Layout: a header of 48 bytes (magic, number of entries, size of the strings, …),
then per entry flags, offset of the name, offset of the path, OS version (4 bytes each) and hardware capabilities (8).
Source: glibc, sysdeps/generic/dl-cache.h.
"""

from __future__ import annotations

import os
import re
import struct

from tracer.kinds.arch import Arch
from tracer.opening import content

_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_MAGIC = b"ld.so-1.7.0\0"
_ENTRY = struct.Struct("<iIIIQ")
_MAX_CACHE = 1 << 26


def find_library(name: str, arch: Arch, prefix: str = "") -> str | None:
    """The path of a library, as the processes that see their files below `prefix` see it, or None.

    `name` is a whole file name (`libc.so.6`) or what stands in it before `.so`, with or without `lib`. Of several
    versions it is the first in the cache, which is the highest.
    """
    if "/" in name or not name or "\0" in name:
        return None
    wanted = re.compile(_pattern(name))
    cached = _cached(f"{prefix}/etc/ld.so.cache", arch)
    for fits in (name.__eq__, wanted.fullmatch):
        for soname, path in cached:
            if fits(soname) and os.path.exists(prefix + path):
                return path
    for directory in (f"/lib/{arch.triplet}", f"/usr/lib/{arch.triplet}", *arch.directories):
        try:
            names = sorted(os.listdir(prefix + directory), reverse=True)
        except OSError:
            continue
        for file_name in names:
            if wanted.fullmatch(file_name):
                return f"{directory}/{file_name}"
    return None


def is_library_name(name: str, file_name: str) -> bool:
    """Whether the user's name for a library fits a file: `libc` fits `libc.so.6` and `libc-2.31.so`."""
    return re.fullmatch(_pattern(name), file_name) is not None


def _pattern(name: str) -> str:
    if re.search(r"\.so(\.|$)", name):
        return re.escape(name) + r"(\.\d+)*"
    return rf"(lib)?{re.escape(name)}(-[\d.]+)?\.so(\.\d+)*"


def _cached(path: str, arch: Arch) -> list[tuple[str, str]]:
    """Names and paths of the cache for that architecture; none where it is absent or damaged.

    Copies for newer processors (a capability is set) come last: not every process uses them.
    """
    try:
        data = content(path, _MAX_CACHE)
    except OSError:
        return []
    start = 0
    if data.startswith(_OLD_MAGIC):
        start = data.find(_MAGIC)
    if start < 0 or not data.startswith(_MAGIC, start) or len(data) < start + 48:
        return []
    (count,) = struct.unpack_from("<I", data, start + len(_MAGIC))
    count = min(count, (len(data) - start - 48) // _ENTRY.size)
    plain: list[tuple[str, str]] = []
    special: list[tuple[str, str]] = []
    for flags, name_at, path_at, _, capabilities in _ENTRY.iter_unpack(
        data[start + 48 : start + 48 + count * _ENTRY.size]
    ):
        if flags & 0xFFFF == arch.cache_flags:
            entry = (_text(data, start + name_at), _text(data, start + path_at))
            (special if capabilities else plain).append(entry)
    return plain + special


def _text(data: bytes, start: int) -> str:
    end = data.find(b"\0", start)
    return os.fsdecode(data[start:end]) if end >= 0 else ""
