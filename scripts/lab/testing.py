"""`scripts/vm test`: the tests on several kernels, two machines at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from scripts.lab.children import end_all
from scripts.lab.errors import LabError, NotAvailable
from scripts.lab.images import image_of
from scripts.lab.kept import keep, kept
from scripts.lab.kernels import KERNELS, Kernel, kernel
from scripts.lab.report import report
from scripts.lab.suite import Outcome, prepare, test
from scripts.lab.table import write_table

_QUICK, _WHOLE = "0/3", "0/1"
_TIMEOUT_S = 3600.0


def test_kernels(names: Sequence[str], everything: bool, quick: bool) -> int:
    """Runs the tests on the kernels named, else on those that scripts/test runs, or on all; reports on stdout.

    Returns 1 where anything failed. A kernel that cannot be had has not passed, but only a required one fails.
    """
    wanted = [kernel(name) for name in names] or [each for each in KERNELS if everything or each.required]
    outcomes: dict[str, Outcome | NotAvailable] = {}
    for each, outcome in _outcomes(wanted, _QUICK if quick else _WHOLE):
        outcomes[each.name] = outcome
        print(report(outcome) if isinstance(outcome, Outcome) else f"{each.name}: not available: {outcome}", flush=True)
        if isinstance(outcome, Outcome) and not quick:
            keep(outcome)
    if everything and not quick:
        write_table(outcomes)
    failed = [each for each in wanted if not _is_well(each, outcomes[each.name])]
    return 1 if failed else 0


def tabulate() -> int:
    """Writes the table from the last whole run on each kernel."""
    outcomes = {each.name: outcome for each in KERNELS if (outcome := kept(each.name)) is not None}
    write_table(outcomes)
    return 0


def prepare_kernels(names: Sequence[str]) -> int:
    """Fetches or builds the kernels, and what their tests need."""
    wanted = [kernel(name) for name in names] or [each for each in KERNELS if each.required]
    for each in wanted:
        image_of(each)
    prepare(wanted, _QUICK)
    return 0


def _is_well(kernel: Kernel, outcome: Outcome | NotAvailable) -> bool:
    return outcome.passed if isinstance(outcome, Outcome) else not kernel.required


def _outcomes(kernels: Sequence[Kernel], part: str) -> Iterator[tuple[Kernel, Outcome | NotAvailable]]:
    """In the order in which they end."""
    prepare(kernels, part)
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        running = {pool.submit(_outcome, each, part): each for each in kernels}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            end_all()  # nothing where all is done; on Ctrl-C the threads would wait for their machines
            pool.shutdown(cancel_futures=True)


def _outcome(kernel: Kernel, part: str) -> Outcome | NotAvailable:
    try:
        return test(kernel, part, _TIMEOUT_S)
    except NotAvailable as error:
        return error
    except LabError as error:
        print(f"vm: {kernel.name}: {error}", file=sys.stderr)
        return Outcome(kernel.name, "", (), (str(error),), 0.0)
