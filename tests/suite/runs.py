"""Runs the command lines of the suite, as many at a time as there are processors, ahead of who looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from difflib import unified_diff

from tests.harness.cli import Done, tracer
from tests.harness.legs import in_order
from tests.harness.warm import Warms
from tests.suite.case import TARGET, Case
from tests.suite.legs import Leg
from tests.targets.build import build


class Runs:
    """The runs of some legs, started about in their order and kept until they are asked for.

    They are forks of interpreters that have imported everything: a run that traces nothing then takes 30 ms.
    """

    def __init__(self, legs: Sequence[Leg], warms: Warms) -> None:
        self.legs = legs
        self._path = build(TARGET)
        self._warms = warms
        self._pool = ThreadPoolExecutor(max_workers=warms.count)
        self._runs: dict[tuple[str, str, str], Future[Done]] = {
            (str(case), backend, format): self._pool.submit(self._run, case, backend, format)
            for case, backend, format in in_order(legs)
        }

    def _run(self, case: Case, backend: str, format: str) -> Done:
        words = ["run", "--backend", backend, "-f", format, *case.words(case.located(self._path), self._path)]
        return tracer(*words, env=case.env) if case.env else self._warms.tracer(*words)

    def __call__(self, case: Case, backend: str, format: str) -> Done:
        """How the run of that leg ended."""
        return self._runs[str(case), backend, format].result()

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
