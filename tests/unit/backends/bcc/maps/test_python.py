"""Code objects of Python that programs have met, of which the process's memory says the rest."""

from __future__ import annotations

import ctypes
import os
import struct
from types import SimpleNamespace
from typing import Any

from tracer.backends.bcc.maps import python
from tracer.backends.bcc.maps.python import PythonFrames
from tracer.resolve.interpreters.python.layouts import KNOWN

LAYOUT = KNOWN[12]
STATE = 1 << 32 | 1 << 2
"""Read, of one byte a character."""


class Learned:
    """What `learn` was given."""

    def __init__(self) -> None:
        self.layouts = [SimpleNamespace(layout=LAYOUT)]
        self.tables: list[bytes | None] = []

    def knows(self, number: int) -> bool:
        return False  # each stands for another

    def learn(self, number: int, image: object, code: Any) -> None:
        """Keeps the table of lines."""
        self.tables.append(code.table)


def test_so_many_bytes_of_tables_are_read_and_no_more() -> None:
    size = 1 << 19
    table = ctypes.create_string_buffer(bytes(32) + b"\x85" * size)
    code = ctypes.create_string_buffer(256)
    parts = [0, 0, ctypes.addressof(table), 1, 0]
    struct.pack_into("=Q", code, LAYOUT.table, parts[2])
    texts = (0, STATE, 1, STATE, 1, size)
    record = struct.pack("=8xQQQQ5Q6Q256s512s", 1, os.getpid(), 0, ctypes.addressof(code), *parts, *texts, b"f", b"g")
    learned = Learned()
    frames: Any = PythonFrames(-1, learned)  # type: ignore[arg-type]
    most = python._ALL_LONGER_TABLES // size
    for _ in range(most + 2):
        frames.take(record + bytes(4096), 0)
    assert len(learned.tables) == most + 2
    assert {len(each) for each in learned.tables if each is not None} == {size}
    assert most - 1 <= sum(each is not None for each in learned.tables) <= most
