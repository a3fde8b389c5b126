"""What is said of the tests on a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.lab.suite import Outcome, Result


@dataclass(frozen=True)
class Row:
    """What one backend came to on a kernel, in legs: a case in one format. `backend` is None for tests/vm.

    `refused` and `excepted` legs have passed too: the suite says that the backend refuses the case everywhere, or that
    it answers otherwise on such a kernel.
    """

    backend: str | None
    passed: int
    refused: int
    excepted: int
    skipped: int
    failed: int

    def __str__(self) -> str:
        what = "tests of this kernel" if self.backend is None else f"contract on {self.backend}"
        parts = [f"{self.passed} passed"]
        parts += [
            f"{count} {name}"
            for count, name in (
                (self.refused, "refused"),
                (self.excepted, "said exceptions"),
                (self.skipped, "left out"),
                (self.failed, "FAILED"),
            )
            if count
        ]
        return f"{what}: {', '.join(parts)}"


def rows(results: Sequence[Result]) -> list[Row]:
    """The counts by backend, the tests of the kernel last."""
    found: list[Row] = []
    for backend in sorted({result.backend for result in results}, key=lambda name: (name is None, name or "")):
        counts = Counter(result.outcome for result in results if result.backend == backend)
        outcomes = ("passed", "refused", "excepted", "skipped", "failed")
        found.append(Row(backend, *(counts[outcome] for outcome in outcomes)))
    return found


def report(outcome: Outcome) -> str:
    """Some lines: the counts, and all that went wrong."""
    verdict = "passed" if outcome.passed else "FAILED"
    lines = [f"{outcome.kernel} ({outcome.release or 'did not boot'}): {verdict}, {outcome.took_s:.0f} s"]
    lines += [f"  {row}" for row in rows(outcome.results)]
    for result in outcome.failures:
        lines += [f"--- {outcome.kernel}: {result.test}", result.said.rstrip()]
    lines += [f"--- {outcome.kernel}: {line}" for line in outcome.trouble]
    return "\n".join(lines)
