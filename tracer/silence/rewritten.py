"""Refuses places where the process of `-p` has other code than its file: there the kernel would execute the file's."""

from __future__ import annotations

from tracer.errors import Diagnostic, ProgramError
from tracer.host.named import named
from tracer.plan.model import Plan
from tracer.plan.points import points
from tracer.resolve.sites.in_memory import states

_MOST = 4096


def refuse_rewritten(plan: Plan, pid: int) -> None:
    """Raises `ProgramError` under the attach points in question; a pattern of more places is not looked at."""
    if len(plan.sites) > _MOST:
        return
    errors = []
    for point in points(plan):
        found = [site for site, state in zip(point.sites, states(pid, point.sites), strict=True) if state == "patched"]
        if found:
            errors.append(
                Diagnostic(
                    f"{named(pid)} has written other code over {found[0].probe}, as XRay and live patching do: a probe"
                    " would execute the instruction of the file there",
                    point.span,
                    "probe a function that it calls",
                )
            )
    if errors:
        raise ProgramError(plan.program.source, errors)
