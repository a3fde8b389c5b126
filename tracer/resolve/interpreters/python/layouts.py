"""The layouts of CPython, by version: the offsets of the fields that a stack needs.

3.8 to 3.12: offsetof() by each version's own headers (Include/internal with Py_BUILD_CORE) in 3.8.18, 3.9.18, 3.10.13,
3.11.7 and 3.12.1 for x86-64; the layout is the same in all releases of a version. From 3.13 on the interpreter says it
itself, in the table at the start of _PyRuntime (`_Py_DebugOffsets`), which lies in the file.
"""

from __future__ import annotations

import struct
from typing import Final

from tracer.dataclass import dataclass, names


@dataclass(frozen=True, slots=True)
class Layout:
    """The offsets in the order of `struct python_image` in python.h, which says what each is for: offsets in bytes, and
    how frames differ from version to version.
    """

    interpreters: int
    next_interpreter: int
    threads: int
    next_thread: int
    identity: int
    frame: int
    hops: int
    hop: int
    previous: int
    code: int
    instruction: int
    instructions: int
    of_code: int
    shift: int
    owner: int
    owner_mask: int
    owner_shift: int
    entries: int
    name: int
    file: int
    first: int
    traceable: int
    table: int
    mark: int
    ascii: int
    compact: int
    minor: int


# How the frames of a version say which instruction runs, and which of them begins a native one.
_INDEX: Final = {"instructions": 0, "of_code": 0}
_EACH_BEGINS: Final = {"owner": 0, "owner_mask": 0, "owner_shift": 0, "entries": 1}
_FLAG_BEGINS: Final = {"owner_mask": 0xFFFF, "owner_shift": 0, "entries": 0}
_OWNER_BEGINS: Final = {"owner_mask": 0xFF, "owner_shift": 8, "entries": 0}

_THREADS_OLD: Final = {
    "interpreters": 32, "next_interpreter": 0, "threads": 8, "next_thread": 8, "identity": 176, "frame": 24,
    "hops": 0, "hop": 0,
}  # fmt: skip
_CODE_OLD: Final = {
    "name": 112, "file": 104, "first": 40, "traceable": 0, "table": 120, "mark": 0, "ascii": 48, "compact": 72,
}  # fmt: skip
_OLD: Final = {**_THREADS_OLD, **_CODE_OLD, **_INDEX, **_EACH_BEGINS, "previous": 24, "code": 32}

KNOWN: Final = {
    8: Layout(**_OLD, instruction=104, shift=1, minor=8),
    9: Layout(**_OLD, instruction=104, shift=1, minor=9),
    10: Layout(**_OLD, instruction=96, shift=0, minor=10),
    11: Layout(
        interpreters=40, next_interpreter=0, threads=16, next_thread=8, identity=152, frame=56, hops=1, hop=8,
        previous=48, code=32, instruction=56, instructions=184, of_code=1, shift=1, owner=68, **_FLAG_BEGINS,
        name=128, file=112, first=72, traceable=168, table=136, mark=0, ascii=48, compact=72, minor=11,
    ),
    12: Layout(
        interpreters=40, next_interpreter=0, threads=72, next_thread=8, identity=136, frame=56, hops=1, hop=0,
        previous=8, code=0, instruction=56, instructions=192, of_code=1, shift=1, owner=70, **_OWNER_BEGINS,
        name=128, file=112, first=68, traceable=176, table=136, mark=92, ascii=40, compact=56, minor=12,
    ),
}  # fmt: skip
"""By minor version. The name is co_qualname from 3.11 on, co_name before."""

COOKIE, TABLE_SIZE = b"xdebugpy", 8 * 96
_FREE_THREADED, _INTERPRETERS, _NEXT, _THREADS = 2, 5, 8, 9

# Where the table has what comes behind the interpreter's own part, which has grown: 13 words of it in 3.13, 16 in 3.14;
# the frame's part 6 and 8, that of code 10 and 11 (Include/internal/pycore_debug_offsets.h).
_PARTS = {13: (19, 28, 34), 14: (22, 31, 39)}
_SELF_DESCRIBED = "{} is newer than what tracer knows: 3.8 to 3.14"
_FREE = "it is a free-threaded build"
_NOT_AS_EXPECTED = "its table of offsets is not as expected"
_FARTHEST = 1 << 24
"""No offset reaches as far."""


def described(table: bytes) -> Layout | str:
    """The layout that the interpreter's own table tells; why not where it does not."""
    if len(table) < TABLE_SIZE:
        return _NOT_AS_EXPECTED
    words = struct.unpack_from(f"={len(table) // 8}Q", table)
    major, minor = words[1] >> 24 & 255, words[1] >> 16 & 255
    if major != 3 or minor not in _PARTS:
        return _SELF_DESCRIBED.format(f"{major}.{minor}")
    if words[_FREE_THREADED]:
        return _FREE
    thread, frame, code = _PARTS[minor]
    adaptive = words[code + 9]
    layout = Layout(
        interpreters=words[_INTERPRETERS], next_interpreter=words[_NEXT], threads=words[_THREADS],
        next_thread=words[thread + 2], identity=words[thread + 5], frame=words[thread + 4], hops=0, hop=0,
        previous=words[frame + 1], code=words[frame + 2], instruction=words[frame + 3], instructions=adaptive,
        of_code=1, shift=1, owner=words[frame + 5], **_OWNER_BEGINS,
        # _co_firsttraceable, an int, and co_extra, a pointer, stand before the instructions (cpython/code.h).
        name=words[code + 3], file=words[code + 1], first=words[code + 5], traceable=adaptive - 16,
        # co_version stands six ints behind co_firstlineno there.
        table=words[code + 4], mark=words[code + 5] + 24, ascii=40, compact=56, minor=minor,
    )  # fmt: skip
    sizes = words[frame], words[code]
    inside = max(layout.previous, layout.owner) < sizes[0] and max(layout.name, adaptive) < sizes[1] < 1 << 12
    small = all(0 <= getattr(layout, field) < _FARTHEST for field in names(layout))
    return layout if inside and small else _NOT_AS_EXPECTED
