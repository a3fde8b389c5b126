"""The overhead guard: hits a second times what a hit costs, for each attach point, and a limit on the first.

Once a second the share of a CPU that an attach point takes from the traced programs is computed; from a tenth of one
CPU on there is a warning, and another one each time that it has doubled. What a hit costs is measured only where an
attach point is hit often enough for it to matter. With a limit (`--max-rate N`) the hits are looked at ten times a
second, and an attach point is detached that had more than N within any second: a flood of ten times the limit ends
after a tenth of a second.

Nothing here reads a clock or prints: the run loop passes the time, the session counts, measures and detaches, and the
maker of the guard is told of each finding. Times are nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass

if TYPE_CHECKING:
    from tracer.backends.base import Session
    from tracer.kernel.trials.hit_cost import Cost

SECOND = 1_000_000_000
_BEAT, _PENDING = SECOND // 10, SECOND // 20
_LEAST_SHARE = 0.1
"""The share of one CPU from which on a warning is worth it."""
_LEAST_RATE = 1000
"""Hits a second below which nothing is measured: a hit would have to cost 100 us to make a tenth of a CPU of them."""


@dataclass(frozen=True, slots=True)
class Heavy:
    """An attach point that slows the traced programs down, by this `share` of a CPU."""

    point: int
    hits_per_s: int
    cost: Cost
    share: float


@dataclass(frozen=True, slots=True)
class Cut:
    """An attach point that was detached: it had `hits` within `seconds`, and was attached for `after_s`."""

    point: int
    hits: int
    seconds: float
    after_s: float


class Guard:
    """Looks after the attach points of a session. `tell` gets each `Heavy` and each `Cut`, once it is detached."""

    def __init__(self, points: int, max_rate: int | None, tell: Callable[[Heavy | Cut], None]) -> None:
        self._max_rate = max_rate
        self._beat = SECOND if max_rate is None else _BEAT
        self._tell = tell
        self._findings: deque[Heavy | Cut] = deque()
        self._worth_saying = dict.fromkeys(range(points), _LEAST_SHARE)  # of those that are attached
        self._costs: dict[int, Cost] = {}
        self._measuring: set[int] = set()
        self._looks: deque[tuple[int, Sequence[int]]] = deque()
        self._started = self._now = self._due = self._second = 0

    def start(self, now: int) -> None:
        """Notes that all attach points are attached since `now`."""
        self._started, self._second, self._due = now, now + SECOND, now + self._beat
        self._looks.append((now, [0] * len(self._worth_saying)))

    @property
    def idle(self) -> bool:
        """Whether nothing is attached any more."""
        return not self._worth_saying

    def wait_s(self, now: int) -> float:
        """The seconds until the next look."""
        return 1.0 if self.idle else max(self._due - now, 0) / SECOND

    def tell(self) -> None:
        """Tells what `look` has found."""
        while self._findings:
            self._tell(self._findings.popleft())

    def look(self, session: Session, clock: Callable[[], int]) -> None:
        """Looks once, if a look is due; `clock` says what time it is, as in `start`.

        To read hits takes time too, and more where the machine is busy: what lies between two readings is counted as if
        it had come from the beginning of the first to the end of the second. So a rate is never too high.
        """
        begun = clock()
        if begun < self._due or not self._looks:
            return
        hits = session.point_hits()
        self._now = now = clock()
        if hits is None:
            self._due = now + _PENDING
            return
        self._looks.append((begun, hits))
        while len(self._looks) > 2 and now - self._looks[1][0] >= SECOND:
            self._looks.popleft()
        if self._max_rate is not None:
            self._cut(session, self._max_rate)
        for point in self._worth_saying:
            if now >= self._second or point in self._measuring:
                self._weigh(session, point)
        if now >= self._second:
            self._second = now + SECOND
        self._due = min(self._second, now + (_PENDING if self._measuring else self._beat))

    def _since(self, look: int, point: int) -> tuple[int, float]:
        """The hits since a look, and in how many seconds they came; of more than one, as many as it had on average."""
        then, before = self._looks[look]
        hits, time = self._looks[-1][1][point] - before[point], self._now - then
        return (hits, time / SECOND) if time <= SECOND else (hits * SECOND // time, 1.0)

    def _cut(self, session: Session, limit: int) -> None:
        for point in list(self._worth_saying):
            hits, seconds = max(self._since(look, point) for look in (0, 1))
            if hits > limit:
                session.detach_point(point)
                del self._worth_saying[point]
                self._measuring.discard(point)
                self._findings.append(Cut(point, hits, seconds, (self._now - self._started) / SECOND))

    def _weigh(self, session: Session, point: int) -> None:
        """Whether something is to be said of its share of a CPU; asks the session for the cost where that may be."""
        rate = self._since(0, point)[0]
        if rate < _LEAST_RATE and point not in self._measuring:
            return
        cost = self._costs.get(point) or session.hit_cost(point)
        if cost is None:
            self._measuring.add(point)
            return
        self._measuring.discard(point)
        self._costs[point] = cost
        share = rate * cost.ns / SECOND
        if share >= self._worth_saying[point]:
            self._worth_saying[point] = 2 * share
            self._findings.append(Heavy(point, rate, cost, share))
