"""Whether tracer runs in the first pid namespace, or in one of a container."""

from __future__ import annotations

import os

_FIRST = 0xEFFF_FFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h


def in_first_pid_namespace() -> bool | None:
    """Whether processes and threads have the numbers here that the kernel knows them by; None where it does not say."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST
    except OSError:
        return None
