"""The kernel's own structures as types of the language, from what it tells of itself (BTF, Documentation/bpf/btf.rst).

A type is made when somebody asks for it. Where each of the hundred thousand begins is found once, and kept.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property

from tracer import cache
from tracer.lang.types import (
    ArrayType,
    CharType,
    EnumType,
    Field,
    FloatType,
    IntType,
    NamedType,
    PointerType,
    StructType,
    Type,
    memory_size,
)
from tracer.lang.types.declared import OF_KERNEL
from tracer.lang.types.sizes import bit_field

_KIND = "btf types"
_MAGIC = 0xEB9F
_INT, _POINTER, _ARRAY, _STRUCT, _UNION, _ENUM, _FORWARD, _TYPEDEF = 1, 2, 3, 4, 5, 6, 7, 8
_FLOAT, _ENUM_64 = 16, 19
_BEHIND = frozenset((_TYPEDEF, 9, 10, 11, 18))
"""A typedef, volatile, const, restrict and a type tag: another name or quality of the type that they lead to."""
_FIXED = {_INT: 4, _ARRAY: 12, 14: 4, 17: 4}
_EACH = {_STRUCT: 12, _UNION: 12, _ENUM: 8, 13: 8, 15: 12, _ENUM_64: 12}
"""Bytes behind a type's first twelve: fixed, and for each of its parts."""
_WORDS = {_STRUCT: "struct ", _UNION: "union ", _ENUM: "enum ", _ENUM_64: "enum "}
_DEEPEST, _MOST_BYTES = 24, 1 << 31
_SIGNED, _CHAR = 1, 2


class KernelTypes:
    """The types of BTF, of which `path` is the name. Raises `ValueError` for what is no BTF of this machine's."""

    def __init__(self, data: bytes, path: str = "") -> None:
        self._data, self._path = data, path
        self._head = struct.Struct("=III").unpack_from
        try:
            magic, _, _, header, first, size, texts, length = struct.unpack_from("=HBBIIIII", data)
        except struct.error as error:
            raise ValueError("damaged BTF") from error
        if magic != _MAGIC or header + first + size > len(data):
            raise ValueError("no BTF")
        self._texts = data[header + texts : header + texts + length]
        self._first, self._end = header + first, header + first + size

    @classmethod
    def own(cls) -> KernelTypes:
        """Those of the kernel that runs. Raises `OSError` where it does not tell, and `ValueError`."""
        with open(OF_KERNEL, "rb") as file:
            return cls(file.read(), OF_KERNEL)

    def type(self, name: str) -> Type | None:
        """The type of a name as C writes it: `struct sock`, `enum pid_type`, `u64`; None where there is none."""
        word, _, rest = name.rpartition(" ")
        kinds = {kind for kind, text in _WORDS.items() if text == f"{word} "} if word else {_INT, _TYPEDEF}
        number = self._named(rest.encode(), kinds)
        return None if number is None else self.type_at(number)

    def constant(self, name: str) -> int | None:
        """The value of an enumerator; None where no enum has it."""
        text = self._texts.find(b"\0%b\0" % name.encode()) + 1
        start = self._first - 1
        while text and (start := self._data.find(struct.pack("=I", text), start + 1, self._end)) >= 0:
            number = bisect_right(self._starts, start) - 1
            kind = self.type_at(number) if number > 0 and (start - self._starts[number] - 12) % 4 == 0 else None
            if isinstance(kind, EnumType) and (value := dict(kind.members).get(name)) is not None:
                return value
        return None

    def to(self, name: str) -> NamedType | None:
        """What a pointer to the structure of a name leads to; None where there is none."""
        word, _, rest = name.rpartition(" ")
        number = self._named(rest.encode(), {kind for kind, text in _WORDS.items() if text == f"{word} "})
        return None if number is None else NamedType(name, (self._path, number))

    def type_at(self, number: int) -> Type | None:
        """The type with a number; None for one that the language does not have, or that is damaged."""
        try:
            return self._type(number, 0)
        except (struct.error, IndexError, ValueError, RecursionError):
            return None

    @cached_property
    def _starts(self) -> array[int]:
        """Where each type begins, by its number. Those of the kernel are kept: it takes 20 ms to find them."""
        system, starts = os.uname(), array("I")
        key = cache.key_of(system.release, system.version, system.machine, str(len(self._data)))
        if self._path == OF_KERNEL and (kept := cache.load(_KIND, key)) is not None:
            starts.frombytes(kept)
            return starts
        starts.append(0)  # void
        place, head, data, end = self._first, struct.Struct("=4xI").unpack_from, self._data, self._end
        fixed, parts, add = _FIXED.get, _EACH.get, starts.append
        while place + 12 <= end:
            add(place)
            (info,) = head(data, place)
            kind = info >> 24 & 31
            place += 12 + fixed(kind, 0) + parts(kind, 0) * (info & 0xFFFF)
        if self._path == OF_KERNEL:
            cache.store(_KIND, key, starts.tobytes())
        return starts

    def _named(self, name: bytes, kinds: set[int]) -> int | None:
        """The number of the first type of that name and of one of these kinds."""
        text = self._texts.find(b"\0%b\0" % name) + 1
        if not text:
            return None
        word = struct.pack("=I", text)
        start = self._data.find(word, self._first, self._end)
        starts = self._starts
        while start >= 0:
            if (start - self._first) % 4 == 0 and start + 12 <= self._end:
                _, info, _ = self._head(self._data, start)
                if info >> 24 & 31 in kinds:
                    number = bisect_left(starts, start)
                    # The word can be a part of another type too.
                    if number < len(starts) and starts[number] == start:
                        return number
            start = self._data.find(word, start + 1, self._end)
        return None

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        """Place, name, information and size or type of a type."""
        place = self._starts[number]
        if not number or number >= len(self._starts):
            raise IndexError(number)
        name, info, size = self._head(self._data, place)
        return place, name, info, size

    def _text(self, start: int) -> str:
        return self._texts[start : self._texts.index(b"\0", start)].decode("utf-8", "replace") if start else ""

    def _behind(self, number: int) -> tuple[int, str]:
        """The type behind typedefs and qualities, 0 for void, and the name of the innermost typedef."""
        name = ""
        for _ in range(_DEEPEST):
            if not number:
                return 0, name
            _, text, info, inner = self._entry(number)
            kind = info >> 24 & 31
            if kind not in _BEHIND:
                return number, name
            name = self._text(text) if kind == _TYPEDEF else name
            number = inner
        raise ValueError("too deep")

    def _type(self, number: int, deep: int) -> Type | None:
        if deep > _DEEPEST:
            raise ValueError("too deep")
        number, typedef = self._behind(number)
        if not number:
            return None
        place, name, info, size = self._entry(number)
        count = info & 0xFFFF
        match info >> 24 & 31:
            case 1:
                return self._integer(place, self._text(name), size)
            case 16 if size in (4, 8):
                return FloatType(8 * size)
            case 2:
                return PointerType(target=self._target(size, deep + 1))
            case 3:
                item, _, items = self._head(self._data, place + 12)
                inner = self._type(item, deep + 1)
                if inner is None or items * memory_size(inner) > _MOST_BYTES:
                    return None
                return ArrayType(inner, items)
            case 4 | 5 as kind:
                title = _WORDS[kind] + (self._text(name) or typedef or "<anonymous>")
                return StructType(title, size, tuple(self._fields(place, count, bool(info >> 31), size, deep + 1)))
            case 6 | 19 as kind:
                return self._enumeration(place, self._text(name) or typedef, count, info >> 31, size, kind == _ENUM_64)
        return None

    def _integer(self, place: int, name: str, size: int) -> Type | None:
        (word,) = struct.unpack_from("=I", self._data, place + 12)
        encoding = word >> 24 & 15
        if size == 1 and (name == "char" or encoding & _CHAR):
            return CharType()
        if size in (1, 2, 4, 8):
            return IntType(8 * size, bool(encoding & _SIGNED))
        return ArrayType(IntType(64, False), 2) if size == 16 else None

    def _enumeration(self, place: int, name: str, count: int, signed: int, size: int, wide: bool) -> Type:
        step, words = (12 if wide else 8), list[tuple[str, int]]()
        for spot in range(place + 12, place + 12 + step * count, step):
            text, low = struct.unpack_from("=II", self._data, spot)
            high = struct.unpack_from("=I", self._data, spot + 8)[0] if wide else 0
            number = high << 32 | low
            top = 64 if wide else 32
            words.append((self._text(text), number - (1 << top) if signed and number >> (top - 1) else number))
        return EnumType(8 * size, bool(signed), f"enum {name}".strip(), tuple(words))

    def _target(self, number: int, deep: int) -> Type | None:
        """The type that a pointer leads to: a name for a struct, which is read when somebody reads there."""
        number, _ = self._behind(number)
        if not number:
            return None
        _, name, info, _ = self._entry(number)
        kind = info >> 24 & 31
        if kind in (_STRUCT, _UNION):
            return NamedType(_WORDS[kind] + (self._text(name) or "<anonymous>"), (self._path, number))
        if kind == _FORWARD:
            return NamedType(("union " if info >> 31 else "struct ") + self._text(name))
        return self._type(number, deep)

    def _fields(self, place: int, count: int, has_bits: bool, size: int, deep: int) -> list[Field]:
        fields: list[Field] = []
        for spot in range(place + 12, place + 12 + 12 * count, 12):
            name, number, offset = self._head(self._data, spot)
            width, first = (offset >> 24, offset & 0xFF_FFFF) if has_bits else (0, offset)
            kind = self._type(number, deep)
            if kind is None:
                continue
            if width:
                field = bit_field(self._text(name), kind, first, width, size) if isinstance(kind, IntType) else None
                fields += [] if field is None else [field]
            else:
                fields.append(Field(self._text(name), kind, first // 8))
        return fields
