"""What is run once because no backend has a part in it: that is so for each, and a sample of the other legs agrees."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product

import pytest

from tests.contract import legs as contract
from tests.contract.case import Case as ContractCase
from tests.contract.cases import CASES, part_of
from tests.contract.conftest import command_line, program_of
from tests.harness.cli import ROOT, environment
from tests.harness.warm import Warms
from tests.suite import legs as suite
from tests.suite.case import TARGET, Case, part_of as suite_part_of
from tests.targets.build import build
from tracer import pipeline
from tracer.backends import ALONE
from tracer.backends.local import LocalSession
from tracer.errors import Source, TracerError
from tracer.kinds.site import EVERY_PROCESS

ONCE = [case for case in suite.CASES if str(case) not in suite.MEET]
CONTRACT_ONCE = [case for case in CASES if case.name not in contract.MEET]
EVERY = 25


def test_a_case_without_a_place_to_trace_comes_to_no_choice_of_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(*_: object) -> None:
        raise AssertionError("a backend was looked for")

    monkeypatch.setattr("tracer.backends.choose.choose", choose)
    refused = 0
    programs = [(case.located(build(TARGET)), case.params, case.settings) for case in ONCE]
    for text, params, settings in (*programs, *((program_of(case), [], {}) for case in CONTRACT_ONCE)):
        try:
            plan, _ = pipeline.plan(Source(text), params, environment=settings)
        except TracerError:
            refused += 1  # `plan` is not told the backend
            continue
        for forced in ("bcc", "ftrace"):
            compiled = pipeline.compile(plan, forced)
            assert compiled == pipeline.Compiled(plan, None, None, ())
            assert isinstance(pipeline.open_session(compiled, EVERY_PROCESS, ALONE), LocalSession)
    assert refused == sum(case.wanted.refused is not None for case in ONCE)
    assert len(programs) - refused > 600


def test_a_case_that_is_run_once_expects_nothing_of_a_backend_of_its_own() -> None:
    for case in ONCE:
        assert not case.refused, case
        assert {case.gaps.get(("bcc", format)) for format in case.formats} == {
            case.gaps.get(("ftrace", format)) for format in case.formats
        }, case
    assert not [case for case in CONTRACT_ONCE if case.refused or case.cold is not None]


def test_a_case_that_a_backend_has_a_part_in_is_run_on_both() -> None:
    for legs, meet in ((suite.LEGS, suite.MEET), (contract.LEGS, contract.MEET)):
        backends: dict[tuple[str, str], set[str]] = {}
        for case, backend, format in legs:
            backends.setdefault((str(case), format), set()).add(backend)
        assert {name for (name, _), on in backends.items() if on == {"bcc", "ftrace"}} == meet
        once = [on.pop() for on in backends.values() if len(on) == 1]
        assert min(once.count("bcc"), once.count("ftrace")) * 3 > len(once), "each is named for about as many"


def collected(*words: str) -> list[str]:
    """The tests of a sixth that would run on 6.1."""
    words = ("-p", "tests.vm.plugin", "--vm-kernel=6.1", "--vm-part=0/6", "--collect-only", "-q", *words)
    tests = ("tests/contract/test_backends.py", "tests/suite/test_suite.py", "tests/vm")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words, *tests]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=True)
    return re.findall(r"^tests/.*::.*", done.stdout, re.MULTILINE)


def test_a_part_for_another_kernel_has_each_case_that_traces_once_on_each_backend_or_few_of_one() -> None:
    every = collected()
    legs = [leg for test in every for leg in re.findall(r"\[(.*)-(bcc|ftrace)-(text|json)\]$", test)]
    cases = {str(case) for case in (*part_of(0, 6), *suite_part_of(0, 6))} & (contract.MEET | suite.MEET)
    assert sorted((case, backend) for case, backend, _ in legs) == sorted(product(cases, ("bcc", "ftrace")))
    assert {format for *_, format in legs} == {"text", "json"}

    few = collected("--vm-few=ftrace")
    of_ftrace = re.compile(r"-ftrace-|vm/test_(hist|strings|refusals)|test_ftrace_")
    ftrace = [test for test in every if of_ftrace.search(test)]
    assert few == [test for test in every if test not in ftrace or ftrace.index(test) % 4 == 0]
    assert {test.partition("::")[0] for test in few} == {test.partition("::")[0] for test in every}


@pytest.mark.parametrize("case", ONCE[::EVERY], ids=str)
def test_both_backends_named_answer_the_same_to_the_byte(case: Case, warms: Warms) -> None:
    path = build(TARGET)
    words = case.words(case.located(path), path)
    assert warms.tracer("run", "--backend", "bcc", *words) == warms.tracer("run", "--backend", "ftrace", *words)


@pytest.mark.parametrize("case", CONTRACT_ONCE[:: EVERY // 5], ids=str)
def test_so_do_those_of_the_contract(case: ContractCase, warms: Warms) -> None:
    bcc, ftrace = (warms.tracer(*command_line(case, backend, "json")) for backend in ("bcc", "ftrace"))
    assert bcc == ftrace
