"""`scripts/vm test`: the tests on several kernels, two machines at a time.

They are the contract and the suite on each backend that the kernel has, and tests/vm. All run in the guest by pytest,
from the same files as here. What can be made beforehand is made here: the traced programs, the BPF objects, Python's
bytecode.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from scripts.lab import LabError, NotAvailable
from scripts.lab.boot import Ended, run
from scripts.lab.cache import cache_directory, locked
from scripts.lab.children import end_all, run as run_here
from scripts.lab.images import image_of
from scripts.lab.kernels import BCC, KERNELS, Kernel, kernel
from scripts.lab.results import COMPLAINED, Outcome, Result, keep, kept, report, write_table
from tests.targets.build import cache_dir
from tracer.cache import MOST_FILES

ROOT = Path(__file__).resolve().parents[2]

TESTS = ("tests/contract/test_backends.py", "tests/suite/test_suite.py", "tests/vm")
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "tests.vm.plugin", "-p", "no:cacheprovider")

# Under emulation a run of tracer takes seconds, and two machines may have one processor between them.
_PATIENCE = 10
_WHOLE, _THIRD, _SIXTH = "0/1", "0/3", "0/6"
_RUN_WHOLE = ("nobpf", "6.1")
"""Kernels on which everything has run not long ago (docs/kernels.md): a sixth of it tells what has changed since.
nobpf is the Linux of 6.1, so that what ftrace answers runs on 6.1 a few times only.
"""

_TIMEOUT_S = 7200.0
_COMPLAINTS = 5
_PRIORITY = os.getpriority(os.PRIO_PROCESS, 0)
_COMPLAINT = re.compile(r"WARNING:|BUG:|Oops|general protection|Kernel panic|INFO: task|rcu: INFO")


def test_kernels(names: Sequence[str], everything: bool, quick: bool, again: bool = False) -> int:
    """Runs the tests on the kernels named, else on those that scripts/test runs, or on all; reports on stdout.

    With `again` only what has not passed in the whole run that is kept of each kernel, which becomes part of that run.
    Returns 1 where anything failed. A kernel that cannot be had has not passed, but only a required one fails.
    """
    wanted = [kernel(name) for name in names] or [row for row in KERNELS if everything or row.required]
    outcomes: dict[str, Outcome | NotAvailable] = {}
    for row, outcome in _outcomes(wanted, quick, again):
        outcomes[row.name] = outcome
        print(report(outcome) if isinstance(outcome, Outcome) else f"{row.name}: not available: {outcome}", flush=True)
        if isinstance(outcome, Outcome) and not quick:
            keep(outcome)
    if everything and not quick:
        write_table(outcomes)
    failed = [row for row in wanted if not _is_well(row, outcomes[row.name])]
    return 1 if failed else 0


def tabulate() -> int:
    """Writes the table from the last whole run on each kernel."""
    outcomes = {row.name: outcome for row in KERNELS if (outcome := kept(row.name)) is not None}
    write_table(outcomes)
    return 0


def prepare_kernels(names: Sequence[str]) -> int:
    """Fetches or builds the kernels, and what their tests need."""
    wanted = [kernel(name) for name in names] or [row for row in KERNELS if row.required]
    for row in wanted:
        image_of(row)
    _prepare(wanted, True)
    return 0


def _is_well(kernel: Kernel, outcome: Outcome | NotAvailable) -> bool:
    return outcome.passed if isinstance(outcome, Outcome) else not kernel.required


def _outcomes(kernels: Sequence[Kernel], quick: bool, again: bool) -> Iterator[tuple[Kernel, Outcome | NotAvailable]]:
    """The kernels with their outcomes, in the order in which they end."""
    _prepare(kernels, quick)
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        longest_first = sorted(kernels, key=lambda row: -len(row.backends))
        running = {
            pool.submit(_outcome, row, _part(row, quick), kept(row.name) if again else None, number > 0): row
            for number, row in enumerate(longest_first)
        }
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            end_all()  # nothing where all is done; on Ctrl-C the threads would wait for their machines
            pool.shutdown(cancel_futures=True)


def _outcome(kernel: Kernel, part: str, earlier: Outcome | None, gives_way: bool) -> Outcome | NotAvailable:
    if gives_way:  # to the longest, for which all wait; on Linux this is the thread's own, and its children's
        os.setpriority(os.PRIO_PROCESS, 0, min(_PRIORITY + 5, 19))
    try:
        outcome = _test(kernel, part, earlier.done if earlier else (), _TIMEOUT_S)
        return outcome if earlier is None else earlier.with_more(outcome)
    except NotAvailable as error:
        return error
    except LabError as error:
        print(f"vm: {kernel.name}: {error}", file=sys.stderr)
        return Outcome(kernel.name, "", (), (str(error),), 0.0)


def _part(kernel: Kernel, quick: bool) -> str:
    """Chooses which of the contract, the suite and the random programs run on a kernel."""
    return _WHOLE if not quick else _SIXTH if kernel.name in _RUN_WHOLE else _THIRD


def _prepare(kernels: Sequence[Kernel], quick: bool) -> None:
    """Makes beforehand what does not depend on the kernel being there."""
    with locked("prepare"):
        _here(sys.executable, "-m", "tests.targets.build")
        compiling = [kernel for kernel in kernels if BCC in kernel.backends]
        for flags, part in sorted({(_flags(kernel), _part(kernel, quick)) for kernel in compiling}):
            words = ["1" if flag else "0" for flag in flags]
            home = _objects(flags, part)
            if sum(1 for _ in home.rglob("*")) > MOST_FILES // 2:
                shutil.rmtree(home)  # else the cache might forget some of these, and a machine takes a minute for each
            home.mkdir(parents=True, exist_ok=True)
            module = (sys.executable, "-m", "tests.contract.objects")
            _here(*module, *words, *part.split("/"), XDG_CACHE_HOME=str(home))
        # In a machine a module takes ten times as long to compile as to read. Collecting leaves the bytecode of the
        # tests, with pytest's own changes, beside them.
        _here(sys.executable, "-m", "compileall", "-q", "tracer", "tests/harness")
        _here(*_PYTEST, "--vm-kernel", kernels[0].name, "--collect-only", *TESTS)


def _test(kernel: Kernel, part: str, done: Iterable[str], timeout_s: float) -> Outcome:
    """Runs the tests on a kernel. Raises `LabError` where the kernel cannot be had."""
    start = time.monotonic()
    image = image_of(kernel)
    environment = {
        "CI": "true",  # a test that cannot run is a failure
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # each takes a while to import
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRACER_TEST_CACHE": str(cache_dir()),
        "TRACER_TEST_LEGS": "/run/vm/legs",
        "TRACER_TEST_WARM": "1",
        "TRACER_TEST_PATIENCE": str(_PATIENCE),
        "XDG_CACHE_HOME": str(_objects(_flags(kernel), part)),
    }
    options = (
        *("-p", "pytest_timeout"),
        f"--vm-kernel={kernel.name}",
        f"--vm-part={part}",
        *(["--vm-few=ftrace"] if part != _WHOLE and len(kernel.backends) > 1 else []),
        "--vm-results=/run/vm/results",
        "--vm-done=/run/vm/done",
    )
    pytest = " ".join((*_PYTEST, *options, "--tb=short", *TESTS))
    with tempfile.TemporaryDirectory(prefix="tracer-vm-test.") as place:
        share = Path(place)
        (share / "done").write_text("".join(f"{name}\n" for name in done))
        _here(sys.executable, "-m", "tests.vm.meet", str(share / "legs"))
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
    lines = [f"{COMPLAINED}: {line}" for line in heard[:_COMPLAINTS]]
    lines += [f"{COMPLAINED} {len(heard) - _COMPLAINTS} times more"] if len(heard) > _COMPLAINTS else []
    if ended.status is None:
        what = f"the tests were ended after {timeout_s:g} s" if ended.time_was_up else "the guest died"
        lines += [what, *ended.console.splitlines()[-40:], *said.splitlines()[-20:]]
    elif ended.status not in (0, 1):  # 1: tests failed, which they say themselves
        lines += [f"pytest ended with status {ended.status}", *said.splitlines()[-40:]]
    return lines


def _flags(kernel: Kernel) -> tuple[bool, bool, bool]:
    """The flags by which BPF programs differ for a kernel: whether they sleep, whether their links bear cookies, and
    whether helpers copy the kernel's memory.
    """
    return "sleepable" in kernel.features, "multi" in kernel.features, "reads" in kernel.features


def _objects(flags: tuple[bool, bool, bool], part: str) -> Path:
    """The directory that keeps the BPF objects of a part, apart from those of others: a cache of tracer's holds some
    hundred.
    """
    name = "-".join("yes" if flag else "no" for flag in flags)
    return cache_directory() / "objects" / name / part.replace("/", "-of-")


def _here(*command: str, **environment: str) -> None:
    with tempfile.TemporaryFile() as said:
        if run_here(command, said, ROOT, PYTHONDONTWRITEBYTECODE="", **environment):
            said.seek(0)
            raise LabError(f"{' '.join(command[1:])} failed:\n{said.read().decode(errors='replace')[-3000:]}")


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
