"""Words for the kernel's refusals to attach to a place."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from tracer.errors import Diagnostic, ProgramError
from tracer.kernel.limits import COLLISION, MORE_DESCRIPTORS, ONE_SEMAPHORE
from tracer.kernel.trials.instructions import NOT_PROBED, REMEDY
from tracer.kinds.site import FileSite
from tracer.lang.walk import attach_points
from tracer.plan.model import Plan, ProbePlan


def under(probe: ProbePlan, plan: Plan, error: OSError, sites: Sequence[FileSite]) -> ProgramError:
    """The error for a link or event for some sites of a clause, under its attach points."""
    message, hint = _words(error.errno or 0)
    where = sites[0].shown + (f" and {len(sites) - 1} more sites" if len(sites) > 1 else "")
    span = attach_points(probe.clause, plan.program.source)
    return ProgramError(
        plan.program.source, [Diagnostic(f"cannot attach to {where}: {message}", span, hint)], exit_code=1
    )


def _words(number: int) -> tuple[str, str]:
    if number == errno.EMFILE:
        return "too many open files", MORE_DESCRIPTORS
    if number == errno.EINVAL:
        return COLLISION, ONE_SEMAPHORE
    if number in NOT_PROBED:
        return "not supported", REMEDY
    if number == errno.E2BIG:
        return "the kernel runs 64 BPF programs at an event, others' among them", "--backend ftrace has no such limit"
    if number == errno.EPERM:
        return os.strerror(number), "the kernel does not permit it (lockdown, a container without CAP_SYS_ADMIN)"
    return os.strerror(number), "--backend ftrace attaches in another way"
