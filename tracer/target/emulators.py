"""Processes that read a program's code and do not run it: Valgrind's tools, and QEMU's user mode.

They translate the code that they find in the mapped file, breakpoints of probes included: no probe is hit, and the
program ends with SIGTRAP (valgrind 3.19 and qemu-x86_64 7.2 on Linux 6.18, by whatever tool the probe was set). What
they translated before the probe was there goes on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.host.maps import Picture
from tracer.host.stat import directory, pids
from tracer.kinds.site import Target

_EMULATORS = {
    "Valgrind": re.compile(r"/(?:valgrind(?:\.bin)?|valgrind/[^/]+-linux)$"),
    "QEMU": re.compile(r"/qemu-(?:x86_64|aarch64)(?:-static)?$"),
}
"""The programs that read code for this machine, by name. QEMU's system emulators map no traced file as code."""


@dataclass(frozen=True, slots=True)
class Emulated:
    """A file that an emulator reads; `pid` is None for the command of `-c`, which has not begun yet."""

    path: str
    emulator: str
    pid: int | None


def emulated(files: Mapping[int, str], target: Target) -> Emulated | None:
    """The path of a file, by its inode in `files`, that an emulator reads within the `target`. Where the command of
    `-c` is an emulator, it reads any of them. Only root sees other users' processes.
    """
    if target.program is not None and (emulator := _emulator(os.path.realpath(target.program))) is not None:
        return Emulated(next(iter(files.values())), emulator, None)
    # Who follows a process has its probes everywhere.
    for process in (() if target.follow else target.pictures) or map(Picture, pids()):
        number = process.pid
        try:
            emulator = _emulator(os.readlink(f"{directory(number)}/exe"))
            if emulator is None:
                continue
            # QEMU does not map code to be executed.
            mapped = {mapping.file[1] for mapping in process.mappings if mapping.file is not None}
        except (OSError, TracerError):
            continue
        for inode in mapped & files.keys():
            return Emulated(files[inode], emulator, number)
    return None


def _emulator(program: str) -> str | None:
    program = program.removesuffix(" (deleted)")
    return next((name for name, pattern in _EMULATORS.items() if pattern.search(program)), None)
