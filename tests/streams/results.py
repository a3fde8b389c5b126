"""What came of the tests of a stream, and what is said of all streams in the end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

FORGIVEN = 3
"""So many tests may fail beside other work, where each passes alone."""

_SLOWEST = 20
_DEAREST = 10
_LINES = 40
"""Of a failed test's report, at the end of everything: who keeps only the end of what CI prints still sees why."""


@dataclass(frozen=True)
class Result:
    """One test: the seconds it took with its fixtures, those of CPU, and the reports of what failed of it."""

    test: str
    took_s: float
    failed: tuple[str, ...] = ()
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Stream:
    """A process of tests that has ended, by its name and exit status."""

    name: str
    status: int
    results: tuple[Result, ...]

    @property
    def failures(self) -> tuple[Result, ...]:
        """Those that failed."""
        return tuple(result for result in self.results if result.failed)

    @property
    def is_whole(self) -> bool:
        """Whether it came to its end, and says which tests failed: pytest's status is 1 then."""
        return self.status == (1 if self.failures else 0)


def read(path: Path) -> tuple[Result, ...]:
    """The results in a file of `plugin.Results`; none where there is no file. A line that was cut is left out."""
    lines = path.read_text().splitlines() if path.exists() else ()
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return tuple(Result(each["test"], each["took_s"], tuple(each["failed"]), each["cpu_s"]) for each in found)


def to_repeat(streams: Sequence[Stream]) -> tuple[Result, ...]:
    """The tests to run once more, alone: those that failed, where they are few."""
    failed = [result for stream in streams for result in stream.failures]
    return tuple(failed) if len(failed) <= FORGIVEN else ()


def passed(streams: Sequence[Stream], alone: Sequence[str]) -> bool:
    """Whether all is well; `alone` are the tests that failed and passed when they were run once more."""
    failed = {result.test for stream in streams for result in stream.failures}
    return all(stream.is_whole for stream in streams) and failed <= set(alone)


def files(streams: Sequence[Stream]) -> Iterator[str]:
    """Lines: the files whose tests need the most CPU, which is what a whole run on few processors takes."""
    costs: dict[str, float] = {}
    for result in (result for stream in streams for result in stream.results):
        file = result.test.partition("::")[0]
        costs[file] = costs.get(file, 0.0) + result.cpu_s
    yield f"== dearest {_DEAREST} of {len(costs)} files, by CPU"
    for file, cpu_s in sorted(costs.items(), key=lambda each: -each[1])[:_DEAREST]:
        yield f"{cpu_s:7.1f} s of CPU  {file}"


def summary(streams: Sequence[Stream], alone: Sequence[str]) -> Iterator[str]:
    """Lines: what was slow, what failed, and what failed but not alone, with the end of its report."""
    every = [(result, stream.name) for stream in streams for result in stream.results]
    yield f"== slowest {_SLOWEST} of {len(every)} tests"
    for result, name in sorted(every, key=lambda each: -each[0].took_s)[:_SLOWEST]:
        yield f"{result.took_s:7.1f} s, {result.cpu_s:6.1f} s of CPU  {result.test} ({name})"
    for stream in streams:
        if not stream.is_whole:
            yield f"{stream.name}: pytest ended with status {stream.status}"
        for result in stream.failures:
            if result.test in alone:
                yield from result.failed
                yield f"failed beside other work, passed alone: {result.test}: each is a bug to mend"
            else:
                yield from (_end_of(report) for report in result.failed)
                yield f"FAILED {result.test} ({stream.name})"


def _end_of(report: str) -> str:
    return "\n".join(report.splitlines()[-_LINES:])
