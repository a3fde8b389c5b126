"""The layout of values in memory that the kernel's programs and we share: map keys, map values and tuples.

Everything is a multiple of eight bytes, so that no struct has holes (a hole is garbage in a hash key) and strings can
be compared by words:

| type | bytes |
|---|---|
| integers, bool, username, ksym, cgroup path, timestamp | 8: the value extended by its sign |
| string[n] | n rounded up to 8, or to 64 from 65 on; zeros behind the text |
| tuple | its items in order |
| ustack | 8 pid, 8 length in bytes, 8 for each frame, padded as a string is; zeros behind |
| usym | 8 pid, 8 address |
| struct, union, array | as in C, zeros behind up to 8 |
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

from tracer.dataclass import dataclass
from tracer.lang.types import (
    BoolType,
    CgroupPathType,
    FloatType,
    IntType,
    KernelSymbolType,
    Stack,
    StackType,
    StringType,
    Symbol,
    SymbolType,
    TimestampType,
    TupleType,
    Type,
    UsernameType,
    Value,
    is_block,
    memory_size,
)
from tracer.results.values import Key

SHORT_TEXT = 64
"""Strings up to this size are cheap: they live on the BPF stack, and short keys of long buffers have their own map."""

_TEXTS = (SHORT_TEXT, 256)
"""Keys whose text ends before one of these have a table of their own: to hash a kilobyte takes 0.4 us, 256 bytes a
quarter of that.
"""

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_Decoder = Callable[[bytes, int], Value]


def size_of(kind: Type) -> int:
    """Bytes of a value of this type."""
    match kind:
        case StringType(size=size):
            return _padded(size)
        case TupleType(items=items):
            return sum(map(size_of, items))
        case StackType(words=words):
            return 16 + _padded(8 * words)
        case SymbolType():
            return 16
        case _:
            return -(-memory_size(kind) // 8) * 8 if is_block(kind) else 8


def _padded(size: int) -> int:
    unit = 8 if size <= SHORT_TEXT else SHORT_TEXT
    return -(-size // unit) * unit


def encode(kind: Type, value: Value) -> bytes:
    """The bytes of a value; strings are cut to their buffer."""
    match kind:
        case StringType(size=size):
            assert isinstance(value, bytes)
            return value[: size - 1].ljust(size_of(kind), b"\0")
        case TupleType(items=items):
            assert isinstance(value, tuple)
            return b"".join(map(encode, items, value))
        case StackType(words=words):
            assert isinstance(value, Stack)
            addresses = value.addresses[:words]
            packed = struct.pack(f"=QQ{len(addresses)}Q", value.pid, 8 * len(addresses), *addresses)
            return packed.ljust(size_of(kind), b"\0")
        case SymbolType():
            assert isinstance(value, Symbol)
            return struct.pack("=QQ", *value)
        case _ if is_block(kind):
            assert isinstance(value, bytes)
            return value.ljust(size_of(kind), b"\0")
        case _:
            assert isinstance(value, int)
            return struct.pack("=Q", value & _MASK)


def decoder(kind: Type) -> _Decoder:
    """A function from bytes and an offset to the value there."""
    match kind:
        case StringType(size=size):
            return lambda data, offset: data[offset : offset + size - 1].partition(b"\0")[0]
        case TupleType(items=items):
            parts: list[tuple[_Decoder, int]] = []
            begin = 0
            for item in items:
                parts.append((decoder(item), begin))
                begin += size_of(item)
            return lambda data, offset: tuple(decode(data, offset + start) for decode, start in parts)
        case StackType():
            return _decode_stack
        case SymbolType():
            return lambda data, offset: Symbol(*struct.unpack_from("=QQ", data, offset))
        case _ if is_block(kind):
            length = memory_size(kind)
            return lambda data, offset: data[offset : offset + length]
        case BoolType():
            return lambda data, offset: data[offset] != 0
        case IntType(bits=bits, signed=signed):
            width = bits // 8
            sign = signed
            return lambda data, offset: int.from_bytes(data[offset : offset + width], sys.byteorder, signed=sign)
        case _:
            return lambda data, offset: int.from_bytes(data[offset : offset + 8], sys.byteorder)


def wrap(kind: Type, value: int) -> int:
    """An integer cut to the width and sign of its type (64 bits, signed, for what is no integer type)."""
    bits, signed = (kind.bits, kind.signed) if isinstance(kind, IntType) else (64, True)
    if isinstance(kind, UsernameType | KernelSymbolType | CgroupPathType | TimestampType | FloatType):
        signed = False
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _decode_stack(data: bytes, offset: int) -> Stack:
    pid, length = struct.unpack_from("=QQ", data, offset)
    return Stack(pid, struct.unpack_from(f"={length // 8}Q", data, offset + 16))


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """The bytes of a map's key: an optional head of eight bytes (u32 generation, u32 bucket) with an optional u64 mark
    behind it (see `marks`), then the parts.

    `offsets` say where each part stands. If a part is a long string, the last such part stands at the end: while its
    text ends early, the first bytes of the key say everything, and a table whose keys are that prefix is cheaper by far
    to hash. `sizes` are the bytes of a key in each of the map's tables, the whole one last; a key lives in the first
    table that it fits.
    """

    parts: tuple[Type, ...]
    head: bool
    offsets: tuple[int, ...]
    size: int
    sizes: tuple[int, ...]
    marked: bool = False

    @staticmethod
    def of(parts: tuple[Type, ...], *, head: bool, marked: bool = False) -> KeyLayout:
        """The layout for these parts; a key without parts has at least its head."""
        long_text = [i for i, part in enumerate(parts) if isinstance(part, StringType) and part.size > SHORT_TEXT]
        last = long_text[-1] if long_text else None
        head = head or marked or not parts
        size = 8 * (head + marked)
        offsets = [0] * len(parts)
        for index in sorted(range(len(parts)), key=lambda index: index == last):
            offsets[index] = size
            size += size_of(parts[index])
        shorter = () if last is None else [size - size_of(parts[last]) + room for room in _TEXTS]
        sizes = (*(whole for whole in shorter if whole < size), size)
        return KeyLayout(parts, head, tuple(offsets), size, sizes, marked)

    def encode(self, key: Key, generation: int = 0, bucket: int = 0, mark: int = 0) -> bytes:
        """The bytes for the table where the key lives: `sizes` tells by their number which one it is."""
        raw = bytearray(self.size)
        if self.head:
            struct.pack_into("=II", raw, 0, generation, bucket)
        if self.marked:
            struct.pack_into("=Q", raw, 8, mark)
        for part, offset, value in zip(self.parts, self.offsets, key, strict=True):
            raw[offset : offset + size_of(part)] = encode(part, value)
        return bytes(raw[: next((size for size in self.sizes[:-1] if raw[size - 1] == 0), self.size)])

    def decoder(self) -> Callable[[bytes], Key]:
        """A function from the bytes of a key to its parts."""
        decoders = [(decoder(part), offset) for part, offset in zip(self.parts, self.offsets, strict=True)]
        if len(decoders) == 1:
            decode, start = decoders[0]
            return lambda raw: (decode(raw, start),)
        return lambda raw: tuple(decode(raw, start) for decode, start in decoders)
