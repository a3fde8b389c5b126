"""`build-id:HEX` → the file of that build-id, wherever it lies: it is the one that processes run.

What a stack, a core dump or a profile of another machine names is a build-id. The paths of the file differ from one
container to the next. So it is looked for among what processes have mapped as code, each file once. A debug file bears
the same build-id and has no code: none is ever mapped so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tracer.errors import TracerError, printable
from tracer.host.maps import Picture, path_of
from tracer.host.stat import directory, pids
from tracer.kinds.site import Target
from tracer.resolve.elf.debug_file import DEBUG_ROOT
from tracer.resolve.elf.file import Elf

PREFIX = "build-id:"
_DIGITS = re.compile(r"[0-9a-fA-F]{8,128}")
_NAMED = 3


def files_of(text: str, target: Target) -> list[tuple[str, str]]:
    """The build-ids and paths of the files that `build-id:HEX` means: all that processes run (or with -p those; with
    -c the command) whose build-id begins so. Raises `TracerError` where there is none, or they are not the same.
    """
    digits = text.removeprefix(PREFIX)
    if not _DIGITS.fullmatch(digits):
        what = f"'{printable(digits)}' is not a build-id, which has at least 8 hexadecimal digits"
        raise TracerError(what, "a file of the name build-id is written ./build-id")
    wanted = digits.lower()
    built = [(_build_id(path), path) for path in running_files(target)]
    matching = [(build_id, path) for build_id, path in built if build_id is not None and build_id.startswith(wanted)]
    if not matching:
        raise _unknown(wanted, target)
    every = sorted({build_id for build_id, _ in matching})
    if len(every) > 1:
        names = ", ".join(f"{build_id} ({printable(path)})" for build_id, path in matching[:_NAMED])
        raise TracerError(f"build-id {wanted} may be {len(every)} files: {names}", "write more of its digits")
    return matching


def running_files(target: Target) -> Iterator[str]:
    """The files that processes run: the programs and libraries of some, of the command of `-c`, or of all. Each file
    once, by a path from here if there is one, and else by one through a process.
    """
    if not target.pids and target.program is not None:
        from tracer.resolve.files.loaded import loaded_files

        yield from loaded_files(target.program)
        return
    seen: set[tuple[int, int]] = set()
    later: list[str] = []
    for process in target.pictures or map(Picture, sorted(pids())):
        for path in _of_process(process, len(target.pids) == 1):
            try:
                status = os.stat(path)
            except OSError:
                continue
            if (status.st_dev, status.st_ino) in seen:
                continue
            if path.startswith("/proc/"):
                later.append(path)
                continue
            seen.add((status.st_dev, status.st_ino))
            yield path
    for path in later:
        try:
            status = os.stat(path)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield path


def _of_process(process: Picture, needed: bool) -> Iterator[str]:
    try:
        prefix, every = process.root, process.mappings
    except TracerError:
        if needed:
            raise
        return
    yielded: set[tuple[str, int]] = set()
    for mapping in every:
        if mapping.executable and mapping.file is not None and mapping.file not in yielded:
            yielded.add(mapping.file)
            yield path_of(process.pid, mapping, prefix) or f"{directory(process.pid)}/map_files/{mapping.key}"


def _build_id(path: str) -> str | None:
    try:
        with Elf(path) as elf:
            return elf.build_id
    except TracerError:
        return None


def _unknown(wanted: str, target: Target) -> TracerError:
    debug = f"{DEBUG_ROOT}/.build-id/{wanted[:2]}/{wanted[2:]}.debug"
    if os.path.exists(debug):
        hint = f"{debug} is its debug information, and not the file: start what runs it"
    else:
        hint = "start a program that uses it: tracer asks running processes; `file PATH` shows a file's build-id"
    if target.pids:
        from tracer.host.file_users import listed

        verb = "runs" if len(target.pids) == 1 else "run"
        return TracerError(f"{listed(target.pids)} {verb} no file of build-id {wanted}", hint)
    if target.program is not None:
        return TracerError(f"{printable(target.program)} and its libraries are not of build-id {wanted}", hint)
    return TracerError(f"no process runs a file of build-id {wanted}", hint)
