"""The unwind tables of one file: `.eh_frame`, then `.debug_frame` of the file or of its debug file."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property

from tracer.errors import TracerError
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.sections import content
from tracer.resolve.dwarf.unwind_entries import DAMAGE, Common, Frame, Frames, read_common
from tracer.resolve.elf.file import Elf
from tracer.resolve.unwind.rules import Rule, rule_at

_CIE = 0xFFFFFFFF


class Tables:
    """The unwind tables of a file. Damaged tables count as none."""

    def __init__(self, elf: Elf, find_debug: Callable[[Elf], Elf | None] = lambda _: None) -> None:
        self._elf = elf
        self._find_debug = find_debug

    def rule(self, address: int) -> Rule | None:
        """The row of an instruction; None where no table has the address, or its program is not understood."""
        frame = self.frame(address)
        return None if frame is None else rule_at(frame.common, frame.program, frame.start, address)

    def frame(self, address: int) -> Frame | None:
        """The entry that holds an address."""
        frame = self._frames.frame_at(address) if self._frames is not None else None
        return frame or self._debug_frames.frame_at(address)

    def end_before(self, address: int) -> int:
        """The end of the last entry that begins before an address; 0 for none."""
        both = (self._frames, self._debug_frames)
        return max(tables.end_before(address) for tables in both if tables is not None)

    @cached_property
    def _frames(self) -> Frames | None:
        try:
            return Frames(self._elf)
        except TracerError:
            return None

    @cached_property
    def _debug_frames(self) -> DebugFrames:
        frames = DebugFrames(_section(self._elf), self._elf.word)
        if frames or self._elf.section(".eh_frame") is not None:
            return frames
        other = self._find_debug(self._elf)
        if other is None:
            return frames
        with other:
            return DebugFrames(_section(other), self._elf.word)


class DebugFrames:
    """The entries of `.debug_frame`, whose addresses stand in it as they are."""

    def __init__(self, data: bytes, word: int) -> None:
        """`word` is the bytes of an address."""
        self._data = data
        self._word = word
        self._commons: dict[int, Common] = {}
        self._entries: list[tuple[int, int, int, int, int]] = []
        try:
            self._read()
        except DAMAGE:
            self._entries = []
        self._entries.sort()
        self._starts = [entry[0] for entry in self._entries]

    def __bool__(self) -> bool:
        return bool(self._entries)

    def _read(self) -> None:
        offset, data, word = 0, self._data, self._word
        while offset + 16 <= len(data):
            length, common = struct.unpack_from("<II", data, offset)
            if length == 0xFFFFFFFF:
                return
            end = offset + 4 + length
            if common != _CIE and length >= 4 + 2 * word:
                start, size = struct.unpack_from("<QQ" if word == 8 else "<II", data, offset + 8)
                self._entries.append((start, size, common, offset + 8 + 2 * word, end))
            offset = end

    def end_before(self, address: int) -> int:
        """The end of the last entry that begins before an address; 0 for none."""
        index = bisect_right(self._starts, address) - 1
        return self._entries[index][0] + self._entries[index][1] if index >= 0 else 0

    def frame_at(self, address: int) -> Frame | None:
        """The entry whose range holds the address."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        start, size, position, offset, end = self._entries[index]
        if address >= start + size:
            return None
        try:
            common = self._commons.get(position)
            if common is None:
                length, identity, version = struct.unpack_from("<IIB", self._data, position)
                if identity != _CIE:
                    return None
                common = read_common(self._data, position + 9, position + 4 + length, version, 0, self._word)
                self._commons[position] = common
            if common.augmented:
                size_, offset = leb(self._data, offset)
                offset += size_
        except DAMAGE:
            return None
        return Frame(start, size, False, common, self._data[offset:end])


def _section(elf: Elf) -> bytes:
    try:
        return content(elf, ".debug_frame")
    except TracerError:
        return b""
