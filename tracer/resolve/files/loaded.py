"""The files that a program will have mapped executable once it runs, told by the files alone: itself, its loader and
the libraries it needs. What it opens later by dlopen(3) nobody can know.

Where a library is looked for, and in this order: DT_RPATH of the file and of those that need it (where a file has no
DT_RUNPATH), LD_LIBRARY_PATH, DT_RUNPATH of the file, the loader's cache, the default directories. Source: ld.so(8).
"""

from __future__ import annotations

import os
import shutil
from collections import deque

from tracer.errors import TracerError
from tracer.kinds.arch import ARCHES, Arch
from tracer.opening import content
from tracer.resolve.elf.file import Elf
from tracer.resolve.files.libraries import find_library

PT_INTERP = 3
DT_RPATH, DT_RUNPATH = 15, 29

_LIBC_OF_MUSL = "libc.so"
_MAX_FILES = 2000
_MAX_SCRIPTS = 4
"""How many interpreters may be scripts themselves: the kernel's own limit (BINPRM_MAX_RECURSION)."""


def loaded_files(program: str) -> tuple[str, ...]:
    """The paths of what `program` will map, itself first. A library that is not found is left out.

    Raises `TracerError` where the program is neither an ELF file nor a script whose interpreter is one.
    """
    first = interpreted(program)
    inheritance: dict[str, tuple[str, ...]] = {}
    queue: deque[tuple[str, tuple[str, ...]]] = deque([(first, ())])
    seen = {os.path.realpath(first)}
    is_musl = False
    while queue and len(inheritance) < _MAX_FILES:
        path, inherited = queue.popleft()
        try:
            with Elf(path) as elf:
                arch = ARCHES.get(elf.machine)
                rpath, runpath = _directories(elf, DT_RPATH), _directories(elf, DT_RUNPATH)
                handed_on = () if runpath else (*rpath, *inherited)
                inheritance[path] = handed_on
                loader = _loader(elf)
                is_musl = is_musl or (loader is not None and os.path.basename(loader).startswith("ld-musl-"))
                # Of musl the C library and the loader are one file.
                names = [library for library in elf.needed if not (is_musl and library == _LIBC_OF_MUSL)]
                needed = [] if arch is None else [_find(library, handed_on, runpath, arch) for library in names]
        except TracerError:
            if path == first:
                raise
            continue
        for dependency in (*needed, loader):
            if dependency is not None and (real := os.path.realpath(dependency)) not in seen:
                seen.add(real)
                queue.append((dependency, handed_on))
    return tuple(inheritance)


def interpreted(program: str) -> str:
    """The ELF file that runs. For a script it is the interpreter, for `env NAME` the program of that name."""
    path = program
    for _ in range(_MAX_SCRIPTS + 1):
        try:
            line = content(path, 256).partition(b"\n")[0]
        except OSError as error:
            raise TracerError(f"{path}: cannot be read: {error.strerror}") from None
        if not line.startswith(b"#!"):
            return path
        words = os.fsdecode(line[2:]).split()
        if not words:
            return path
        path = words[0]
        if os.path.basename(path) == "env" and len(words) > 1:
            named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
            path = (shutil.which(named[0]) if named else None) or path
    raise TracerError(f"{program}: too many scripts that interpret one another")


def _directories(elf: Elf, tag: int) -> tuple[str, ...]:
    """The directories of DT_RPATH or DT_RUNPATH, $ORIGIN filled in."""
    origin = os.path.dirname(os.path.realpath(elf.path))
    return tuple(
        directory.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        for text in elf.dynamic_strings(tag)
        for directory in text.split(":")
        if directory
    )


def _loader(elf: Elf) -> str | None:
    segment = next((segment for segment in elf.segments if segment.type == PT_INTERP), None)
    if segment is None:
        return None
    path = os.fsdecode(elf.read(segment.offset, segment.file_size, "the loader's name").rstrip(b"\0"))
    return path if os.path.isfile(path) else None


def _find(name: str, rpath: tuple[str, ...], runpath: tuple[str, ...], arch: Arch) -> str | None:
    if "/" in name:
        return os.path.abspath(name) if os.path.isfile(name) else None
    environment = os.environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
    for directory in (*rpath, *filter(None, environment), *runpath):
        path = os.path.join(os.path.abspath(directory), name)
        if os.path.isfile(path):
            return path
    return find_library(name, arch)
