"""The overhead guard: counts, costs and clocks in, findings out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import pytest

from tracer.kernel.trials.hit_cost import Cost
from tracer.overhead.guard import SECOND, Cut, Guard, Heavy

if TYPE_CHECKING:
    from tracer.backends.base import Session

MS = SECOND // 1000


class FakeSession:
    """Attach points that are hit at a rate each, from `since` on, until they are detached."""

    def __init__(self, *rates: float, cost: Cost | None = None, since: int = 0) -> None:
        self.rates = list(rates)
        self.now = self.since = since
        self.given = cost or Cost(1000.0)
        self.measuring = 2
        self.counted = [0.0] * len(rates)
        self.detached: list[int] = []
        self.asked: list[tuple[int, int]] = []

    def clock(self) -> int:
        return self.now

    def pass_time(self, now: int) -> None:
        for point, rate in enumerate(self.rates):
            self.counted[point] += 0 if point in self.detached else rate * (now - self.now) / SECOND
        self.now = now

    def point_hits(self) -> Sequence[int] | None:
        return [int(count) for count in self.counted]

    def hit_cost(self, point: int) -> Cost | None:
        self.asked.append((self.now, point))
        self.measuring -= 1
        return None if self.measuring > 0 else self.given

    def detach_point(self, point: int) -> None:
        self.detached.append(point)


def look(guard: Guard, session: FakeSession, clock: Callable[[], int] | None = None) -> None:
    guard.look(cast("Session", session), clock or session.clock)


def watched(session: FakeSession, max_rate: int | None = None, seconds: float = 5.0) -> list[Heavy | Cut]:
    """What a guard finds whose loop comes by whenever it asks to, and once late."""
    found: list[Heavy | Cut] = []
    guard = Guard(len(session.rates), max_rate, found.append)
    guard.start(session.now)
    end = session.now + int(seconds * SECOND)
    while session.now < end and not guard.idle:
        session.pass_time(session.now + max(int(guard.wait_s(session.now) * SECOND), MS))
        look(guard, session)
        guard.tell()
    return found


def test_a_slow_probe_is_never_measured_nor_mentioned() -> None:
    session = FakeSession(900, cost=Cost(1e6))
    assert (watched(session), session.asked) == ([], [])


def test_a_share_below_a_tenth_is_measured_once_and_not_mentioned() -> None:
    session = FakeSession(99_000)
    assert watched(session) == []
    assert session.asked == [(SECOND, 0), (SECOND + 50 * MS, 0)]


def test_a_share_of_a_tenth_is_said_once() -> None:
    (heavy,) = watched(FakeSession(101_000), seconds=30)
    assert isinstance(heavy, Heavy)
    assert (heavy.point, round(heavy.hits_per_s), round(heavy.share, 3)) == (0, 101_000, 0.101)


def test_it_is_said_again_when_it_has_doubled() -> None:
    session = FakeSession(150_000)
    session.measuring = 0
    found: list[Heavy | Cut] = []
    guard = Guard(1, None, found.append)
    guard.start(0)
    for second, rate in enumerate([150_000, 200_000, 299_000, 301_000, 301_000, 350_000], 1):
        for part in range(4):
            session.rates[0] = rate
            session.pass_time((second - 1) * SECOND + (part + 1) * SECOND // 4)
            look(guard, session)
            guard.tell()
    assert [round(each.share, 2) for each in found if isinstance(each, Heavy)] == [0.15, 0.3]


@pytest.mark.parametrize(("rate", "seconds"), [(1_000_000, 0.1), (50_000, 0.3), (20_000, 0.6), (10_100, 1.0)])
def test_more_than_the_limit_in_a_second_ends_an_attach_point_at_the_next_look(rate: float, seconds: float) -> None:
    session = FakeSession(rate, 5_000)
    found = watched(session, max_rate=10_000)
    (cut,) = [each for each in found if isinstance(each, Cut)]
    assert (cut.point, session.detached) == (0, [0])
    assert cut.hits > 10_000
    assert cut.seconds == pytest.approx(seconds, abs=0.11)
    assert cut.after_s == pytest.approx(seconds, abs=0.11)


def test_exactly_the_limit_is_allowed() -> None:
    session = FakeSession(10_000)
    assert (watched(session, max_rate=10_000, seconds=10), session.detached) == ([], [])


def test_a_burst_that_lies_across_two_seconds_counts_as_one() -> None:
    session = FakeSession(0)
    found: list[Heavy | Cut] = []
    guard = Guard(1, 1000, found.append)
    guard.start(0)
    for beat in range(1, 40):
        session.rates[0] = 6000 if 19 <= beat <= 20 else 0
        session.pass_time(beat * SECOND // 10)
        look(guard, session)
        guard.tell()
    assert [(each.hits, round(each.after_s, 1)) for each in found if isinstance(each, Cut)] == [(1200, 2.0)]


def test_nobody_who_looks_late_is_taken_for_a_flood() -> None:
    session = FakeSession(900)
    found: list[Heavy | Cut] = []
    guard = Guard(1, 1000, found.append)
    guard.start(0)
    for now in (SECOND // 10, 5 * SECOND, 9 * SECOND, 9 * SECOND + 1, 20 * SECOND):
        session.pass_time(now)
        look(guard, session)
        guard.tell()
    assert found == []


def test_a_look_that_tells_nothing_is_no_look_at_all() -> None:
    session = FakeSession(900)
    known = session.point_hits
    found: list[Heavy | Cut] = []
    guard = Guard(1, 1000, found.append)
    guard.start(0)
    for beat in range(1, 100):
        session.pass_time(beat * SECOND // 10)
        session.point_hits = known if beat % 9 == 0 else lambda: None  # type: ignore[method-assign]
        look(guard, session)
        guard.tell()
    assert found == []


def test_what_is_found_aside_is_told_later() -> None:
    session = FakeSession(1e6)
    found: list[Heavy | Cut] = []
    guard = Guard(1, 1000, found.append)
    look(guard, session)  # before anything is attached
    guard.start(0)
    session.pass_time(SECOND // 10)
    look(guard, session)
    assert (session.detached, found, guard.idle) == ([0], [], True)
    guard.tell()
    assert [each.point for each in found] == [0]


def test_a_guard_whose_points_have_all_ended_is_idle() -> None:
    session = FakeSession(1e6, 2e6)
    found = watched(session, max_rate=10)
    assert sorted(each.point for each in found) == [0, 1]


def rates(*looks: tuple[int, int, int]) -> list[int]:
    """The rates that are said where each reading (begun, ended, hits so far) shows more than all before."""
    found: list[Heavy | Cut] = []
    guard = Guard(1, None, found.append)
    guard.start(0)
    session = FakeSession(0, cost=Cost(1e9))
    session.measuring = 0
    for begun, ended, hits in looks:
        session.counted = [hits]
        moments = iter((begun, ended))
        look(guard, session, lambda moments=moments: next(moments))  # type: ignore[misc]
        guard.tell()
    return [each.hits_per_s for each in found if isinstance(each, Heavy)]


def test_rates_are_those_of_the_last_second_however_uneven_the_looks() -> None:
    assert rates((900 * MS, 900 * MS, 5_000), (1_000 * MS, 1_000 * MS, 2_000)) == [2_000]
    assert rates((1_000 * MS, 1_000 * MS, 1_000), (3_500 * MS, 3_500 * MS, 51_000)) == [1_000, 20_000]


def test_a_slow_reading_makes_no_rate_higher() -> None:
    # Of 2,000 hits it is not known when in the two seconds of the first reading they came.
    assert rates((SECOND, 2 * SECOND, 2_000)) == [1_000]
    assert rates((SECOND, 2 * SECOND, 2_000), (4 * SECOND, 4 * SECOND, 14_000)) == [1_000, 4_000]


def test_a_counter_that_went_back_is_no_rate() -> None:
    looks = ((SECOND, SECOND, 1_500), (2 * SECOND, 2 * SECOND, 5), (3 * SECOND, 3 * SECOND, 9_005))
    assert rates(*looks) == [1_500, 9_000]
