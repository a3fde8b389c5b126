"""Places of a wildcard that were never hit where others were, in words.

That a function was not called is no news in a wildcard. So without `-v` only those are told that could not be hit, or
hardly, and of them the first few.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tracer.kinds.site import paths_of

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite
    from tracer.plan.points import Point
    from tracer.silence.reasons import Reasons

_LINES, _NAMED = 3, 3


def unhit_lines(point: Point, unhit: Sequence[FileSite], reasons: Reasons, number: int, verbose: bool) -> list[str]:
    """The lines about one attach point, by its number."""
    unknown, by_reason = reasons.known_of(number, unhit, verbose)
    total = len(point.places)
    lines = [
        f"{point.text}: {_were(len(sites), total)} never hit ({_names(point, sites)}): {reason}"
        for reason, sites in by_reason.items()
    ]
    if verbose and unknown:
        lines.append(f"{point.text}: {_were(len(unknown), total)} never hit ({_names(point, unknown)})")
    elif not verbose and len(lines) > _LINES + 1:
        rest = sum(map(len, [*by_reason.values()][_LINES:]))
        lines[_LINES:] = [f"{point.text}: the same holds for {rest} more of its places; -v names them"]
    return lines


def _were(sites: int, total: int) -> str:
    return f"{sites} of {total} places {'was' if sites == 1 else 'were'}"


def _names(point: Point, sites: Collection[FileSite]) -> str:
    one_file = len(paths_of(point.places)) == 1
    every = dict.fromkeys(site.shown.partition(":")[2].rpartition(":")[2] if one_file else site.shown for site in sites)
    rest = len(every) - _NAMED
    if rest <= 1:
        return ", ".join(every)
    return ", ".join([*every][:_NAMED]) + f" and {rest} more"
