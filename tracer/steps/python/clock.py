"""The clock of `nsecs`."""

from __future__ import annotations

import time


def clock_ns() -> int:
    """Nanoseconds since boot, time asleep included: CLOCK_BOOTTIME, which is what `nsecs` means in bpftrace.

    A BPF program reads the same clock by bpf_ktime_get_boot_ns() (Linux 5.8). perf samples carry it where the event
    asks for it (`use_clockid`, clockid CLOCK_BOOTTIME), a tracefs instance where `trace_clock` is `boot`.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
