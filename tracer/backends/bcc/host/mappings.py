"""The functions that programs have called back with the mapping of an address (bpf_find_vma, Linux 5.17).

The kernel calls them with the task, the mapping and what they are to write. They are assembled here, since they need
the places of members in the kernel's structures. `places.h` asks what lies there: start, place in the file, inode.
`prelude.h` asks whether a page that is not in memory comes without another process or machine.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from tracer.backends.bcc.host import trials
from tracer.backends.bcc.host.pid_namespace import has_btf

NUMBER, COMES = 900, 901
"""The functions' numbers (`EACH` in prelude.h)."""

_MEMBERS = {
    "vm_area_struct": ("vm_start", "vm_pgoff", "vm_file"),
    "file": ("f_inode",),
    "inode": ("i_ino",),
}
_ASKED = {
    "vm_area_struct": ("vm_file", "vm_userfaultfd_ctx"),
    "vm_userfaultfd_ctx": ("ctx",),
    "file": ("f_inode",),
    "inode": ("i_mode", "i_sb"),
    "super_block": ("s_magic",),
}
_LOCAL = {
    "ext2, ext3, ext4": 0xEF53, "xfs": 0x58465342, "btrfs": 0x9123683E, "tmpfs": 0x01021994, "ramfs": 0x858458F6,
    "hugetlbfs": 0x958458F6, "f2fs": 0xF2F52010, "zfs": 0x2FC12FC1, "bcachefs": 0xCA451A4E, "squashfs": 0x73717368,
    "iso9660": 0x9660, "fat": 0x4D44, "exfat": 0x2011BAB0, "ntfs3": 0x7366746E, "udf": 0x15013346,
    "jfs": 0x3153464A, "reiserfs": 0x52654973, "nilfs": 0x3434,
    "9p": 0x01021997,
}  # fmt: skip
"""File systems that read from a device of this machine or from its hypervisor (include/uapi/linux/magic.h; virtiofs
has FUSE's number). A file of overlayfs is mapped as the file below it.
"""
_FORMAT, _REGULAR = 0xF000, 0x8000
_LOAD, _LOAD_HALF, _AND, _JUMP, _EQUALS, _DIFFERS, _EQUALS_32 = 0x79, 0x69, 0x57, 0x05, 0x15, 0x55, 0x16
_YES, _OUT = -1, -2
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
        offsets = btf.own_offsets(_MEMBERS)
        mapping = "vm_area_struct"
        return (
            _BEGIN
            + _read(8, offsets[mapping, "vm_start"], 0)
            + _read(8, offsets[mapping, "vm_pgoff"], 8)
            + _read(8, offsets[mapping, "vm_file"], 16)
            + _follow(offsets["file", "f_inode"], 16)
            + _follow(offsets["inode", "i_ino"], 16)
            + _END
        )
    except (OSError, ValueError, KeyError):
        return b""


@lru_cache(maxsize=1)
def comes() -> bytes:
    """The instructions of the function that writes 1 for memory whose pages the kernel itself brings: anonymous memory
    that no userfaultfd serves, and regular files of a local file system. None where the kernel does not say where its
    members are, or has no bpf_find_vma. It reads members directly, which lockdown leaves open.
    """
    if not (trials.has("mappings") and has_btf()):
        return b""
    from tracer.kernel import btf

    try:
        offsets = btf.own_offsets(_ASKED)
        served = offsets.get(("vm_userfaultfd_ctx", "ctx"))  # None where the kernel has no userfaultfd
        owner = offsets["vm_area_struct", "vm_userfaultfd_ctx"] + served if served is not None else None
        code = [
            *([(_LOAD, 0x20, owner, 0), (_DIFFERS, 0, _OUT, 0)] if owner is not None else []),
            (_LOAD, 0x24, offsets["vm_area_struct", "vm_file"], 0), (_EQUALS, 4, _YES, 0),
            (_LOAD, 0x44, offsets["file", "f_inode"], 0), (_EQUALS, 4, _OUT, 0),
            (_LOAD_HALF, 0x40, offsets["inode", "i_mode"], 0), (_AND, 0, 0, _FORMAT), (_DIFFERS, 0, _OUT, _REGULAR),
            (_LOAD, 0x44, offsets["inode", "i_sb"], 0), (_EQUALS, 4, _OUT, 0),
            (_LOAD, 0x40, offsets["super_block", "s_magic"], 0),
            *((_EQUALS_32, 0, _YES, magic) for magic in _LOCAL.values()),
            (_JUMP, 0, _OUT, 0),
        ]  # fmt: skip
        ends = {_YES: len(code), _OUT: len(code) + 1}
        # Behind them: *(u64 *)(r3 + 0) = 1; r0 = 0; exit.
        return b"".join(
            struct.pack("=BBhI", opcode, registers, ends[to] - number - 1 if to in ends else to, value)
            for number, (opcode, registers, to, value) in enumerate(code)
        ) + bytes.fromhex("7a03000001000000" "b700000000000000" "9500000000000000")
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


def _follow(offset: int, word: int) -> bytes:
    """The instructions that read so from where the word at r6 + `word` points, and put the result there."""
    load = struct.pack("=BBhi", 0x79, 6 << 4 | 7, word, 0)  # r7 = *(u64 *)(r6 + at)
    return load + _read(7, offset, word)
