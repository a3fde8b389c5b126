"""How many sites a program may have: a wildcard that means tens of thousands may be a slip of the pen."""

from __future__ import annotations

from typing import NamedTuple

from tracer.errors import TracerError


class SiteLimit(NamedTuple):
    """What is `left` of the `limit`."""

    limit: int
    left: int

    def less(self, taken: int) -> SiteLimit:
        """After so many more sites."""
        return SiteLimit(self.limit, self.left - taken)

    def check(self, wanted: int, what: str) -> None:
        """Raises `TracerError` where so many sites do not fit; `what` says what wants them."""
        if wanted <= self.left:
            return
        left = "" if self.left == self.limit else f" less {self.limit - self.left} others"
        raise TracerError(
            f"{what}, more than max_probes ({self.limit}){left}",
            f"narrow the pattern, or lift the limit: --max-probes {self.limit - self.left + wanted}",
        )
