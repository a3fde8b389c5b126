"""The overhead guard's findings in words, under the attach point that they are about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer.errors import Diagnostic
from tracer.kinds.registry import kind_of
from tracer.overhead.guard import Cut, Guard, Heavy
from tracer.plan.model import Plan
from tracer.plan.points import maps_behind, points
from tracer.render.notices import Incomplete


class Findings:
    """The findings of the guard of one trace: told to `warn` at once, each attach point that was cut to `detached` with
    its hits, in how many seconds, after how many, and the maps; `closing` is for the end.
    """

    def __init__(
        self, plan: Plan, is_of_some: bool, max_rate: int | None, warn: Callable[[Diagnostic], None],
        detached: Callable[[str, int, float, float, Sequence[str]], None],
    ) -> None:  # fmt: skip
        self._plan, self._points, self._is_of_some, self._max_rate = plan, points(plan), is_of_some, max_rate
        self._warn, self._detached = warn, detached
        self.guard = Guard(len(self._points), max_rate, self._tell)
        self.closing: list[Incomplete] = []

    def _tell(self, finding: Heavy | Cut) -> None:
        if isinstance(finding, Cut):
            message, hint = self._cut(finding), None
        else:
            message, hint = _heavy(finding), self._remedy(finding)
        self._warn(Diagnostic(message, self._points[finding.point].span, hint, "warning"))

    def _cut(self, cut: Cut) -> str:
        point = self._points[cut.point]
        maps = maps_behind(self._plan, point.clause)
        self._detached(point.text, cut.hits, cut.seconds, cut.after_s, maps)
        lacking = f"; incomplete from here on: {', '.join(maps)}" if maps else ""
        limit = f"--max-rate {self._max_rate}"
        said = (
            f"{', '.join(maps) or 'the output'} is incomplete: {point.text} was detached after {cut.after_s:.1f} s"
            f" ({cut.hits} hits in {cut.seconds:.2f} s, {limit})"
        )
        self.closing.append(Incomplete(said))
        last = "" if len(self.closing) < len(self._points) else "; nothing is attached any more"
        return f"detached: {cut.hits} hits in {cut.seconds:.2f} s are more than {limit}{lacking}{last}"

    def _remedy(self, heavy: Heavy) -> str:
        sites = self._points[heavy.point].sites
        fewer = ""
        if len({site.probe for site in sites}) > 1:
            fewer = "name fewer {} (@[{}] = count() shows which are hit), ".format(*kind_of(sites[0]).told)
        one = "" if self._is_of_some else "trace one process (-p), "
        limit = "--max-rate N" if self._max_rate is None else "a lower --max-rate"
        ways = f"{fewer}{one}or let {limit} detach it" if fewer or one else f"{limit} detaches it"
        return f"a predicate does not help, it comes after the trap; {ways}"


def _heavy(heavy: Heavy) -> str:
    cost_ns = heavy.cost.ns
    cost = f"{cost_ns:.0f} ns" if cost_ns < 10_000 else f"{cost_ns / 1000:.1f} us"
    if heavy.cost.unmeasured:
        cost = f"an assumed {cost} (not measured: {heavy.cost.unmeasured})"
    return (
        # Three digits: the figure is not more precise.
        f"{round(heavy.hits_per_s, 3 - len(str(heavy.hits_per_s)))} hits a second at {cost} each"
        f" take {100 * heavy.share:.0f}% of a CPU from the traced programs"
    )
