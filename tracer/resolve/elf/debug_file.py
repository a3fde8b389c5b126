"""The separate debug file of a stripped one: by its build id, or by the name and checksum in its .gnu_debuglink.

Where it is looked for, and in this order, as gdb does ("Debugging Information in Separate Files"): of /usr/bin/app with
the build id ab12…  /usr/lib/debug/.build-id/ab/12….debug, then the linked name in /usr/bin, /usr/bin/.debug and
/usr/lib/debug/usr/bin. Of a file in another root directory (/proc/PID/root) in that root, then in ours. The directories
that TRACER_DEBUGINFO names, with colons between them (`--debuginfo`), come before /usr/lib/debug; those that are not
there are passed over. What is nowhere is asked of the servers in DEBUGINFOD_URLS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tracer.errors import TracerError
from tracer.resolve.elf.file import Elf

DEBUG_ROOT = "/usr/lib/debug"
VARIABLE, SERVERS = "TRACER_DEBUGINFO", "DEBUGINFOD_URLS"
_MAX_LINK = 4096
_BLOCK = 1 << 20
_MAX_SIZE = 1 << 32
"""The largest file whose checksum is computed, which takes some seconds."""


def debug_paths(elf: Elf) -> tuple[str, ...]:
    """The paths at which the debug file may be."""
    cached = None
    if os.environ.get(SERVERS):
        from tracer.resolve.elf.debuginfod import cached_path

        cached = cached_path(elf.build_id)
    return (*(path for path, _ in _candidates(elf)), *(() if cached is None else (cached,)))


def debug_roots(elf: Elf) -> list[str]:
    """The directories that hold debug files, those that the user named first: a relative one in the directory of the
    file, then in the current one.
    """
    places = [os.path.dirname(path) for path in (os.path.abspath(elf.path), os.path.realpath(elf.path))]
    if _in_other_root(elf.path):
        del places[1]  # links lead out of it
    places.append("")
    named = filter(None, os.environ.get(VARIABLE, "").split(":"))
    return [*dict.fromkeys(os.path.join(place, directory) for directory in named for place in places), DEBUG_ROOT]


def _in_other_root(path: str) -> bool:
    return path.startswith("/proc/") and "/root/" in path


def find_debug_file(elf: Elf) -> Elf | None:
    """The debug file, if it is installed and is really of this build."""
    for path, checksum in _candidates(elf):
        debug_file = _opened(elf, path, checksum)
        if debug_file is not None:
            return debug_file
    if not os.environ.get(SERVERS):
        return None
    from tracer.resolve.elf.debuginfod import fetched

    served = fetched(elf.build_id, elf.path)
    return None if served is None else _opened(elf, served, None)


def may_be_served(elf: Elf) -> bool:
    """Whether a server may have the debug file that did not come, for which `find_debug_file` has asked."""
    if not os.environ.get(SERVERS):
        return False
    from tracer.resolve.elf.debuginfod import has_failed

    return has_failed(elf.build_id)


def _opened(elf: Elf, path: str, checksum: int | None) -> Elf | None:
    if not os.path.isfile(path):
        return None
    try:
        candidate = Elf(path)
    except TracerError:
        return None
    if _belongs(elf, candidate, checksum):
        return candidate
    candidate.close()
    return None


def _belongs(elf: Elf, candidate: Elf, checksum: int | None) -> bool:
    try:
        if checksum is None:
            return candidate.build_id == elf.build_id
        same = candidate.build_id in (None, elf.build_id)
        return same and candidate.size <= _MAX_SIZE and _crc32(candidate) == checksum
    except TracerError:
        return False  # damaged, or truncated just now


def _crc32(elf: Elf) -> int:
    import zlib

    value = 0
    for offset in range(0, elf.size, _BLOCK):
        value = zlib.crc32(elf.read(offset, min(_BLOCK, elf.size - offset), "the debug file"), value)
    return value


def _candidates(elf: Elf) -> Iterator[tuple[str, int | None]]:
    """The paths, and what the checksum of the file there must be; None: its build id tells."""
    roots = [""]
    path = os.path.abspath(elf.path)
    if _in_other_root(path):
        roots.insert(0, path[: path.index("/root/") + 5])
    # What the user named whole lies in our own root directory.
    *named, installed = debug_roots(elf)
    places = [*named, *(f"{root}{installed}" for root in roots)]
    build_id = elf.build_id
    if build_id is not None and len(build_id) >= 6:
        for place in places:
            yield f"{place}/.build-id/{build_id[:2]}/{build_id[2:]}.debug", None
    name, checksum = _link(elf)
    if not name:
        return
    for place in named:
        yield f"{place}/{name}", checksum
    folders = [os.path.dirname(path[len(roots[0]) :])]
    if not roots[0]:
        folders.append(os.path.dirname(os.path.realpath(path)))
    for folder in dict.fromkeys(folders):
        yield f"{roots[0]}{folder}/{name}", checksum
        yield f"{roots[0]}{folder}/.debug/{name}", checksum
        for place in places:
            yield f"{place}{folder}/{name}", checksum


def _link(elf: Elf) -> tuple[str, int]:
    """The name and the CRC-32 in .gnu_debuglink: text with NULs up to a multiple of four, then the number."""
    section = elf.section(".gnu_debuglink")
    if section is None or not 8 <= section.size <= _MAX_LINK:
        return "", 0
    content = elf.content(section)
    name = os.fsdecode(content.partition(b"\0")[0])
    if "/" in name or name in ("", ".", "..") or len(content) % 4:
        return "", 0
    return name, int.from_bytes(content[-4:], "little")
