"""strftime(3) with microseconds, and the way from time since boot to time of day."""

from __future__ import annotations

import re
import time


def boot_time_ns() -> int:
    """Nanoseconds of CLOCK_REALTIME at boot: what turns a time since boot into a time of day."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def format_time(format: str, realtime_ns: int) -> bytes:
    """A time of day (nanoseconds since 1970) in the local time zone. As strftime(3), and `%f` is six digits of
    microseconds, as in bpftrace.
    """
    seconds, rest = divmod(realtime_ns, 1_000_000_000)
    micros = f"{rest // 1000:06d}"
    # A C string ends at its first NUL, and Python's strftime takes none.
    expanded = re.sub(r"%([%f])", lambda found: "%%" if found[1] == "%" else micros, format.partition("\0")[0])
    return time.strftime(expanded, time.localtime(seconds)).encode("utf-8", "surrogateescape")
