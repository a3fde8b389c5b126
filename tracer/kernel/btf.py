"""The offsets of members in the kernel's structures, as the kernel itself tells them, and types for functions of ours
(BTF, include/uapi/linux/btf.h).
"""

from __future__ import annotations

import marshal
import os
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence

from tracer import cache

_KIND = "btf"
KERNEL = "/sys/kernel/btf/vmlinux"
"""Where the kernel describes itself."""

_MAGIC = 0xEB9F
_INT, _STRUCT, _UNION, _FUNCTION, _SIGNATURE = 1, 4, 5, 12, 13
_SIGNED_32 = 1 << 24 | 32
# What follows a type's 12 bytes: fixed, and for each of its `vlen`. Not listed: nothing.
_FIXED = {1: 4, 3: 12, 14: 4, 17: 4}
_EACH = {_STRUCT: 12, _UNION: 12, 6: 8, 13: 8, 15: 12, 19: 12}
_WORD, _HEAD, _MEMBER = struct.Struct("=I"), struct.Struct("=II"), struct.Struct("=III")

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


def offsets(wanted: Mapping[str, Sequence[str]], data: bytes) -> dict[tuple[str, str], int]:
    """The offsets in bytes of the `wanted` members of each structure, by (structure, member); what is not there is left
    out. Raises `ValueError` for what is no BTF of this machine's.
    """
    try:
        types = _Types(data)
        by_member: dict[tuple[str, str], int] = {}
        for owner, start in types.structures(wanted).items():
            places, unnamed, missing = [(start, 0)], list[tuple[int, int]](), set(wanted[owner])
            while missing and (places or unnamed):
                if not places:
                    # Only where something is missing: to find a type by its number takes long.
                    kind, base = unnamed.pop(0)
                    if types.is_compound(kind):
                        places.append((types.at(kind), base))
                    continue
                start, base = places.pop()
                for name, kind, offset in types.members(start):
                    if name in missing:
                        by_member[owner, name] = base + offset
                        missing.discard(name)
                    elif not name:
                        unnamed.append((kind, base + offset))
        return by_member
    except (struct.error, IndexError) as error:
        raise ValueError("damaged BTF") from error


def own_offsets(wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], int]:
    """The offsets in the kernel that runs. They are kept: it takes 5 MB and some 40 ms to read how it describes itself.
    Raises `OSError`, and `ValueError` as `offsets`.
    """
    system = os.uname()
    size = os.stat(KERNEL).st_size
    key = cache.key_of(system.release, system.version, system.machine, str(size), repr(sorted(wanted.items())))
    if (kept := cache.load(_KIND, key)) is not None:
        offsets_here: dict[tuple[str, str], int] = marshal.loads(kept)
        return offsets_here
    with open(KERNEL, "rb") as file:
        offsets_here = offsets(wanted, file.read())
    cache.store(_KIND, key, marshal.dumps(offsets_here))
    return offsets_here


class _Types:
    """The types, read as far as they are asked for: of a hundred thousand we want some of the first."""

    def __init__(self, data: bytes) -> None:
        magic, _, _, header, first, size, texts, length = struct.unpack_from("=HBBIIIII", data)
        if magic != _MAGIC:
            raise ValueError("no BTF")
        self._data = data
        self._texts = data[header + texts : header + texts + length]
        self._starts = [0]  # by number; 0 is void
        self._first, self._end = header + first, header + first + size
        self._next = self._first

    def structures(self, names: Collection[str]) -> dict[str, int]:
        """The places at which the structures of these names begin."""
        starts: dict[str, int] = {}
        for wanted in names:
            name = self._texts.find(b"\0%b\0" % wanted.encode()) + 1
            start = self._data.find(_WORD.pack(name), self._first, self._end) if name else -1
            while start >= 0:
                # Where the same word is the name of a member, the number of its type follows: it is below 1 << 24.
                if (start - self._first) % 4 == 0 and _HEAD.unpack_from(self._data, start)[1] >> 24 & 31 == _STRUCT:
                    starts[wanted] = start
                    break
                start = self._data.find(_WORD.pack(name), start + 1, self._end)
        return starts

    def at(self, number: int) -> int:
        """The place at which a type begins."""
        while number >= len(self._starts):
            self._advance()
        return self._starts[number]

    def members(self, start: int) -> Iterator[tuple[str, int, int]]:
        """Name, type and offset of each member of a structure."""
        _, info = _HEAD.unpack_from(self._data, start)
        bits = 0xFF_FFFF if info >> 31 else 0xFFFF_FFFF  # of bit fields the upper byte is the size
        for place in range(start + 12, start + 12 + 12 * (info & 0xFFFF), 12):
            name, kind, offset = _MEMBER.unpack_from(self._data, place)
            yield self._text(name), kind, (offset & bits) // 8

    def is_compound(self, kind: int) -> bool:
        """Whether a type is a structure or a union."""
        return _HEAD.unpack_from(self._data, self.at(kind))[1] >> 24 & 31 in (_STRUCT, _UNION)

    def _text(self, start: int) -> str:
        return self._texts[start : self._texts.index(b"\0", start)].decode(errors="replace")

    def _advance(self) -> tuple[int, int]:
        head: tuple[int, int] = _HEAD.unpack_from(self._data, self._next)
        kind = head[1] >> 24 & 31
        self._starts.append(self._next)
        self._next += 12 + _FIXED.get(kind, 0) + _EACH.get(kind, 0) * (head[1] & 0xFFFF)
        return head
