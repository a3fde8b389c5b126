"""strftime(3) with microseconds."""

from __future__ import annotations

import re
import time


def format_time(format: str, realtime_ns: int) -> bytes:
    """A time of day (nanoseconds since 1970) in the local time zone. As strftime(3), and `%f` is six digits of
    microseconds, as in bpftrace.
    """
    seconds, rest = divmod(realtime_ns, 1_000_000_000)
    micros = f"{rest // 1000:06d}"
    # A C string ends at its first NUL, and Python's strftime takes none.
    expanded = re.sub(r"%([%f])", lambda found: "%%" if found[1] == "%" else micros, format.partition("\0")[0])
    return time.strftime(expanded, time.localtime(seconds)).encode("utf-8", "surrogateescape")
