"""How fast this machine's time-stamp counter runs, which is what an emulated one shows."""

from __future__ import annotations

import ctypes
import mmap
import platform
import time

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_READ = bytes.fromhex("0f31 48c1e220 4809d0 c3")
_LONG_ENOUGH_S = 0.05


def counter_khz() -> int | None:
    """Its frequency, measured; None on machines that have none."""
    if platform.machine() != "x86_64":
        return None
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(_READ)
    here = ctypes.c_char.from_buffer(page)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(here))
    start, ticks = time.monotonic_ns(), read()
    time.sleep(_LONG_ENOUGH_S)
    took, ran = time.monotonic_ns() - start, read() - ticks
    return int(ran * 1_000_000 / took)
