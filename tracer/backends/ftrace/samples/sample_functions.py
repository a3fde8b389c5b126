"""Functions that the generated decoders call for values that need more than unpacking."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracer.backends.ftrace.samples.shape import Bytes
from tracer.kernel import perf
from tracer.lang.types import Stack
from tracer.steps.python.runtime import NO_ROOM, NoRoom, Reach

if TYPE_CHECKING:
    from tracer.backends import Unwinder

_U32, _U64 = struct.Struct("=I").unpack_from, struct.Struct("=Q").unpack_from


def last_true(flags: Sequence[object]) -> int:
    """The index of the last true flag; -1, the sentinel, where there is none."""
    return max((place for place, flag in enumerate(flags) if flag), default=-1)


def reach(arrays: bytes, address: int, behind: NoRoom | None) -> Reach:
    """The bytes that arrays have of a string which the event does not hold, up to the first byte that is 0 or
    unreadable. Where there is another byte of its page, the 0 is the string's end.
    """
    read, end, rest = arrays.partition(b"\0")
    place = (address + len(read)) % 4096
    there = (read and place) or rest[: 4095 - place].strip(b"\0")
    return read, b"" if end and place <= 4088 and there else behind


def cut(arrays: bytes, address: int, kept: bytes, room: int) -> Reach:
    """The bytes of such a string where the kernel `kept` no more of it than the room of those behind it: it is so long
    that it was not measured, or unreadable further on. The latter, where a string that ended there had found room.
    """
    read, behind = reach(arrays, address, NO_ROOM)
    if len(read) == len(arrays):
        return max(read, kept, key=len), NO_ROOM
    return read, None if behind is NO_ROOM and len(read) < room else behind


def held(field: bytes, offset: int, size: int, sort: str) -> int | bytes | None:
    """A part of a field (see `fetchargs.Held`); None where the field does not have all of it."""
    part = field[offset : offset + size]
    if sort == "text":
        return part.partition(b"\0")[0]
    if len(part) < size:
        return None
    number: int | bytes = part if sort == "block" else struct.unpack("=" + sort, part)[0]
    return number


def reached(text: int | bytes | None) -> Reach | None:
    """A text of which the program says at the hit how much it wants: it is all there."""
    return (text, b"") if isinstance(text, bytes) else None


def unwound(
    registers: int, unwinder: Unwinder | None, data: Bytes, raw: int, pid: int, at_ns: int, frames: int
) -> Stack:
    """The stack of a sample whose raw data begins at `raw`, by its registers and the copy of its stack."""
    position = raw + _U32(data, raw - 4)[0]
    if not _U64(data, position)[0] or unwinder is None:  # PERF_SAMPLE_REGS_ABI_NONE
        return Stack(pid, ())
    values = struct.unpack_from(f"={registers}Q", data, position + 8)
    position += 8 + 8 * registers
    size = _U64(data, position)[0]
    filled = _U64(data, position + 8 + size)[0] if size else 0
    stack = memoryview(data)[position + 8 : position + 8 + (filled & ~7)].cast("Q")
    return unwinder.unwind(pid, values, stack, frames, at_ns=at_ns)


def nobody(pid: int) -> Stack:
    """The stack of a hit that concerns nobody who is traced: nobody looks at it."""
    return Stack(pid, ())


def user_stack(data: Bytes, offset: int, count: int, pid: int, frames: int) -> Stack:
    """The user's part of the call chain of `count` entries; without frames where the kernel could not walk it."""
    return Stack(pid, _part(data, offset, count, perf.CONTEXT_USER)[:frames])


def kernel_stack(data: Bytes, offset: int, count: int, frames: int) -> Stack:
    """The kernel's part of it; without frames where the hit was not in the kernel."""
    return Stack(0, _part(data, offset, count, perf.CONTEXT_KERNEL)[:frames])


def _part(data: Bytes, offset: int, count: int, wanted: int) -> tuple[int, ...]:
    """The addresses behind a mark, up to the next (`enum perf_callchain_context`)."""
    part: list[int] = []
    mark = 0
    for address in struct.unpack_from(f"={count}Q", data, offset):
        if address >= perf.CALLCHAIN_MARKS:
            mark = address
        elif mark == wanted:
            part.append(address)
    return tuple(part)
