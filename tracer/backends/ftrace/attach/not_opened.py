"""Why events could not be opened."""

from __future__ import annotations

import errno
import os

from tracer.errors import WANTING, TracerError
from tracer.kernel.limits import COLLISION, ONE_SEMAPHORE
from tracer.kernel.trials.instructions import NOT_PROBED, REMEDY


class ProcessEnded(TracerError):
    """The process to trace is no more."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid} has ended")


class NeedsSamples(Exception):
    """Counters cannot do here what samples can."""


class CannotOpen(TracerError):
    """A call was refused, perf_event_open where the error names none; `number` is the event's among the openings, None
    where it was about no event.
    """

    def __init__(self, error: OSError, number: int | None = None) -> None:
        code = error.errno or 0
        words = "not supported" if code in NOT_PROBED else COLLISION if code == errno.EINVAL else os.strerror(code)
        call = getattr(error, "call", "perf_event_open")
        message = f"the kernel refused to read a probe ({call}): {words}"
        super().__init__(message, _HINTS.get(code, "--backend bcc reads it in another way"))
        self.number, self.code = number, code


_HINTS = {
    **dict.fromkeys(NOT_PROBED, REMEDY),
    errno.EACCES: "it needs root or CAP_PERFMON; try: sysctl kernel.perf_event_paranoid=1",
    errno.EPERM: "it needs root or CAP_PERFMON, and kernel lockdown forbids it",
    errno.ENOSYS: "this kernel is built without CONFIG_PERF_EVENTS, or a seccomp filter forbids perf_event_open",
    **WANTING,
    errno.EINVAL: ONE_SEMAPHORE,
    errno.EIO: "the kernel could not place the breakpoint: choose another place (see dmesg)",
}
