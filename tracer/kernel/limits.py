"""How many descriptors this process may still open, and how many places may take one each."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from tracer.errors import Diagnostic, ProgramError, TracerError
from tracer.lang.typed import Config

if TYPE_CHECKING:
    from tracer.plan.model import Plan, ProbePlan

_SPARE = 32
"""Left for everything else."""

MOST_ALONE = 256
"""Places with a perf event of their own."""

MORE_DESCRIPTORS = "raise the limit on descriptors: ulimit -n 65536"
"""The remedy where there are too few."""


def allowed_descriptors() -> int:
    """How many more may be opened under the soft limit."""
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


def check_alone(plan: Plan, number: int) -> None:
    """Raises `ProgramError` where so many places are too many to take a perf event each.

    To close one the kernel waits, one after the other, and a process that is killed closes them too: 12,000 took twenty
    minutes in which nobody else could define a probe (6.18, made to believe it were older).
    """
    if number <= MOST_ALONE or plan.program.config.max_probes != Config().max_probes:
        return
    probe = max(plan.probes, key=lambda each: sum(len(variant.sites) for variant in each.variants))
    lacking = "no links for many (Linux 6.6), and no trace events for many (Linux 5.4) or they are out of reach"
    enough = 1 << number.bit_length()  # those that are left out of the pattern count too, where it is resolved
    remedy = f"narrow the pattern, or lift the limit: --max-probes {enough + (enough == Config().max_probes)}"
    raise too_many_alone(plan, probe, f"{number} places", lacking, remedy)


def too_many_alone(plan: Plan, probe: ProbePlan, places: str, lacking: str, remedy: str) -> ProgramError:
    """That so many `places` would take an event each, under the attach points of a probe; what the kernel has not."""
    from tracer.lang.walk import attach_points  # what says what the host can do needs no plan

    message = (
        f"{places} would take a perf event each, which the kernel needs up to 0.1 s to close: it has {lacking}"
    )
    span = attach_points(probe.clause, plan.program.source)
    return ProgramError(plan.program.source, [Diagnostic(message, span, remedy)], exit_code=1)
