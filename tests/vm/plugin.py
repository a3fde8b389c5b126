"""What `scripts/vm test` adds to pytest in a guest: which kernel this is, which legs to run, and results as they come.

Loaded with `-p tests.vm.plugin`. Results are lines of JSON in a file that the host keeps, so that those of a guest
that died are there.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import cast

import pytest

from scripts.lab.kernels import Kernel, kernel
from tests.contract.case import Case
from tests.contract.cases import part_of
from tests.contract.legs import FORMATS, MEET as CONTRACT
from tests.suite import case as suite
from tests.suite.legs import MEET as SUITE


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vm", "tests in a guest of scripts/vm")
    group.addoption("--vm-kernel", metavar="NAME", help="the kernel's name in scripts/lab/kernels.py")
    group.addoption("--vm-results", type=Path, metavar="FILE", help="where to write the results")
    group.addoption("--vm-done", type=Path, metavar="FILE", help="lines with tests to leave out")
    group.addoption("--vm-part", default="0/1", metavar="I/N", help="of the contract and the suite, the Ith of N parts")
    group.addoption("--vm-few", metavar="BACKEND", help="of what this backend answers, one in four")


def kernel_of(config: pytest.Config) -> Kernel:
    """The row of the kernel that this is."""
    return kernel(config.getoption("--vm-kernel"))


FEW = 4
"""Of what `--vm-few` names one in so many runs."""

Leg = tuple[Case | suite.Case, str, str]  # case, backend, format


def leg_of(item: pytest.Item) -> Leg | None:
    """The leg of the contract or of the suite that a test is; None for other tests."""
    call = getattr(item, "callspec", None)
    if call is None:
        return None
    if "suite_leg" in call.params:
        return cast("Leg", call.params["suite_leg"])
    if not {"case", "backend", "format"} <= call.params.keys():
        return None
    return call.params["case"], call.params["backend"], call.params["format"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the backends that this kernel has not, the cases of the other parts, those in whose answers no backend
    has a part, and what is done already. Of a part a case is run as text or as JSON by turns: for the kernel that is
    the same program twice. Random programs are left out by their seeds as cases are. What is wanted a few times only,
    by turns: it runs on another kernel.
    """
    index, parts = map(int, config.getoption("--vm-part").split("/"))
    cases: dict[str, tuple[str, ...]] = {str(case): FORMATS for case in part_of(index, parts)}
    cases |= {str(case): case.formats for case in suite.part_of(index, parts)}
    meet = CONTRACT | SUITE
    cases = {name: formats for name, formats in cases.items() if name in meet}
    if parts > 1:
        by_turns = enumerate(cases.items())
        cases = {name: (formats[number % len(formats)],) for number, (name, formats) in by_turns}
    path = config.getoption("--vm-done")
    done = set(path.read_text().splitlines()) if path is not None else set()
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        leg = leg_of(item)
        if leg is None:
            wanted = _seed(item, index) % parts == index
        else:
            wanted = leg[2] in cases.get(str(leg[0]), ()) and leg[1] in kernel_of(config).backends
        (kept if wanted and item.nodeid not in done else dropped).append(item)
    few = [item for item in kept if _asks(item, config.getoption("--vm-few"))]
    spared = {item for number, item in enumerate(few) if number % FEW}
    config.hook.pytest_deselected(items=[*dropped, *spared])
    items[:] = [item for item in kept if item not in spared]


def _asks(item: pytest.Item, backend: str | None) -> bool:
    """Whether a test is a leg of a backend, or one of tests/vm that needs it."""
    leg = leg_of(item)
    return backend in (leg[1:2] if leg else [name for mark in item.iter_markers("needs") for name in mark.args])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    path = item.config.getoption("--vm-results")
    # A test says one thing: what its call came to, or why it did not get there or back.
    if path is not None and (report.when == "call" or not report.passed):
        leg = leg_of(item)
        line = {
            "test": item.nodeid,
            "backend": leg and leg[1],
            "outcome": _kind(leg, report) if leg and report.passed else report.outcome,
            "said": "" if report.passed else report.longreprtext,
        }
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
    return report


def _seed(item: pytest.Item, other: int) -> int:
    """Of random programs; what is given, of other tests."""
    call = getattr(item, "callspec", None)
    return other if call is None else int(call.params.get("seed", other))


def _kind(leg: Leg, report: pytest.TestReport) -> str:
    """Why a leg passed: as anywhere, by the refusal that the case names, or by the exception for such a kernel."""
    case, backend, _ = leg
    if backend in case.refused:
        return "refused"
    return "excepted" if ("excepted", True) in report.user_properties else "passed"
