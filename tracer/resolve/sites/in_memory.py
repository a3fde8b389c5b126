"""Whether the kernel's breakpoint stands where a site is in the memory of a process.

A probe belongs to a file, and its hits come from a breakpoint in each process's own copy of the page. A process can run
that code from elsewhere: from memory that it copied its code to, or from the file that an overlay has copied since. It
can write other code over the place, and it can give the page back (MADV_DONTNEED), and gets a new one without the
breakpoint: the kernel sets it where a file is mapped, not where a page comes in.

/proc/PID/pagemap tells first whether the page is there, since reading one that is not would wait for it. Sources:
proc(5), Documentation/admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

from tracer.errors import TracerError
from tracer.host.maps import Mapping, Picture
from tracer.host.memory import open_memory, read
from tracer.host.stat import directory
from tracer.kinds.arch import EM_AARCH64
from tracer.kinds.site import FileSite
from tracer.resolve.elf.file import Elf
from tracer.resolve.safety.opcodes import LONGEST, is_breakpoint

State = Literal["set", "lacking", "patched", "moved"]
"""`set`: a hit traps. `lacking`: the code of the file stands there as it is. `patched`: it is other code. `moved`: what
stands at that address is not the file.
"""

_PRESENT, _SWAPPED, _OF_FILE = 1 << 63, 1 << 62, 1 << 61
_ENTRY = struct.Struct("=Q")
_WORST: tuple[State, ...] = ("moved", "patched", "lacking", "set")
_NOPS = (b"\x0f\x1f", b"\x66")
"""How a longer nop begins: what the kernel makes of it once it was hit is a call or a jump, not a breakpoint."""


def states(process: Picture, sites: Sequence[FileSite]) -> list[State | None]:
    """The state of each site in a process, the worst where it has the file mapped several times; None where that is
    not known, or the process does not use the file. Never waits for a page.
    """
    site_states: list[State | None] = [None] * len(sites)
    with ExitStack() as stack:
        try:
            every = process.mappings
            folder = directory(process.pid)
            pagemap = os.open(f"{folder}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, pagemap)
            memory = open_memory(process.pid)
            stack.callback(os.close, memory)
        except (OSError, TracerError):
            return site_states
        elves: dict[str, Elf | None] = {}
        for number, site in enumerate(sites):
            if site.path not in elves:
                elves[site.path] = elf = _opened(site.path)
                if elf is not None:
                    stack.callback(elf.close)
            elf = elves[site.path]
            if elf is None or elf.inode != site.identity.inode:
                continue
            here = [
                state
                for address in _addresses(every, site)
                if (state := _state_at(pagemap, memory, address, elf, site)) is not None
            ] or ["moved" for _ in own_copies(every, elf, site.identity.inode, site.address)]
            site_states[number] = next((state for state in _WORST if state in here), None)
    return site_states


def _addresses(every: Sequence[Mapping], site: FileSite) -> Iterator[int]:
    """The addresses of the site, in mappings of its file that can run."""
    for mapping in every:
        is_own = mapping.executable and mapping.file is not None and mapping.file[1] == site.identity.inode
        if is_own and mapping.offset <= site.offset < mapping.offset + mapping.end - mapping.start:
            yield mapping.start + site.offset - mapping.offset


def own_copies(every: Sequence[Mapping], elf: Elf, inode: int, address: int) -> Iterator[int]:
    """The addresses at which a site would be, by its address in the file: next to other parts of its file, in memory of
    the process's own that can run.
    """
    bases = set()
    for mapping in every:
        if mapping.file is None or mapping.file[1] != inode:
            continue
        for segment in elf.loads:
            first = segment.offset & -mmap.PAGESIZE
            if first <= mapping.offset < segment.offset + segment.file_size:
                bases.add(mapping.start - (mapping.offset - first) - (segment.address & -mmap.PAGESIZE))
    for base in bases:
        holder = next((mapping for mapping in every if mapping.start <= base + address < mapping.end), None)
        if holder is None or not holder.executable:
            continue
        # Large pages of hugetlbfs have a file, without a name that anybody could open. A process can name its memory.
        if holder.path == "" or holder.path.startswith(("/anon_hugepage", "[anon")):
            yield base + address


def _state_at(pagemap: int, memory: int, address: int, elf: Elf, site: FileSite) -> State | None:
    try:
        entry = os.pread(pagemap, _ENTRY.size, address // mmap.PAGESIZE * _ENTRY.size)
        if len(entry) < _ENTRY.size:
            return None
        (page,) = _ENTRY.unpack(entry)
        if page & _SWAPPED:
            return None
        if not page & _PRESENT or page & _OF_FILE:
            return "lacking"
        size = min(LONGEST, mmap.PAGESIZE - address % mmap.PAGESIZE)
        now, wanted = read(memory, size, address), elf.some(site.offset, size)
    except OSError:
        return None
    if is_breakpoint(now, elf.machine):
        return "set"
    if not now or not wanted:
        return None
    if _is_code_of_file(now, wanted, elf.machine):
        return "lacking"
    if wanted.startswith(_NOPS):
        return "set"
    # What differs further on may be of another site: a nop there that is a call by now.
    return "patched" if now[0] != wanted[0] or elf.machine == EM_AARCH64 else None


def _is_code_of_file(now: bytes, wanted: bytes, machine: int) -> bool:
    """Whether only breakpoints of other sites differ."""
    if machine == EM_AARCH64:
        return now[:4] == wanted[:4]
    return now[0] == wanted[0] and all(byte in (original, 0xCC) for byte, original in zip(now, wanted, strict=False))


def _opened(path: str) -> Elf | None:
    try:
        return Elf(path)
    except TracerError:
        return None
