"""The overhead guard's findings in words, under the attach point that they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.errors import Diagnostic
from tracer.overhead.guard import Cut, Guard, Heavy
from tracer.plan.points import maps_behind, points

if TYPE_CHECKING:
    from tracer.plan.model import Plan
    from tracer.render.renderer import Renderer
    from tracer.resolve.model import Target


class Findings:
    """What the guard of one trace has found: told to `say` at once, and what is incomplete again at the end."""

    def __init__(
        self, plan: Plan, target: Target, renderer: Renderer, max_rate: int | None,
        say: Callable[[str], None] | None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._points = points(plan)
        self._target = target
        self._renderer = renderer
        self._max_rate = max_rate
        self._say = say
        self._left = len(self._points)
        self.guard = Guard(len(self._points), max_rate, self._tell)
        self.closing: list[str] = []
        """Lines for the end of the trace, without an end of line."""
        self.cut: set[int] = set()
        """The attach points that were detached."""

    def _tell(self, finding: Heavy | Cut) -> None:
        if isinstance(finding, Cut):
            message, hint = self._cut(finding), None
        else:
            message, hint = _heavy(finding), self._remedy(finding)
        if self._say is not None:
            from tracer.cli.errors import diagnostics_text

            diagnostic = Diagnostic(message, self._points[finding.point].span, hint, "warning")
            self._say(diagnostics_text(self._plan.program.source, [diagnostic]))

    def _cut(self, cut: Cut) -> str:
        point = self._points[cut.point]
        maps = maps_behind(self._plan, point.clause)
        self.cut.add(cut.point)
        self._renderer.detached(point.text, cut.hits, cut.seconds, cut.after_s, maps)
        lacking = f"; incomplete from here on: {', '.join(maps)}" if maps else ""
        limit = f"--max-rate {self._max_rate}"
        self.closing.append(
            f"{', '.join(maps) or 'the output'} is incomplete: {point.text} was detached after {cut.after_s:.1f} s"
            f" ({cut.hits} hits in {cut.seconds:.2f} s, {limit})"
        )
        self._left -= 1
        last = "" if self._left else "; nothing is attached any more"
        return f"detached: {cut.hits} hits in {cut.seconds:.2f} s are more than {limit}{lacking}{last}"

    def _remedy(self, heavy: Heavy) -> str:
        sites = self._points[heavy.point].sites
        named = "probes (@[probe]" if sites[0].kind == "usdt" else "functions (@[func]"
        several = len({site.probe for site in sites}) > 1
        fewer = f"name fewer {named} = count() shows which are hit), " if several else ""
        one = "trace one process (-p), " if self._target.pid is None else ""
        limit = "--max-rate N" if self._max_rate is None else "a lower --max-rate"
        ways = f"{fewer}{one}or let {limit} detach it" if fewer or one else f"{limit} detaches it"
        return f"a predicate does not help, it comes after the trap; {ways}"


def _heavy(heavy: Heavy) -> str:
    each = heavy.cost.ns
    cost = f"{each:.0f} ns" if each < 10_000 else f"{each / 1000:.1f} us"
    if heavy.cost.unmeasured:
        cost = f"an assumed {cost} (not measured: {heavy.cost.unmeasured})"
    return (
        # To three digits: more would say that it is known so well.
        f"{round(heavy.hits_per_s, 3 - len(str(heavy.hits_per_s)))} hits a second at {cost} each"
        f" take {100 * heavy.share:.0f}% of a CPU from the traced programs"
    )
