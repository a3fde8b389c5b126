"""The offsets of members in the kernel's structures, as the kernel itself tells them, and types for functions of ours
(BTF, include/uapi/linux/btf.h).
"""

from __future__ import annotations

import marshal
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tracer import cache
from tracer.lang.types import StructType
from tracer.lang.types.declared import OF_KERNEL

if TYPE_CHECKING:
    from tracer.resolve.kernel_types import KernelTypes

_KIND = "btf"
_MAGIC = 0xEB9F
_INT, _FUNCTION, _SIGNATURE = 1, 12, 13
_SIGNED_32 = 1 << 24 | 32

FIRST_FUNCTION = 3
"""The number of the first type that `of_functions` makes for a function."""


def of_functions(count: int) -> bytes:
    """The types of so many static functions. That each takes nothing and gives an int is all that the kernel asks to be
    told of a program and of what it calls back (Linux 6.1, 6.18): it checks registers by itself.
    """
    texts = b"\0int\0f\0"
    types = struct.pack("=4I", 1, _INT << 24, 4, _SIGNED_32) + struct.pack("=3I", 0, _SIGNATURE << 24, 1)
    types += struct.pack("=3I", 5, _FUNCTION << 24, 2) * count
    head = struct.pack("=HBBIIIII", _MAGIC, 1, 0, 24, 0, len(types), len(types), len(texts))
    return head + types + texts


def offsets(wanted: Mapping[str, Sequence[str]], types: KernelTypes) -> dict[tuple[str, str], int]:
    """The offsets in bytes of the `wanted` members of each structure, by (structure, member); what is not there is left
    out.
    """
    by_member: dict[tuple[str, str], int] = {}
    for owner, members in wanted.items():
        structure = types.type(f"struct {owner}")
        if isinstance(structure, StructType):
            fields = {member: structure.field(member) for member in members}
            by_member |= {(owner, member): field.offset for member, field in fields.items() if field is not None}
    return by_member


def own_offsets(wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], int]:
    """The offsets in the kernel that runs. They are kept: it takes 5 MB and some 40 ms to read how it describes itself.
    Raises `OSError`, and `ValueError` as `offsets`.
    """
    system = os.uname()
    size = os.stat(OF_KERNEL).st_size
    key = cache.key_of(system.release, system.version, system.machine, str(size), repr(sorted(wanted.items())))
    if (kept := cache.load(_KIND, key)) is not None:
        offsets_here: dict[tuple[str, str], int] = marshal.loads(kept)
        return offsets_here
    from tracer.resolve.kernel_types import KernelTypes

    offsets_here = offsets(wanted, KernelTypes.own())
    cache.store(_KIND, key, marshal.dumps(offsets_here))
    return offsets_here
