"""Reading the hit process's memory at a computed address, through `Runtime.read_memory`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tracer.interp.runtime import Reach, Runtime
from tracer.lang.types import IntType


def string_reader(runtime: Runtime, size: int) -> Callable[[int], bytes | None]:
    """A function from an address to the string there, without its NUL; "" at address 0, None where it cannot be read.

    It gives at most `size` bytes, one more than the buffer can show, so that a cut is noticed.
    """

    def read(address: int) -> bytes | None:
        if address == 0:
            return b""
        data = runtime.read_memory(address, size)
        return None if data is None else data.split(b"\0", 1)[0]

    return read


def reach_reader(runtime: Runtime, size: int) -> Callable[[int], Reach]:
    """A function from an address to what is known of the string there, `size` bytes of it at most."""

    def read(address: int) -> Reach:
        if address == 0:
            return b"", b""
        data = runtime.read_memory(address, size) or b""
        text, end, _ = data.partition(b"\0")
        return text, b"" if end else None

    return read


def integer_reader(runtime: Runtime, type: IntType) -> Callable[[int], int | None]:
    """A function from an address to the integer there, in this machine's byte order; None where it cannot be read."""
    size = type.bits // 8
    order = sys.byteorder

    def read(address: int) -> int | None:
        data = runtime.read_memory(address, size)
        if data is None or len(data) < size:
            return None
        return int.from_bytes(data[:size], order, signed=type.signed)

    return read
