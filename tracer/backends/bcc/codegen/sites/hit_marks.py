"""The sites of wildcards of which it is noted whether they were ever hit.

The cookie of such a site carries its number (`cookie`), and a program sets the byte of that number in the control block
at the first hit. Where links carry no cookies, nothing is noted.
"""

from __future__ import annotations

from tracer.plan.model import Plan
from tracer.plan.points import points

_LARGEST, _MOST = 1024, 4096
"""Sites of one attach point, and of the program: of thousands nobody wants to know which were not hit."""


def noted_sites(plan: Plan) -> dict[int, range]:
    """The numbers of sites, from 1 on in their order, of each attach point that has several, by its own number."""
    found: dict[int, range] = {}
    following = 1
    for number, point in enumerate(points(plan)):
        own = len(point.sites)
        if 1 < own <= _LARGEST and following + own <= _MOST:
            found[number] = range(following, following + own)
            following += own
    return found


def cookie(text: int, site: int) -> int:
    """The cookie of a link: the number of the site's texts, and its own (0: it is not noted)."""
    return site << 32 | text
