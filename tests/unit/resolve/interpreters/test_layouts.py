"""What the interpreter's own table of offsets says, against offsetof() by its headers."""

from __future__ import annotations

import struct

import pytest

from tracer.dataclass import names
from tracer.resolve.interpreters.python.layouts import COOKIE, KNOWN, Layout, described

TABLE_3_13 = (
    51183856, 0, 283320, 608, 632, 194968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16, 7752, 0, 7768, 7760, 304, 0, 8,
    16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 208, 112, 120, 128, 136, 68, 52, 96, 104, 200, 16, 8, 416, 24, 88,
    168, 32, 24, 16, 40, 24, 16, 48, 32, 40, 24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 240,
)  # fmt: skip
"""_Py_DebugOffsets in libpython3.13.so.1.0 of 3.13.0, behind its cookie."""


def packed(words: tuple[int, ...]) -> bytes:
    return COOKIE + struct.pack("=95Q", *words, *[0] * (95 - len(words)))


def test_3_13() -> None:
    layout = described(packed(TABLE_3_13))
    assert isinstance(layout, Layout)
    found = {name: getattr(layout, name) for name in names(layout)}
    # offsetof() by Include/internal of 3.13.0 with Py_BUILD_CORE.
    assert found == {
        "interpreters": 632, "next_interpreter": 7264, "threads": 7344, "next_thread": 8, "identity": 152, "frame": 72,
        "hops": 0, "hop": 0, "previous": 8, "code": 0, "instruction": 56, "instructions": 200, "of_code": 1, "shift": 1,
        "owner": 70, "owner_mask": 0xFF, "owner_shift": 8, "entries": 0, "name": 128, "file": 112, "first": 68,
        "traceable": 184, "table": 136, "mark": 92, "ascii": 40, "compact": 56, "minor": 13,
    }  # fmt: skip


def test_versions_that_are_not_known_are_refused() -> None:
    version, free, *rest = TABLE_3_13
    assert described(packed((0x030F00F0, free, *rest))) == "3.15 is newer than what tracer knows: 3.8 to 3.14"
    assert described(packed((version, 1, *rest))) == "it is a free-threaded build"
    assert described(packed((version, free, *[0] * len(rest)))) == "its table of offsets is not as expected"


def test_each_version_is_its_own() -> None:
    assert {minor: layout.minor for minor, layout in KNOWN.items()} == {minor: minor for minor in range(8, 13)}


@pytest.mark.parametrize("at", range(len(TABLE_3_13)))
def test_no_table_breaks_what_tells_the_kernel(at: int) -> None:
    for wrong in (0, 1 << 31, (1 << 64) - 1):
        layout = described(packed((*TABLE_3_13[:at], wrong, *TABLE_3_13[at + 1 :])))
        if isinstance(layout, Layout):
            struct.pack("=27I", *(getattr(layout, name) for name in names(layout)))


def test_a_table_that_is_cut_off_is_refused() -> None:
    whole = packed(TABLE_3_13)
    for size in range(8, len(whole), 8):
        assert isinstance(described(whole[:size]), str)
