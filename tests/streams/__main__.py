"""`python -m tests.streams [--machines]`: everything that must hold, where `scripts/test` has made the machine ready.

First run the live tests that look at a clock or at the whole machine, in one process, which leaves more than half of
two processors to those that give way: mypy, one process of the tests that do not trace, and with `--machines` what is
run on other kernels. Then come the other live tests, in three processes, since they wait for half of their time, beside
what is left of those. So no processor waits for the end of one process. Tests that failed are run once more when all is
quiet (`results`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.streams.results import Stream, files, passed, read, summary, to_repeat

ROOT = Path(__file__).resolve().parents[2]
TYPES = (sys.executable, "-m", "mypy")
MACHINES = (str(ROOT / "scripts" / "vm"), "test", "--quick")
PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.streams.plugin", "-p", "no:cacheprovider")
LIVE = 3
"""So many processes of live tests beside each other."""

_LOOK_EVERY_S, _SAY_EVERY_S, _GRACE_S = 0.2, 60.0, 30.0


class Job:
    """A process under way, which gives way to others by `niceness`; what it prints goes to a file."""

    def __init__(self, name: str, command: Sequence[str], home: Path, niceness: int = 0, **environment: str) -> None:
        self.name = name
        self.said = home / f"{name}.out"
        self.started = time.monotonic()
        self.took_s = self.cpu_s = 0.0
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                ["nice", "-n", str(niceness), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is for us, who end it
            )

    @property
    def runs(self) -> bool:
        """Whether it has not ended. When it has, it is known what it took, with the children that it waited for."""
        if self.process.returncode is None:
            ended, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if ended:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.took_s = time.monotonic() - self.started
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self.process.returncode is None

    def tell(self) -> None:
        """Prints its output."""
        print(f"== {self.name}, {self.took_s:.0f} s", flush=True)
        with self.said.open("rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer)
        sys.stdout.flush()

    def interrupt(self) -> None:
        """Asks it to end: pytest then undoes what it has set up."""
        if self.runs:
            self._signal(signal.SIGINT)

    def end(self) -> None:
        """Ends it with all of its group, where it has not in a while."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE_S)
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class Streams:
    """The jobs of one run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.jobs: list[Job] = []
        self._pytests: list[Job] = []
        for name in ("live", "others"):
            (home / name).mkdir()

    def start(self, name: str, command: Sequence[str], niceness: int = 0, **environment: str) -> Job:
        """Starts a process."""
        job = Job(name, command, self.home, niceness, **environment)
        self.jobs.append(job)
        return job

    def pytest(self, name: str, *words: str, niceness: int = 0, **environment: str) -> Job:
        """Starts a process of tests."""
        # With a blank for each "=" pytest would take the paths for tests, and look for its settings there.
        command = (*PYTEST, f"--results={self._results(name)}", *words)
        job = self.start(name, command, niceness, **environment)
        self._pytests.append(job)
        return job

    def _results(self, name: str) -> Path:
        return self.home / f"{name}.results"

    def ended(self) -> list[Stream]:
        """The processes of tests, which all have ended."""
        return [Stream(job.name, job.process.wait(), read(self._results(job.name))) for job in self._pytests]

    def costs(self) -> Iterator[str]:
        """Lines: what each process took, of all that have ended, the one that ended last at the bottom."""
        yield "== seconds of each process, and of CPU"
        first = min(job.started for job in self.jobs)
        for job in sorted(self.jobs, key=lambda job: job.started + job.took_s):
            begun = job.started - first
            yield f"{begun:6.0f} to {begun + job.took_s:6.0f} s, {job.cpu_s:6.0f} s of CPU  {job.name}"

    def live(self, number: int) -> Job:
        """One process of those live tests that may run beside others."""
        return self.pytest(f"live-{number}", "-m", "live", "--alone=never", f"--stream={self.home / 'live'}")

    def clocks(self) -> Job:
        """The other live tests."""
        return self.pytest("live-alone", "-m", "live", "--alone=only")

    def others(self, number: int) -> Job:
        """One process of those that do not trace. They give way, but not much: at a niceness of 12 they hardly began
        before the live ones had ended. What they must do within a time may take twice as long.
        """
        return self.pytest(
            f"others-{number}", "-m", "not live", f"--stream={self.home / 'others'}",
            niceness=5, TRACER_TEST_PATIENCE="2",
        )  # fmt: skip

    def wait(self, *jobs: Job) -> None:
        """Until they have ended; says now and then how far all are."""
        said = time.monotonic()
        while any(job.runs for job in jobs):
            time.sleep(_LOOK_EVERY_S)
            if time.monotonic() - said > _SAY_EVERY_S:
                said = time.monotonic()
                results = [result for job in self._pytests for result in read(self._results(job.name))]
                failed = sum(bool(result.failed) for result in results)
                running = ", ".join(job.name for job in self.jobs if job.runs)
                print(f"{len(results)} tests, {failed} failed; running: {running}", file=sys.stderr, flush=True)


@contextmanager
def streams() -> Iterator[Streams]:
    """What is run; all of it is ended on every way out."""
    with tempfile.TemporaryDirectory(prefix="tracer-streams.") as place:
        made = Streams(Path(place))
        try:
            yield made
        finally:
            under_way = [job for job in made.jobs if job.runs]
            for job in under_way:
                job.interrupt()
            for job in under_way:
                job.end()


def run(machines: bool) -> int:
    """Runs everything; the exit status."""
    with streams() as here:
        types = here.start("mypy", TYPES, 5)
        clocks = here.clocks()
        others = [here.others(1)]
        # A thirtieth of a live test's share where that wants all: live tests look at clocks, and end early so.
        kernels = [here.start("other kernels", MACHINES, 14)] if machines else []
        here.wait(types)
        types.tell()
        if types.process.returncode:
            return 1
        here.wait(clocks)
        live = [here.live(number + 1) for number in range(LIVE)]
        here.wait(*live)
        if others[0].runs:
            others.append(here.others(2))
        here.wait(*others, *kernels)
        for job in (clocks, *live, *others, *kernels):
            job.tell()
        ended = here.ended()
        alone = list(_alone(here, ended))
        print("\n".join([*here.costs(), *files(ended), *summary(ended, alone)]), flush=True)
        return 0 if passed(ended, alone) and not any(job.process.returncode for job in kernels) else 1


def _alone(here: Streams, ended: Sequence[Stream]) -> Iterator[str]:
    """Which of the tests that failed pass when nothing else runs."""
    for number, result in enumerate(to_repeat(ended)):
        job = here.start(f"once more {number + 1}", (*PYTEST, result.test))
        here.wait(job)
        job.tell()
        if job.process.returncode == 0:
            yield result.test


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        sys.exit(run("--machines" in sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
