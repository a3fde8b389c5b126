"""The limits of this process: the descriptors it may still open, and the memory it may lock."""

from __future__ import annotations

import errno
import os
import resource

from tracer.errors import WANTING, TracerError

_SPARE = 32
"""Left for everything else."""

COLLISION = "a probe with another semaphore, or with none, is at this place already"
ONE_SEMAPHORE = "Linux has one semaphore for each place: end the other tracer, or trace a copy of the file"
"""What EINVAL means where a place and its semaphore are in order, and the remedy. Nothing but the kernel's own log has
the reason (kernel/events/uprobes.c, ref_ctr_mismatch_warn). A probe whose semaphore was 0 when it should have been
removed stays there without a tracer.
"""

MORE_DESCRIPTORS = WANTING[errno.EMFILE]
"""The remedy where there are too few."""


def raise_limits() -> None:
    """Locked memory, which BPF maps count against before Linux 5.11, and descriptors; the child of -c, forked before,
    keeps its own.
    """
    for limit, wanted in ((resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY), (resource.RLIMIT_NOFILE, None)):
        hard = resource.getrlimit(limit)[1]
        for most in (hard if wanted is None else wanted, hard):
            try:
                resource.setrlimit(limit, (most, most))
                break
            except (ValueError, OSError):
                continue


def allowed_descriptors() -> int:
    """The number of descriptors that may still be opened under the soft limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 20
    return max(soft - _SPARE - len(os.listdir("/proc/self/fd")), 0)


def check_room(needed: int, allowed: int) -> None:
    """Raises `TracerError` where more are needed than allowed."""
    if needed > allowed:
        raise TracerError(
            f"this takes {needed} more descriptors, and {allowed} are left",
            f"name fewer probes, or raise the limit: ulimit -n {needed + 1024}",
        )
