"""Each case without root: the steps as Python, fed with the hits that the target says it made, show what bpftrace
0.27.1 answered; and the C of BCC's programs, compiled natively, does what the Python does. The bodies of BEGIN, which
BCC runs as Python, go through the C as the bodies of a probe.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.replay import Names
from tests.proof import native, python
from tests.proof.same import differ
from tests.proof.world import Hit, Memory
from tests.suite.case import TARGET, Case, cases
from tests.suite.orders import is_at, registers, said, session
from tests.suite.runs import difference
from tests.targets.build import build
from tracer.backends.bcc.codegen.generate import Generated
from tracer.backends.bcc.program import BccProgram
from tracer.errors import Source, TracerError
from tracer.pipeline import plan as plan_of
from tracer.plan.model import Plan
from tracer.render import renderer_of
from tracer.steps.model import Each
from tracer.steps.walk import walk
from tracer.tracing.loop import Controls, run

CASES = [case for case in cases() if case.recorded]


def test_every_case_has_an_answer() -> None:
    assert not [str(case) for case in cases() if not case.recorded], "run tests/suite/record.py"
    assert len(CASES) >= 600
    assert sum(case.json for case in CASES) * 3 >= len(CASES)


def planned(case: Case) -> Plan:
    """The plan of a case."""
    return plan_of(Source(case.located(build(TARGET))), case.params, environment=case.settings)[0]


@pytest.mark.parametrize(
    ("case", "format"), [(case, format) for case in CASES if not case.live for format in case.formats], ids=str
)
def test_steps_answer_as_recorded(case: Case, format: str) -> None:
    gap = case.gaps.get(("bcc", format)) or case.gaps.get(("ftrace", format))
    wrong = _wrong(case, format)
    if gap is not None and wrong:
        pytest.xfail(f"gap: {gap}")
    assert not wrong, f"{case.program}\n{wrong}"


def _wrong(case: Case, format: str) -> str:
    wanted, out = case.wanted, io.BytesIO()
    try:
        plan = planned(case)
    except TracerError as error:
        return "" if wanted.refused is not None else str(error)
    if wanted.refused is not None:
        return "it is not refused"
    with session(plan, case) as (opened, watched):
        outcome = run(opened, plan, renderer_of(format)(plan.program, Names(), out), Controls(), watched)
    found = out.getvalue().decode(errors="surrogateescape").replace(str(build(TARGET)), "T")
    if outcome.code != wanted.status:
        return f"status {outcome.code} instead of {wanted.status}"
    return difference(wanted.of(format) or "", found)


# --- C -------------------------------------------------------------------------------------------------------------


def _at_a_hit(case: Case) -> Case | None:
    """A case whose one clause runs at a probe: its own, or that of a BEGIN handed to one."""
    if case.live or case.env or case.wanted.refused is not None or case.gaps:
        return None
    if case.rounds is not None:
        return case
    moved, count = re.subn(r"\b(?:BEGIN|begin)(?= *[{/])", "uprobe:T:twice", case.program)
    alone = count == 1 and not re.search(r"\b(END|end)\b", case.program)
    return replace(case, program=moved, rounds=1) if alone else None


_WITHOUT = re.compile(
    r"\b(monotonic_ns|random_number|current_(task|cgroup|in_namespace)|signal_\w+|walk_stack|ring_\w+e)\("
)
"""Helpers of the kernel that shim.c has not."""


def _in_c(case: Case) -> tuple[Plan, Generated] | None:
    """What BCC would compile; None for what it, or the harness, does not do."""
    try:
        plan = planned(case)
        bodies = [step for probe in plan.probes for step in walk(plan.steps[probe.clause.id].body)]
        if len(plan.program.clauses) != 1 or not bodies or any(isinstance(step, Each) for step in bodies):
            return None
        generated = BccProgram(plan).generated
    except TracerError:
        return None
    return None if generated.tasks or _WITHOUT.search(generated.text) else (plan, generated)


@pytest.fixture(scope="module")
def natives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, object]]]:
    """By case what the C and what the Python does."""
    found = [(case, made) for each in CASES if (case := _at_a_hit(each)) and (made := _in_c(case))]
    answers: dict[str, list[dict[str, object]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        programs = native.compile_many([made[1] for _, made in found], Path(folder), True, native.QUICK)
        for number, (case, (plan, _)) in enumerate(found):
            hits, memory = _hits(plan, case)
            programs.set_memory(memory)
            answers[str(case)] = [programs.run(number, plan, hits), python.run(plan, hits, memory)]
        programs.close()
    return answers


def _hits(plan: Plan, case: Case) -> tuple[Sequence[Hit], Memory]:
    """The hits of the last round: memory changes with each."""
    every = said(case.rounds or 1)
    memory = every[-1].memory
    sites = plan.program.clauses[0].sites
    found = []
    for at, hit in enumerate(every):
        for probe in plan.probes:
            for variant in probe.variants:
                for site in variant.places:
                    if is_at(site, hit):
                        found.append(registers(hit, variant, 2000 + at, sites.index(site)))
    return found, memory


@pytest.mark.parametrize("case", [case for case in CASES if _at_a_hit(case)], ids=str)
def test_c_does_what_the_python_does(case: Case, natives: dict[str, list[dict[str, object]]]) -> None:
    if str(case) not in natives:
        pytest.skip("several clauses, or nothing that C could do")
    as_c, as_python = natives[str(case)]
    assert not differ([as_c, as_python]), f"{case.program}\nC:      {as_c}\nPython: {as_python}"
