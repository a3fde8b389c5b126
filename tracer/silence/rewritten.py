"""Refuses places where a process of `-p` has other code than its file: there the kernel would execute the file's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from tracer.errors import Diagnostic, ProgramError
from tracer.host.named import named
from tracer.plan.model import Plan
from tracer.plan.points import points
from tracer.resolve.sites.in_memory import states

if TYPE_CHECKING:
    from tracer.host.maps import Picture

_MOST = 4096


def refuse_rewritten(plan: Plan, processes: Sequence[Picture]) -> None:
    """Raises `ProgramError` under the attach points in question; a pattern of more places is not looked at."""
    if len(plan.places) > _MOST:
        return
    errors = []
    for point, process in product(points(plan), processes):
        looked_at = zip(point.places, states(process, point.places), strict=True)
        patched = [site for site, state in looked_at if state == "patched"]
        if patched:
            message = (
                f"{named(process.pid)} has written other code over {patched[0].probe}, as XRay and live patching do: a"
                " probe would execute the instruction of the file there"
            )
            errors.append(Diagnostic(message, point.span, "probe a function that it calls"))
    if errors:
        raise ProgramError(plan.program.source, errors)
