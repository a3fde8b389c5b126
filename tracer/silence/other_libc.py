"""A process that never loaded the C library that was named: which one it has instead."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tracer.errors import TracerError
from tracer.kinds.registry import kind_of
from tracer.kinds.site import FileSite
from tracer.resolve.elf.file import Elf

_LIBC = re.compile(r"(libc[.-]|ld-musl-|libuClibc-)[^/]*so[^/]*|libc-[\d.]+\.so")


def other_libc(name: str, loaded: Sequence[str], site: FileSite) -> str | None:
    """The explanation where a program that mapped the files `loaded`, itself first, did not map that of a site; None
    where that is no C library.
    """
    if not loaded or not _LIBC.fullmatch(os.path.basename(site.path)):
        return None
    never = f"{name} never loaded {site.path}"
    loaded_libc = next((path for path in loaded[1:] if _LIBC.fullmatch(os.path.basename(path))), None)
    if loaded_libc is not None:
        return f"{never}: its C library is {loaded_libc}, and {_named(site, loaded_libc)} probes that"
    if _has_loader(loaded[0]):
        return never
    return f"{never}: it is linked statically, and {_named(site, loaded[0])} probes its own copy"


def _named(site: FileSite, path: str) -> str:
    """The attach point in another file."""
    return f"{kind_of(site).name}:{path}:{site.probe.rpartition(':')[2]}"


def _has_loader(path: str) -> bool:
    from tracer.resolve.files.loaded import PT_INTERP

    try:
        with Elf(path) as elf:
            return any(segment.type == PT_INTERP for segment in elf.segments)
    except TracerError:
        return True  # nothing is known of it
