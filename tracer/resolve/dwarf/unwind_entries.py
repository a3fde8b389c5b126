"""The unwind tables (`.eh_frame`), which even a stripped file keeps: where functions begin and end, and by which
programs the caller's registers are found at each of their instructions (`resolve.unwind` runs those).

Nearly every compiler writes them for every function, C included, because the ABI of x86-64 and aarch64 asks for it.
`.eh_frame_hdr` is a sorted index over them. An entry (FDE) gives a function's range; its CIE says whether a
personality routine looks at exceptions that pass, and the FDE's LSDA pointer whether this very function catches or
cleans up.

`.debug_frame` says the same in a slightly other form; Go writes that alone.

Source: Linux Standard Base Core 5.0, chapters 10.5 and 10.6; DWARF 5, 6.4.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from tracer.dataclass import dataclass
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.elf.file import MAX_READ, Elf
from tracer.resolve.elf.structures import PT_GNU_EH_FRAME

_OMIT = 0xFF
_PC_RELATIVE, _DATA_RELATIVE = 0x10, 0x30
_FIXED = {0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0A: "<h", 0x0B: "<i", 0x0C: "<q"}
_WHOLE = {4: "<I", 8: "<Q"}
"""An address as it is, by its bytes."""


@dataclass(frozen=True, slots=True)
class Common:
    """The contents of a CIE, for its FDEs: pointer encodings, whether it names a personality routine, and of their
    programs the factors of code and data, the register of the return address, and what each begins with. `signal`: its
    frames are what the kernel leaves for a signal handler to return to.
    """

    augmented: bool
    pointer: int
    lsda: int
    personality: bool
    signal: bool
    code_factor: int
    data_factor: int
    return_register: int
    program: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """The range of one function. `handler` says that it has a table of catches or clean-ups of its own (LSDA);
    `program` is the call frame instructions (DW_CFA_…) behind those of its `common`.
    """

    start: int
    size: int
    handler: bool
    common: Common
    program: bytes


_MAX_AUGMENTATION = 16
"""The most letters of an augmentation string, with its end; compilers write five ("zPLRS"), and each of a file's CIEs
could claim all of it.
"""


class _Damaged(Exception):
    """The tables cannot be read; they are then treated as absent."""


DAMAGE = (_Damaged, struct.error, IndexError)
"""The exceptions of reading damaged tables."""


class Frames:
    """The unwind tables of one file. Damaged or unusual tables count as none."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._word = elf.word
        self._start = 0
        self._data = b""
        self._index: tuple[list[int], list[int]] = ([], [])
        self._commons: dict[int, Common] = {}
        self._damaged = False
        try:
            if not self._read_index():
                self._make_index()
        except DAMAGE:
            self._index = ([], [])
            self._damaged = True

    def _read_index(self) -> bool:
        """Takes the file's own index; False where it has none, or one of an unusual form."""
        segment = next((candidate for candidate in self._elf.segments if candidate.type == PT_GNU_EH_FRAME), None)
        if segment is None:
            return False
        header = self._elf.memory(segment.address, min(segment.file_size, MAX_READ), "the unwind index") or b""
        version, pointer, count, table = struct.unpack_from("<BBBB", header)
        if version != 1 or table != _DATA_RELATIVE | 0x0B:
            return False
        start, offset = _pointer(header, 4, pointer, segment.address, segment.address, self._word)
        entries, offset = _pointer(header, offset, count, segment.address, segment.address, self._word)
        entries = min(entries, (len(header) - offset) // 8)
        holder = self._elf.segment_at(start)
        if holder is None:
            raise _Damaged
        size = min(holder.address + holder.file_size - start, MAX_READ)
        section = self._elf.section(".eh_frame")
        if section is not None and section.address == start:
            size = min(size, section.size)
        self._start, self._data = start, self._elf.memory(start, size, "the unwind tables") or b""
        numbers = struct.unpack_from(f"<{2 * entries}i", header, offset)
        starts = [segment.address + number for number in numbers[::2]]
        if starts != sorted(starts):
            raise _Damaged
        self._index = (starts, [segment.address + number for number in numbers[1::2]])
        return True

    def _make_index(self) -> None:
        """Walks over all entries: static programs have no index."""
        section = self._elf.section(".eh_frame")
        if section is None:
            return
        self._start, self._data = section.address, self._elf.content(section)
        rows = []
        for position, common in self._entries():
            frame = None if common else self._frame(position)
            if frame is not None:
                rows.append((frame.start, section.address + position))
        rows.sort()
        self._index = ([start for start, _ in rows], [entry for _, entry in rows])

    def _entries(self) -> Iterator[tuple[int, bool]]:
        """The position of each entry, and whether it is a CIE."""
        position = 0
        while position + 8 <= len(self._data):
            length, identity = struct.unpack_from("<II", self._data, position)
            if length == 0xFFFFFFFF:
                raise _Damaged
            if length:  # a zero ends one object file's part, in what a linker put together carelessly
                yield position, identity == 0
            position += 4 + length

    def frame_at(self, address: int) -> Frame | None:
        """The entry whose range holds the address."""
        starts, entries = self._index
        index = bisect_right(starts, address) - 1
        if index < 0:
            return None
        try:
            frame = self._frame(entries[index] - self._start)
        except DAMAGE:
            return None
        return frame if frame is not None and frame.start <= address < frame.start + frame.size else None

    def end_before(self, address: int) -> int:
        """The end of the last entry that begins before an address; 0 for none."""
        starts, entries = self._index
        index = bisect_right(starts, address) - 1
        try:
            frame = self._frame(entries[index] - self._start) if index >= 0 else None
        except DAMAGE:
            return 0
        return 0 if frame is None else frame.start + frame.size

    @cached_property
    def personality(self) -> bool:
        """Whether any function of the file looks at exceptions that pass through it."""
        if self._damaged:
            return True  # nothing is proven
        try:
            return any(common and self._common(position).personality for position, common in self._entries())
        except DAMAGE:
            return True

    def _frame(self, position: int) -> Frame | None:
        length, back = struct.unpack_from("<II", self._data, position)
        if position < 0 or length in (0, 0xFFFFFFFF) or back == 0:
            return None
        common = self._common(position + 4 - back)
        offset = position + 8
        start, offset = _pointer(self._data, offset, common.pointer, self._start, 0, self._word)
        size, offset = _pointer(self._data, offset, common.pointer & 0x0F, self._start, 0, self._word)
        handler = False
        if common.augmented:
            augmentation, offset = leb(self._data, offset)
            if common.lsda != _OMIT:
                value, _ = _pointer(self._data, offset, common.lsda & 0x0F, self._start, 0, self._word)
                handler = value != 0
            offset += augmentation
        return Frame(start, size, handler, common, self._data[offset : position + 4 + length])

    def _common(self, position: int) -> Common:
        if position in self._commons:
            return self._commons[position]
        data = self._data
        if position < 0:
            raise _Damaged
        length, identity, version = struct.unpack_from("<IIB", data, position)
        if length in (0, 0xFFFFFFFF) or identity != 0 or version not in (1, 3):
            raise _Damaged
        end = position + 4 + length
        common = self._commons[position] = read_common(data, position + 9, end, version, self._start, self._word)
        return common


def read_common(data: bytes, offset: int, end: int, version: int, base: int, word: int) -> Common:
    """The CIE whose augmentation string begins at `offset` and which ends at `end`, of data that is loaded at `base`.
    `word`: the bytes of an address. Raises what is in `DAMAGE`.
    """
    close = data.find(b"\0", offset, offset + _MAX_AUGMENTATION)
    if close < 0:
        raise _Damaged
    augmentation = data[offset:close]
    offset = close + 1
    if version == 4:
        if data[offset : offset + 2] != bytes((word, 0)):  # size of an address, and of a segment's selector
            raise _Damaged
        offset += 2
    code_factor, offset = leb(data, offset)
    data_factor, offset = leb(data, offset, signed=True)
    register, offset = (data[offset], offset + 1) if version == 1 else leb(data, offset)
    pointer, lsda = 0, _OMIT
    if augmentation[:1] == b"z":
        size, offset = leb(data, offset)
        letters, program = offset, offset + size
        for letter in augmentation[1:]:
            if letter == ord("R"):
                pointer, letters = data[letters], letters + 1
            elif letter == ord("L"):
                lsda, letters = data[letters], letters + 1
            elif letter == ord("P"):
                _, letters = _pointer(data, letters + 1, data[letters] & 0x0F, base, 0, word)
            elif letter not in b"SBG":
                raise _Damaged
    elif augmentation:
        raise _Damaged
    else:
        program = offset
    return Common(
        augmentation[:1] == b"z", pointer, lsda, b"P" in augmentation, b"S" in augmentation, code_factor, data_factor,
        register, data[program:end],
    )  # fmt: skip


def _pointer(data: bytes, offset: int, encoding: int, base: int, data_base: int, word: int) -> tuple[int, int]:
    """The encoded pointer at an offset of data that is loaded at `base`, and the offset behind it. `word`: the bytes of
    an address.
    """
    layout = _FIXED.get(encoding & 0x0F) if encoding & 0x0F else _WHOLE[word]
    if layout is None:
        raise _Damaged
    (value,) = struct.unpack_from(layout, data, offset)
    if encoding & 0x70 == _PC_RELATIVE:
        value += base + offset
    elif encoding & 0x70 == _DATA_RELATIVE:
        value += data_base
    elif encoding & 0x70:
        raise _Damaged
    return value & (1 << 8 * word) - 1, offset + struct.calcsize(layout)
