"""Runs the command lines of the suite, as many at a time as there are processors, ahead of who looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from difflib import unified_diff

from tests.harness.cli import Done
from tests.harness.legs import in_formats
from tests.harness.warm import Warms
from tests.suite.case import TARGET, Case
from tests.suite.legs import Leg
from tests.targets.build import build


class Runs:
    """The runs of some legs, started about in their order and kept until they are asked for.

    They are forks of interpreters that have imported everything: a run that traces nothing then takes 30 ms. Text and
    JSON of a case on a backend are of one run, which has two outputs.
    """

    def __init__(self, legs: Sequence[Leg], warms: Warms) -> None:
        self.legs = legs
        self._path = build(TARGET)
        self._warms = warms
        self._pool = ThreadPoolExecutor(max_workers=warms.count)
        wanted: dict[tuple[str, str], tuple[Case, list[str]]] = {}
        for case, backend, format in legs:
            wanted.setdefault((str(case), backend), (case, []))[1].append(format)
        self._runs: dict[tuple[str, str], Future[dict[str, Done]]] = {
            (name, backend): self._pool.submit(self._run, case, backend, formats)
            for (name, backend), (case, formats) in wanted.items()
        }

    def _run(self, case: Case, backend: str, formats: Sequence[str]) -> dict[str, Done]:
        words = case.words(case.located(self._path), self._path)
        start = ("run", "--backend", backend, "-f", formats[0])
        return in_formats(formats, lambda *also: self._warms.tracer(*start, *also, *words, env=case.env))

    def __call__(self, case: Case, backend: str, format: str) -> Done:
        """How the run of that leg ended."""
        return self._runs[str(case), backend].result()[format]

    def close(self) -> None:
        """Drops the runs that nobody will ask for."""
        self._pool.shutdown(cancel_futures=True)


def settled(printed: bytes) -> str:
    """Output as the recorded answers have it: the target's path is T."""
    return printed.decode(errors="surrogateescape").replace(str(build(TARGET)), "T")


def fault(case: Case, backend: str, format: str, done: Done) -> str:
    """What is wrong with a run; nothing if it is as it should be."""
    found, wanted = settled(done.printed), case.wanted
    refused = case.refused.get(backend, wanted.refused)
    if refused is not None:
        if done.status not in (1, 2) or found or "error: " not in done.said:
            return f"not refused: status {done.status}\n{found}\n{done.said}"
        if (backend in case.refused or case.ours is not None) and refused not in settled(done.said.encode()):
            return f"refused otherwise than by `{refused}`:\n{done.said}"
        return ""
    if said := difference(wanted.of(format) or "", found):
        return f"{said}\n{done.said}"
    return "" if done.status == wanted.status else f"status {done.status} instead of {wanted.status}\n{done.said}"


def difference(wanted: str, found: str) -> str:
    """The lines that differ."""
    lines = unified_diff(wanted.splitlines(True), found.splitlines(True), "wanted", "found")
    said = "".join(line if line.endswith("\n") else line + "\n\\ no newline\n" for line in lines)
    return said or ("the ends of lines" if wanted != found else "")
