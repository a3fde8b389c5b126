"""The input of every part, from which it makes works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from scripts.benchmark.children import Ran
from scripts.benchmark.model import FLOOR, Cannot, Reading, Row, Work
from scripts.benchmark.speakers import Speaker
from scripts.benchmark.subjects import Cost, Subjects


@dataclass(frozen=True)
class Setting:
    """The targets, the contestants and the number of rounds; `hits` for the cost of one, `events` that are printed.

    `most` is the furthest point of a curve.
    """

    subjects: Subjects
    speakers: Sequence[Speaker]
    hits: int = 500_000
    events: int = 1_000_000
    most: int = 100_000
    timeout_s: float = 60.0


def by_all(
    setting: Setting,
    part: str,
    rows: Sequence[Row],
    ask: Callable[[Speaker], Reading],
    warm: Callable[[Speaker], object] | None = None,
) -> Work:
    """A work that every speaker does; `warm` fills the caches of one that has some."""
    warming = {one.name: partial(warm, one) for one in setting.speakers if warm is not None and one.is_tracer}
    return Work(part, tuple(rows), {one.name: partial(ask, one) for one in setting.speakers}, warm=warming)


def floor(part: str, row: Row, measure: Callable[[], float]) -> Work:
    """A work that is nobody's: a floor."""
    return Work(part, (row,), {FLOOR: lambda: Reading({row.key: measure()})})


def ended_well(ran: Ran) -> Ran:
    """The run, where it came to its end; raises Cannot where it did not."""
    if ran.complaint is not None:
        raise Cannot(ran.complaint)
    return ran


def traced(
    setting: Setting, one: Speaker, program: str, command: list[str], environment: Mapping[str, str] | None = None
) -> Ran:
    """Runs a program on a target that tells what its hits cost (`spent`)."""
    setting.subjects.forget()
    return ended_well(one.trace(program, setting.timeout_s, command, environment))


def spent(setting: Setting) -> Cost:
    """The output of the last run's target; raises Cannot if it did not end."""
    cost = setting.subjects.cost()
    if cost is None:
        raise Cannot("the target did not come to its end")
    return cost


def with_tools(work: Work, runs: Mapping[str, Callable[[], Reading]], absent: Mapping[str, str]) -> Work:
    """The work, done by others as well."""
    return Work(work.part, work.rows, {**work.runs, **runs}, {**work.absent, **absent}, work.warm)
