"""Breakpoints that a process has copied with its code, to memory of its own over the place of that code.

No probe has them, so the kernel takes none out, and the first that the process reaches ends it by SIGTRAP, maybe long
after the trace. The instruction of the file is written back there, where all else is the file's code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing, suppress

from tracer.errors import TracerError
from tracer.host.maps import mappings
from tracer.host.memory import open_memory, read, write
from tracer.kinds.arch import EM_AARCH64
from tracer.resolve.elf.file import Elf
from tracer.resolve.safety.opcodes import LONGEST, is_breakpoint
from tracer.resolve.sites.in_memory import own_copies

_INT3 = 0xCC


def take_out(pid: int, path: str, inode: int, places: Sequence[tuple[int, int]]) -> list[int]:
    """Takes out those at places of a file, each an offset and its address in the file; returns the offsets of those
    that stay. Nothing where the process or the file has gone.
    """
    with suppress(OSError, TracerError), closing(Elf(path)) as elf:
        if elf.inode != inode:
            return []
        every = mappings(pid)
        memory = open_memory(pid, write=True)
        try:
            copies = [(offset, address) for offset, place in places for address in own_copies(every, elf, inode, place)]
            return [offset for offset, address in copies if not _put_back(memory, address, elf, offset)]
        finally:
            os.close(memory)
    return []


def _put_back(memory: int, address: int, elf: Elf, offset: int) -> bool:
    """Whether none stands there now."""
    wanted = elf.some(offset, LONGEST)
    try:
        now = read(memory, len(wanted), address)
        if not is_breakpoint(now, elf.machine) or is_breakpoint(wanted, elf.machine):
            return True
        size = 4 if elf.machine == EM_AARCH64 else 1
        if all(byte in (original, _INT3) for byte, original in zip(now[size:], wanted[size:], strict=False)):
            write(memory, wanted[:size], address)
        return not is_breakpoint(read(memory, len(wanted), address), elf.machine)
    except OSError:
        return False
