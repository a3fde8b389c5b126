"""The function that `places.h` has called back with the mapping of an address (bpf_find_vma, Linux 5.17).

The kernel calls it with the task, the mapping and what it is to write: start, place in the file, inode. It is
assembled here, since it needs the places of members in the kernel's structures.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from tracer.backends.bcc.host import trials
from tracer.backends.bcc.host.pid_namespace import has_btf
from tracer.kernel.btf import KERNEL

NUMBER = 900
"""The function's number (`EACH` in prelude.h)."""

_MEMBERS = {
    "vm_area_struct": ("vm_start", "vm_pgoff", "vm_file"),
    "file": ("f_inode",),
    "inode": ("i_ino",),
}
_BEGIN = bytes.fromhex("bf36000000000000" "bf28000000000000")  # r6 = r3; r8 = r2
_READ = "b702000008000000" "8500000071000000"  # r2 = 8; call 113 (bpf_probe_read_kernel)
_END = bytes.fromhex("b700000000000000" "9500000000000000")  # r0 = 0; exit


def missing() -> bool:
    """Whether programs cannot ask for mappings here."""
    return not (trials.has("mappings") and trials.has("kernel_reads") and reader())


@lru_cache(maxsize=1)
def reader() -> bytes:
    """The function's instructions; none where the kernel does not say where its members are."""
    if not has_btf():
        return b""
    from tracer.kernel import btf

    try:
        with open(KERNEL, "rb") as file:
            at = btf.offsets(_MEMBERS, file.read())
        mapping = "vm_area_struct"
        return (
            _BEGIN
            + _read(8, at[mapping, "vm_start"], 0)
            + _read(8, at[mapping, "vm_pgoff"], 8)
            + _read(8, at[mapping, "vm_file"], 16)
            + _follow(at["file", "f_inode"], 16)
            + _follow(at["inode", "i_ino"], 16)
            + _END
        )
    except (OSError, ValueError, KeyError):
        return b""


def _read(base: int, offset: int, to: int) -> bytes:
    """*(u64 *)(r6 + to) = *(u64 *)(base + offset), 0 where that cannot be read."""
    return (
        struct.pack("=BBhi", 0xBF, base << 4 | 3, 0, 0)  # r3 = base
        + struct.pack("=BBhi", 0x07, 3, 0, offset)  # r3 += offset
        + struct.pack("=BBhi", 0xBF, 6 << 4 | 1, 0, 0)  # r1 = r6
        + struct.pack("=BBhi", 0x07, 1, 0, to)  # r1 += to
        + bytes.fromhex(_READ)
    )


def _follow(offset: int, at: int) -> bytes:
    """The same from where the word at r6 + `at` points, to there."""
    load = struct.pack("=BBhi", 0x79, 6 << 4 | 7, at, 0)  # r7 = *(u64 *)(r6 + at)
    return load + _read(7, offset, at)
