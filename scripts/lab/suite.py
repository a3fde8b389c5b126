"""Which tests run on a kernel, and what came of them.

They are the contract suite on each backend that the kernel has, and tests/vm. Both run in the guest by pytest, from the
same files as here. What can be made beforehand is made here: the traced programs, the BPF objects, Python's bytecode.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.lab.boot import Ended, run
from scripts.lab.cache import cache_directory, locked
from scripts.lab.children import run as run_here
from scripts.lab.errors import LabError
from scripts.lab.images import image_of
from scripts.lab.kernels import BCC, Kernel
from tests.targets.build import cache_dir

ROOT = Path(__file__).resolve().parents[2]

TESTS = ("tests/contract/test_backends.py", "tests/vm")
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "tests.vm.plugin", "-p", "no:cacheprovider")

# Under emulation a run of tracer takes seconds, and two machines may have one processor between them.
_PATIENCE = 10
_COMPLAINTS = 5
_COMPLAINT = re.compile(r"WARNING:|BUG:|Oops|general protection|Kernel panic|INFO: task|rcu: INFO")


@dataclass(frozen=True)
class Result:
    """One test in a guest.

    `outcome` is passed, skipped or failed; or refused or excepted, where the suite says that the backend refuses the
    case, or answers otherwise on such a kernel, and it did so.
    """

    test: str
    backend: str | None
    outcome: str
    said: str


@dataclass(frozen=True)
class Outcome:
    """What came of the tests on one kernel; `trouble` is whatever else was wrong, in lines."""

    kernel: str
    release: str
    results: tuple[Result, ...]
    trouble: tuple[str, ...]
    took_s: float
    day: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything is as it must be."""
        return not self.trouble and bool(self.results) and not self.failures

    @property
    def failures(self) -> tuple[Result, ...]:
        """The tests that failed."""
        return tuple(result for result in self.results if result.outcome == "failed")


def prepare(kernels: Sequence[Kernel], part: str) -> None:
    """Makes beforehand what does not depend on the kernel being there."""
    with locked("prepare"):
        _here(sys.executable, "-m", "tests.targets.build")
        for flags in sorted({_flags(kernel) for kernel in kernels if BCC in kernel.backends}):
            words = ["1" if flag else "0" for flag in flags]
            home = _objects(flags)
            home.mkdir(parents=True, exist_ok=True)
            module = (sys.executable, "-m", "tests.contract.objects")
            _here(*module, *words, *part.split("/"), XDG_CACHE_HOME=str(home))
        # Collecting leaves the bytecode of the tests, with pytest's own changes, beside them.
        _here(*_PYTEST, "--vm-kernel", kernels[0].name, "--collect-only", *TESTS)


def test(kernel: Kernel, part: str, timeout_s: float) -> Outcome:
    """Runs the tests on a kernel. Raises `LabError` where the kernel cannot be had."""
    start = time.monotonic()
    image = image_of(kernel)
    environment = {
        "CI": "true",  # a test that cannot run is a failure
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRACER_TEST_CACHE": str(cache_dir()),
        "TRACER_TEST_WARM": "1",
        "TRACER_TEST_PATIENCE": str(_PATIENCE),
        "XDG_CACHE_HOME": str(_objects(_flags(kernel))),
    }
    options = (f"--vm-kernel={kernel.name}", f"--vm-part={part}", "--vm-results=/run/vm/results")
    pytest = " ".join((*_PYTEST, *options, "--tb=short", *TESTS))
    with tempfile.TemporaryDirectory(prefix="tracer-vm-test.") as place:
        share = Path(place)
        with (share / "said").open("wb") as said:
            ended = run(
                image,
                [f"uname -r > /run/vm/release; exec {pytest}"],
                timeout_s=timeout_s,
                out=said,
                err=said,
                environment=environment,
                directory=ROOT,
                share=share,
            )
        return Outcome(
            kernel.name,
            _text(share / "release").strip(),
            tuple(Result(**json.loads(line)) for line in _text(share / "results").splitlines() if line.endswith("}")),
            tuple(_trouble(ended, _text(share / "said"), timeout_s)),
            time.monotonic() - start,
            time.strftime("%Y-%m-%d"),
        )


def complaints(console: str) -> list[str]:
    """The lines of a console in which the kernel complains of itself."""
    return [line for line in console.splitlines() if _COMPLAINT.search(line)]


def _trouble(ended: Ended, said: str, timeout_s: float) -> list[str]:
    heard = complaints(ended.console)
    lines = [f"the kernel complained: {line}" for line in heard[:_COMPLAINTS]]
    lines += [f"the kernel complained {len(heard) - _COMPLAINTS} times more"] if len(heard) > _COMPLAINTS else []
    if ended.status is None:
        what = f"the tests were ended after {timeout_s:g} s" if ended.time_was_up else "the guest died"
        lines += [what, *ended.console.splitlines()[-40:], *said.splitlines()[-20:]]
    elif ended.status not in (0, 1):  # 1: tests failed, which they say themselves
        lines += [f"pytest ended with status {ended.status}", *said.splitlines()[-40:]]
    return lines


def _flags(kernel: Kernel) -> tuple[bool, bool, bool]:
    """How BPF programs are compiled for a kernel: whether they sleep, whether their links bear cookies, and whether
    helpers copy the kernel's memory.
    """
    return "sleepable" in kernel.features, "multi" in kernel.features, "reads" in kernel.features


def _objects(flags: tuple[bool, bool, bool]) -> Path:
    return cache_directory() / "objects" / "-".join("yes" if flag else "no" for flag in flags)


def _here(*command: str, **environment: str) -> None:
    with tempfile.TemporaryFile() as said:
        if run_here(command, said, ROOT, **environment):
            said.seek(0)
            raise LabError(f"{' '.join(command[1:])} failed:\n{said.read().decode(errors='replace')[-3000:]}")


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
