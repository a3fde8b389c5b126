"""What is said of attach points that were never hit: which, when, and how many share a line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from tests import typed_ir as ir
from tests.unit.backends.ftrace.plans import count, plan, probe, site
from tracer.dataclass import replace
from tracer.kernel.workers.set_again import ProcessPlace
from tracer.kinds.site import EVERY_PROCESS, FileSite, Target
from tracer.lang import typed
from tracer.lang.types import UINT8
from tracer.render.notices import Notice
from tracer.results.events import Loss, Outcome
from tracer.silence import reasons as silence_reasons
from tracer.silence.breakpoints import Breakpoints
from tracer.silence.silence import Silence

NAMES = ("uprobe:/bin/a:f", "uprobe:/bin/a:g", "uprobe:/bin/b:h", "uprobe:/bin/b:i", "uprobe:/bin/b:j")


class Rendered:
    """The renderer: what became lines of JSON."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def silent(self, name: str, reason: str) -> None:
        self.told.append((name, reason))


class Session:
    """A session with these hits, not known at the first so many questions."""

    left_out = ()
    gone: Collection[int] = ()

    def __init__(self, hits: Sequence[int], unknown: int = 0) -> None:
        self._hits, self.unknown, self.asked = hits, unknown, 0

    def point_hits(self) -> Sequence[int] | None:
        self.asked += 1
        return None if self.asked <= self.unknown else self._hits

    def unhit_sites(self) -> dict[int, Sequence[FileSite]]:
        return {}

    def hits(self) -> int:
        return sum(self._hits)


def silence(hits: Sequence[int], unknown: int = 0) -> tuple[Silence, Session, list[str]]:
    names = NAMES[: len(hits)]
    sites = [
        replace(site(0x1000 + number, "uprobe", (), path=name.split(":")[1]), probe=name, point=number)
        for number, name in enumerate(names)
    ]
    clause = replace(probe([count()], *sites), names=names, spans=(ir.N,) * len(names))
    session, said = Session(hits, unknown), list[str]()
    tested: Any = session
    return Silence(plan(clause), EVERY_PROCESS, tested, lambda notice: said.append(str(notice))), session, said


def said_of(notices: Iterable[Notice]) -> list[str]:
    return [str(notice) for notice in notices]


@pytest.fixture(autouse=True)
def _by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files a and b have a reason each."""

    def of(self: silence_reasons.Reasons, number: int) -> str:
        return f"nobody runs {self._points[number].places[0].path}"

    monkeypatch.setattr(silence_reasons.Reasons, "of", of)


@pytest.mark.parametrize(
    ("hits", "lines"),
    [
        ((0,), ["no probe was hit: nobody runs /bin/a"]),
        ((0, 0), ["no probe was hit: nobody runs /bin/a"]),
        ((3, 0), ["uprobe:/bin/a:g was never hit: nobody runs /bin/a"]),
        ((3, 4), []),
        (
            (0, 3, 0),
            [
                "uprobe:/bin/a:f was never hit: nobody runs /bin/a",
                "uprobe:/bin/b:h was never hit: nobody runs /bin/b",
            ],
        ),
    ],
)
def test_each_silent_attach_point_has_a_line_at_the_end(hits: Sequence[int], lines: list[str]) -> None:
    found, _, said = silence(hits)
    rendered: Any = Rendered()
    assert said_of(found.closing(Outcome(0, Loss(), sum(hits), 1), rendered.silent)) == lines
    assert [name for name, _ in rendered.told] == [NAMES[at] for at, number in enumerate(hits) if not number]
    assert said == []


def test_those_that_the_guard_detached_are_passed_over() -> None:
    rendered: Any = Rendered()
    found, session, _ = silence((0, 3))
    session.gone = {0}
    assert said_of(found.closing(Outcome(0, Loss(), 3, 1), rendered.silent)) == []


def test_where_hits_are_not_known_nothing_is_invented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.silence.silence.time.sleep", lambda seconds: None)
    rendered: Any = Rendered()
    found, session, _ = silence((0,), unknown=1 << 20)
    assert said_of(found.closing(Outcome(0, Loss(), -1, 1), rendered.silent)) == []
    found, session, _ = silence((0,), unknown=3)
    assert said_of(found.closing(Outcome(0, Loss(), 0, 1), rendered.silent)) == [
        "no probe was hit: nobody runs /bin/a"
    ]
    assert session.asked == 4


def test_five_silent_seconds_are_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tracer.silence.silence.time.monotonic", lambda: now[0])
    found, session, said = silence((0, 0))
    found.look()
    assert session.asked == 0  # nothing is attached yet
    found.start()
    now[0] += 4.9
    found.look()
    assert (session.asked, said) == (0, [])
    now[0] += 0.2
    found.look()
    found.look()
    assert (session.asked, said) == (1, ["no hit in the first 5 s: nobody runs /bin/a"])
    rendered: Any = Rendered()
    assert said_of(found.closing(Outcome(0, Loss(), 0, 1), rendered.silent)) == ["no probe was hit"]


def test_hits_that_come_after_five_silent_seconds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("tracer.silence.silence.time.monotonic", lambda: now[0])
    found, session, said = silence((0, 0, 0))
    found.start()
    now[0] += 6
    found.look()
    assert said == [
        "uprobe:/bin/a:f was not hit in the first 5 s: nobody runs /bin/a",
        "uprobe:/bin/a:g was not hit in the first 5 s: nobody runs /bin/a",
        "uprobe:/bin/b:h was not hit in the first 5 s: nobody runs /bin/b",
    ]
    for seconds, hits in ((2, (0, 0, 0)), (2, (0, 4, 0)), (2, (0, 5, 0))):
        now[0] += seconds
        session._hits = hits
        found.look()
    assert said[3:] == ["uprobe:/bin/a:g: first hits after 10 s"]
    session._hits = (0, 0)
    found, session, said = silence((0, 0))
    found.start()
    now[0] += 6
    found.look()
    session._hits, now[0] = (0, 1), now[0] + 1
    found.look()
    assert said == ["no hit in the first 5 s: nobody runs /bin/a", "first hits after 7 s"]


@pytest.mark.parametrize(
    ("hits", "lines"),
    [((0, 0), ["no probe was hit: nobody runs /bin/a"]), ((3, 0), []), ((3, 4), [])],
)
def test_quiet_tells_only_why_there_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, hits: Sequence[int], lines: list[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("tracer.silence.silence.time.monotonic", lambda: now[0])
    found, _, said = silence(hits)
    found._quiet = True
    found.start()
    now[0] += 6
    found.look()
    rendered: Any = Rendered()
    assert said_of(found.closing(Outcome(0, Loss(), sum(hits), 1), rendered.silent)) == lines
    told = [("uprobe:/bin/a:f", "nobody runs /bin/a"), ("uprobe:/bin/a:g", "nobody runs /bin/a")]
    assert (said, rendered.told) == ([], told if lines else [])


@pytest.mark.parametrize(
    ("hits", "lines"),
    [
        ((0, 1), []),
        ((0, 1, 0), ["uprobe:/bin/b:h was not hit in the first 5 s: nobody runs /bin/b"]),
        ((0, 1_000_000, 0), []),
        ((1, 1, 1), []),
    ],
)
def test_five_seconds_with_hits_tell_of_files_that_nobody_runs_unless_hits_are_many(
    monkeypatch: pytest.MonkeyPatch, hits: tuple[int, ...], lines: list[str]
) -> None:

    def of_processes(self: silence_reasons.Reasons, number: int) -> str | None:
        path = self._points[number].places[0].path
        return f"nobody runs {path}" if path == "/bin/b" else None

    now = [100.0]
    monkeypatch.setattr(silence_reasons.Reasons, "of_processes", of_processes)
    monkeypatch.setattr("tracer.silence.silence.time.monotonic", lambda: now[0])
    found, session, said = silence(hits)
    found.start()
    now[0] += 6
    found.look()
    found.look()
    assert (session.asked, said) == (1, lines)


def test_more_than_three_for_one_reason_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(silence_reasons.Reasons, "of", lambda self, number: "nobody runs them")
    rendered: Any = Rendered()
    lines = said_of(silence((0, 0, 5, 0, 0))[0].closing(Outcome(0, Loss(), 5, 1), rendered.silent))
    named = "uprobe:/bin/a:f, uprobe:/bin/a:g, uprobe:/bin/b:i and 1 more"
    assert lines == [f"4 of 5 attach points were never hit ({named}): nobody runs them"]


def test_processes_that_start_meanwhile_do_not_tell_attach_points_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run the files are looked for once, for all attach points and for the places of wildcards."""
    from tracer.host.file_users import Uses

    processes = [1]

    def uses_of(paths: set[str], pid: int | None) -> dict[str, Uses]:
        processes.append(1)
        return {path: Uses(processes[:]) for path in paths}

    monkeypatch.undo()  # the reasons are the true ones
    monkeypatch.setattr(silence_reasons, "uses_of", uses_of)
    rendered: Any = Rendered()
    found, session, _ = silence((0, 0, 1, 0, 0))
    session.unhit_sites = lambda: {2: [found._points[2].places[0]]}  # type: ignore[method-assign]
    found.closing(Outcome(0, Loss(), 1, 1), rendered.silent)
    assert len(processes) == 2
    assert len({reason for _, reason in rendered.told}) == 2  # that of each file


def test_of_followed_processes_the_hits_of_others_do_not_count() -> None:
    found, session, _ = silence((3, 3))
    found._plan = replace(found._plan, shared=True)
    session.hits = lambda: 0  # type: ignore[method-assign]
    rendered: Any = Rendered()
    assert said_of(found.closing(Outcome(0, Loss(), 0, 1), rendered.silent)) == [
        "no probe was hit: nobody runs /bin/a"
    ]


def test_the_first_statement_tells_whether_a_predicate_ever_held() -> None:
    """Only what each run of the body does for sure."""
    found, _, _ = silence((4,))
    untold, told = Outcome(0, Loss(), 4, 1), Outcome(0, Loss(), 4, 1, told=True)
    prints = (typed.Printf(ir.N, 0, ()),)
    assert found._is_untouched(prints, untold) and not found._is_untouched(prints, told)
    assert not found._is_untouched((typed.Exit(ir.N, ir.num(0, UINT8)),), untold)
    assert not found._is_untouched((), untold)


def test_a_breakpoint_of_a_function_is_forgotten_without_that_of_its_return() -> None:
    breakpoints = Breakpoints(Target())
    breakpoints.noted = {(1, 2, 3, False): {7: "lacking", 8: "set"}, (1, 2, 3, True): {7: "set"}}
    breakpoints._forget(ProcessPlace(7, "/bin/app", 1, 2, 3, 0, returns=False))
    assert breakpoints.noted == {(1, 2, 3, False): {8: "set"}, (1, 2, 3, True): {7: "set"}}
