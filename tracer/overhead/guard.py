"""The overhead guard: hits a second times what a hit costs, for each attach point, and a limit on the first.

Once a second the share of a CPU that an attach point takes from the traced programs is computed; from a tenth of one on
it is said, once, and again when it has doubled. What a hit costs is measured only where an attach point is hit often
enough for it to matter. With a limit (`--max-rate N`) the hits are looked at ten times a second, and an attach point is
detached that had more than N within any second: a flood of ten times the limit ends after a tenth of a second.

Nothing here reads a clock or prints: the run loop says what time it is, the session counts, measures and detaches, and
who made the guard is told of each finding. Times are nanoseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from tracer.dataclass import dataclass

SECOND = 1_000_000_000

_LEAST_SHARE = 0.1
"""Of one CPU: less is not worth a warning."""
_LEAST_RATE = 1000.0
"""Hits a second below which nothing is measured: a hit would have to cost 100 us to make a tenth of a CPU of them."""
_BEAT, _PENDING = SECOND // 10, SECOND // 20
_FRESH = 10 * SECOND
"""How long a measured cost is good enough to be said."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a hit costs the traced program, in nanoseconds: measured, or assumed for the reason `unmeasured`."""

    ns: float
    unmeasured: str = ""


class Hits(Protocol):
    """The part of a session that the guard asks."""

    def point_hits(self) -> Sequence[int] | None:
        """See `backends.base.Session`."""

    def hit_cost(self, point: int) -> Cost | None:
        """See `backends.base.Session`."""

    def detach_point(self, point: int) -> None:
        """See `backends.base.Session`."""


@dataclass(frozen=True, slots=True)
class Heavy:
    """An attach point that slows the traced programs down."""

    point: int
    hits_per_s: float
    cost: Cost

    @property
    def share(self) -> float:
        """Of one CPU."""
        return self.hits_per_s * self.cost.ns / SECOND


@dataclass(frozen=True, slots=True)
class Cut:
    """An attach point that was detached: it had `hits` within `seconds`, and was attached for `after_s`."""

    point: int
    hits: int
    seconds: float
    after_s: float


class Meter:
    """The hits of one attach point over the last second and a little; what is known of its cost, and was said of it.

    To read hits takes time too, and more where the machine is busy: what lies between two readings is counted as if it
    had come from the beginning of the first to the end of the second. So a rate is never too high.
    """

    def __init__(self, now: int) -> None:
        self._samples = deque([(now, 0)])
        self._now = now
        self.pending = False
        """Whether its cost is being measured."""
        self.cost: tuple[int, Cost] | None = None
        self.worth_saying = _LEAST_SHARE

    def note(self, begun: int, now: int, hits: int) -> None:
        """`hits` so far, read from `begun` to `now`. A number that went down is that of a counter begun anew."""
        samples = self._samples
        if hits < samples[-1][1]:
            samples.clear()
        samples.append((begun, hits))
        self._now = now
        while len(samples) > 2 and now - samples[1][0] >= SECOND:
            samples.popleft()

    def rate(self) -> float | None:
        """Hits a second over the last second, or as much more as nobody looked; None before one is over."""
        (then, before), hits = self._samples[0], self._samples[-1][1]
        return (hits - before) * SECOND / (self._now - then) if self._now - then >= SECOND else None

    def most(self) -> tuple[int, float]:
        """The hits within the last second, and in how many seconds they came; of a longer time, if nobody looked, as
        many as one second of it had on average.
        """
        hits = self._samples[-1][1]
        then, before = next((each for each in self._samples if self._now - each[0] <= SECOND), self._samples[-1])
        rate = self.rate()
        found = hits - before, (self._now - then) / SECOND
        return found if rate is None or found[0] >= rate else (int(rate), 1.0)

    def weigh(self, session: Hits, point: int, now: int) -> Heavy | None:
        """What is to be said of its share of a CPU; asks the session for the cost where that may be much."""
        rate = self.rate() or 0.0
        light = rate < _LEAST_RATE or (self.cost is not None and rate * self.cost[1].ns / SECOND < self.worth_saying)
        if light and not self.pending:
            return None
        if self.pending or self.cost is None or now - self.cost[0] >= _FRESH:
            cost = session.hit_cost(point)
            self.pending = cost is None
            if cost is None:
                return None
            self.cost = now, cost
        heavy = Heavy(point, rate, self.cost[1])
        if heavy.share < self.worth_saying:
            return None
        self.worth_saying = 2 * heavy.share
        return heavy


class Guard:
    """Looks after the attach points of a session. `tell` gets each `Heavy` and each `Cut`, once it is detached."""

    def __init__(self, points: int, max_rate: int | None, tell: Callable[[Heavy | Cut], None]) -> None:
        self._max_rate = max_rate
        self._beat = SECOND if max_rate is None else _BEAT
        self._tell = tell
        self._held: deque[Heavy | Cut] = deque()
        self._left = points
        self._meters: dict[int, Meter] = {}
        self._started = self._due = self._second = 0

    def start(self, now: int) -> None:
        """All attach points are attached since `now`."""
        self._started = now
        self._second, self._due = now + SECOND, now + self._beat
        self._meters = {point: Meter(now) for point in range(self._left)}

    @property
    def idle(self) -> bool:
        """Whether nothing is attached any more."""
        return not self._left

    def wait_s(self, now: int) -> float:
        """Until the next look."""
        return max(self._due - now, 0) / SECOND if self._left else 1.0

    def look(self, session: Hits, clock: Callable[[], int]) -> None:
        """One look, if it is due; `clock` says what time it is, as in `start`."""
        self.look_aside(session, clock)
        self.tell()

    def tell(self) -> None:
        """Tells what `look_aside` has found."""
        while self._held:
            self._tell(self._held.popleft())

    def look_aside(self, session: Hits, clock: Callable[[], int]) -> None:
        """The same in the middle of something: what is found is told at the next `look`."""
        begun = clock()
        if begun < self._due or not self._meters:
            return
        hits = session.point_hits()
        now = clock()
        if hits is None:
            self._due = now + _PENDING
            return
        for point, meter in self._meters.items():
            meter.note(begun, now, hits[point])
        if self._max_rate is not None:
            self._cut(session, now, self._max_rate)
        full_second = now >= self._second
        for point, meter in self._meters.items():
            if (full_second or meter.pending) and (heavy := meter.weigh(session, point, now)) is not None:
                self._held.append(heavy)
        if full_second:
            self._second = now + SECOND
        pending = any(meter.pending for meter in self._meters.values())
        self._due = min(self._second, now + (_PENDING if pending else self._beat))

    def _cut(self, session: Hits, now: int, limit: int) -> None:
        for point, meter in tuple(self._meters.items()):
            hits, seconds = meter.most()
            if hits > limit:
                session.detach_point(point)
                del self._meters[point]
                self._left -= 1
                self._held.append(Cut(point, hits, seconds, (now - self._started) / SECOND))
