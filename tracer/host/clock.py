"""The clock of `nsecs`, and the way from it to the time of day."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from functools import cache


def clock_ns() -> int:
    """Nanoseconds since boot, time asleep included: CLOCK_BOOTTIME, which is what `nsecs` means in bpftrace.

    A BPF program reads the same clock by bpf_ktime_get_boot_ns() (Linux 5.8). perf samples carry it where the event
    asks for it (`use_clockid`, clockid CLOCK_BOOTTIME), a tracefs instance where `trace_clock` is `boot`.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Names the run of the kernel; "" where that is not to be read (/proc/sys/kernel/random/boot_id)."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read()
    return ""


@cache
def boot_time_ns() -> int:
    """Nanoseconds of CLOCK_REALTIME at boot: what turns a time since boot into a time of day. One and the same all the
    time, whatever is done to the machine's clock, so that equal moments are shown as equal.
    """
    return time.clock_gettime_ns(time.CLOCK_REALTIME) - clock_ns()


CLOCKS = {"monotonic": time.CLOCK_MONOTONIC, "tai": time.CLOCK_TAI}
"""The other clocks that a program can read, by their names in the steps."""


def ahead_ns(clock: str) -> int:
    """The nanoseconds by which a clock is ahead of `clock_ns` now; negative where it is behind."""
    before = clock_ns()
    now = time.clock_gettime_ns(CLOCKS[clock])
    return now - (before + clock_ns()) // 2


def format_time(format: str, realtime_ns: int) -> bytes:
    """A time of day (nanoseconds since 1970) in the local time zone. As strftime(3), and `%f` is six digits of
    microseconds, as in bpftrace.
    """
    seconds, rest = divmod(realtime_ns, 1_000_000_000)
    micros = f"{rest // 1000:06d}"
    # A C string ends at its first NUL, and Python's strftime takes none.
    expanded = re.sub(r"%([%f])", lambda directive: "%%" if directive[1] == "%" else micros, format.partition("\0")[0])
    return time.strftime(expanded, time.localtime(seconds)).encode("utf-8", "surrogateescape")
