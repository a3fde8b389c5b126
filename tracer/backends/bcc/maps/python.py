"""The functions of Python on stacks: user space's half of `bpf_programs/python.h`."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from tracer.dataclass import names
from tracer.host.memory import open_memory, read
from tracer.host.stat import directory
from tracer.kernel import bpf
from tracer.kernel.bpf import MapType
from tracer.resolve.interpreters.python.interpreter import Code, Text
from tracer.resolve.interpreters.python.layouts import Layout

if TYPE_CHECKING:
    from tracer.resolve.interpreters.description import Image
    from tracer.resolve.interpreters.frames import Interpreters, Loaded

_MOST_IMAGES, _MOST_CODES = 4096, 1 << 16
_HOST = struct.Struct("=5Q")
_SPACE = struct.Struct("=QQ")
_IMAGE = struct.Struct("=QQ27I4x")
_RECORD = struct.Struct("=8xQQQQ5Q6Q256s512s")
_TABLE_ROOM = 4096
_READ, _UNREADABLE = 1 << 32, (1 << 64) - 1
_LONGEST_TABLE, _ALL_LONGER_TABLES = 1 << 20, 1 << 26
"""How many bytes are read from processes' memory, for one function and in all. Beyond that, lines stay unknown."""
_TEXT_AT = struct.Struct("=16xQ8xI")
_START_CODE, _START_STACK = 23, 25
"""Fields of /proc/PID/stat after the name."""

_MEMBERS = {
    "task_struct": ("mm", "thread"),
    "thread_struct": ("fsbase",),
    "mm_struct": ("start_stack", "start_code"),
}


def create_maps(first: int) -> dict[int, int]:
    """The maps, by number from `first` on. Raises `OSError`."""
    host = bpf.map_create(MapType.ARRAY, 4, _HOST.size, 1, name="tracer_host")
    maps = {first: host}
    try:
        bpf.map_update(host, struct.pack("=I", 0), _HOST.pack(*_places(), 0))
        for number, (key, value, most) in enumerate(
            ((_SPACE.size, _IMAGE.size, _MOST_IMAGES), (24, 48, _MOST_CODES)), 1
        ):
            maps[first + number] = bpf.map_create(MapType.LRU_HASH, key, value, most, name="tracer_python")
    except BaseException:
        for descriptor in maps.values():
            os.close(descriptor)
        raise
    return maps


def _places() -> tuple[int, ...]:
    """The offsets at which the kernel keeps the values that tell threads and address spaces apart."""
    from tracer.kernel import btf

    offsets = btf.own_offsets(_MEMBERS)
    memory = "mm_struct"
    return (
        offsets["task_struct", "thread"] + offsets["thread_struct", "fsbase"],
        offsets["task_struct", "mm"],
        offsets[memory, "start_stack"],
        offsets[memory, "start_code"],
    )


class PythonFrames:
    """Tells the programs which processes run Python, and takes what they send of code objects."""

    def __init__(self, images: int, interpreters: Interpreters) -> None:
        self._images = images
        self.interpreters = interpreters
        self._room = _ALL_LONGER_TABLES

    def look(self) -> None:
        """Tells the programs of processes that run Python since the last call."""
        for pid, loaded in self.interpreters.newly_mapped():
            space = _space(pid)
            if space is not None:
                bpf.map_update(self._images, space, self._packed(loaded))

    def take(self, data: bytes, offset: int) -> None:
        """A code object that the programs have met; once it was taken this does nothing."""
        number, process, version, address, *words, name, file = _RECORD.unpack_from(data, offset)
        if self.interpreters.knows(number):
            return
        parts, (traceable, *texts, table_length) = words[:5], words[5:]
        image = self.interpreters.layouts[version]
        behind = offset + _RECORD.size
        table: bytes | None = None
        if table_length <= _TABLE_ROOM:
            table = bytes(data[behind : behind + table_length])
        memory = _Memory(process, address, image, parts)
        if table is None and table_length < min(_LONGEST_TABLE, self._room):
            self._room -= table_length
            table = memory.read(parts[2] + 32, table_length)
        code = Code(
            memory.text(Text(texts[0], texts[1], name), parts[0]),
            memory.text(Text(texts[2], texts[3], file), parts[1]),
            parts[3], traceable, table,
        )  # fmt: skip
        self.interpreters.learn(number, image, code)

    def _packed(self, loaded: Loaded) -> bytes:
        image = loaded.image
        layout = [getattr(image.layout, member) for member in names(image.layout)]
        layout[-1] = self.interpreters.layouts.index(image)
        return _IMAGE.pack(image.runtime + loaded.bias, image.code_type + loaded.bias, *layout)


class _Memory:
    """The parts of a code object that the programs could not read or had no room for: read from the process, if the
    code object is still there.
    """

    def __init__(self, pid: int, address: int, image: Image, parts: list[int]) -> None:
        self._pid = pid
        self._address = address
        self._layout: Layout = image.layout
        self._parts = parts

    def read(self, address: int, size: int) -> bytes | None:
        """Reads memory of the process; None if it cannot be read, or may belong to another code object."""
        layout = self._layout
        places = (layout.name, layout.file, layout.table)
        try:
            memory = open_memory(self._pid)
            try:
                data = read(memory, size, address)
                now = [struct.unpack("=Q", read(memory, 8, self._address + place))[0] for place in places]
            finally:
                os.close(memory)
        except (OSError, struct.error, OverflowError):
            return None
        return data if len(data) == size and now == self._parts[:3] else None

    def text(self, sent: Text, address: int) -> Text:
        """The text; read from the process if the programs could not read it."""
        if sent.state & _READ:
            return sent
        head = self.read(address, _TEXT_AT.size)
        if head is None:
            return Text(0, 0, b"")
        length, state = _TEXT_AT.unpack(head)
        start = self._layout.ascii if state & 64 else self._layout.compact
        size = min(length * (state >> 2 & 7), 4096)
        data = self.read(address + start, size)
        return Text(state, length, data) if data is not None else Text(0, 0, b"")


def _space(pid: int) -> bytes | None:
    """The identity of a process's address space, as in `struct python_space`."""
    try:
        with open(f"{directory(pid)}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _SPACE.pack(int(fields[_START_STACK]), int(fields[_START_CODE]))
