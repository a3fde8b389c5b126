"""Runs the same random programs over the same hits as C, as Python and, some, by the tree walk, and compares."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.proof import native, python, walk
from tests.proof.programs import make_plan, refused
from tests.proof.shrink import shrunk
from tests.proof.tables import lister
from tests.proof.texts import make_text
from tests.proof.world import Hit, Memory, make_hit, make_memory
from tracer.backends.bcc.codegen.generate import generate
from tracer.dataclass import replace
from tracer.kinds.site import ArgSpec, FileSite, in_files
from tracer.lang import typed
from tracer.lang.printing.typed import print_typed
from tracer.plan.dump import dump_steps
from tracer.plan.lower import lower
from tracer.plan.model import Plan
from tracer.results.events import Loss
from tracer.steps.model import Each
from tracer.steps.python import maps as python_maps
from tracer.steps.walk import walk as steps_in

CHUNK = 100
"""Programs that are compiled together, and that see one memory."""

WALKED = 4
"""One of so many programs is walked too."""

WRITTEN = 20
"""One of so many programs is made as text, and walked both with its macros and with what they stand for."""

OPTIMISED = 64
"""One chunk of so many is compiled by an optimising compiler, as clang does for BPF: it takes minutes for all."""

LOOP_LIMIT = 16

HALVED = "halved"
"""What has been seen where programs did not compile together, so that each half was tried, which is dear."""


@dataclass(frozen=True)
class Case:
    """A program and what happens to it. One that is made as text has its text, and another plan that does the same."""

    plan: Plan
    hits: Sequence[Hit]
    text: str = ""
    same: Plan | None = None


@dataclass
class Report:
    """What a chunk came to: failures as text, seconds of each leg, how often something interesting happened."""

    failures: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)


_T = TypeVar("_T")
Outcome = dict[str, object]
Spoil = Callable[[], None]


def our_loops() -> None:
    """Loops end early, in every module that knows where, and go over maps as the shim does: call it in a process of its
    own.
    """
    python_maps._lister = lister
    for name, module in list(sys.modules.items()):
        if name.startswith("tracer.") and hasattr(module, "LOOP_LIMIT"):
            module.LOOP_LIMIT = LOOP_LIMIT  # type: ignore[attr-defined]


def check(seeds: Sequence[int], spoil: Spoil | None = None) -> Report:
    """Compares the programs of some seeds of one chunk; in a process of its own. `spoil` breaks something first."""
    our_loops()
    if spoil is not None:
        spoil()
    chunk = seeds[0] // CHUNK
    memory = make_memory(random.Random(f"memory {chunk}"))
    report = Report()
    cases = _timed(report, "make", lambda: [_case(seed, memory) for seed in seeds])
    optimised = chunk % OPTIMISED == 0
    with tempfile.TemporaryDirectory() as folder:
        legs = Legs(report, memory, Path(folder), chunk % 2 == 0)
        compiler = native.OPTIMISED if optimised else native.QUICK
        found = legs.answers(cases, compiler, [seed % WALKED == 0 for seed in seeds])
        compiler = native.OPTIMISED if optimised else native.PLAIN
        for seed, case, answers in zip(seeds, cases, found, strict=True):
            walks = any(isinstance(step, Each) for steps in case.plan.steps.values() for step in steps_in(steps.body))
            for thing in (*_interesting(answers[0]), *(["walks"] if walks else [])):
                report.seen[thing] = report.seen.get(thing, 0) + 1
            if differ(answers) and differ(legs.answers([case], compiler)[0]):
                report.failures.append(f"seed {seed}: {_failure(legs, case, compiler) if spoil is None else spoil}")
                if len(report.failures) == 3 or spoil is not None:
                    break
    return report


def _case(seed: int, memory: Memory) -> Case:
    rng = random.Random(f"program {seed}")
    written = make_text(rng, memory.points) if seed % WRITTEN == WRITTEN - 1 else None
    plan = written.plan if written else make_plan(rng, memory.points)
    sites = len(plan.program.clauses[0].sites)
    sound = written is not None and rng.random() < 0.7
    hits = [make_hit(rng, sites, memory, sound) for _ in range(rng.choice([1, 2, 3, 5]))]
    return Case(plan, hits, written.text, written.expanded) if written else Case(plan, hits)


def _timed(report: Report, what: str, do: Callable[[], _T]) -> _T:
    begin = time.perf_counter()
    found = do()
    report.seconds[what] = report.seconds.get(what, 0.0) + time.perf_counter() - begin
    return found


class Legs:
    """Runs cases on all legs."""

    def __init__(self, report: Report, memory: Memory, folder: Path, kernel_reads: bool) -> None:
        self.report = report
        self.memory = memory
        self.folder = folder
        self.kernel_reads = kernel_reads

    def answers(
        self, cases: Sequence[Case], compiler: str, walked: Sequence[bool] | None = None
    ) -> list[list[Outcome]]:
        """What each program does: as C, as Python, and where it is walked (all, if nothing is said) by the walk."""
        found = []
        for at, (case, as_c) in enumerate(zip(cases, self._as_c(cases, compiler), strict=True)):
            answers = [as_c, self._run("Python", python.run, case)]
            if walked is None or walked[at] or case.same:
                answers.append(self._run("walk", walk.run, case))
            if case.same:
                answers.append(self._run("walk", walk.run, replace(case, plan=case.same)))
            found.append(answers)
        return found

    def _run(self, leg: str, run: Callable[[Plan, Sequence[Hit], Memory], Outcome], case: Case) -> Outcome:
        def safely() -> Outcome:
            try:
                return run(case.plan, case.hits, self.memory)
            except Exception as error:
                return {"raised": f"{type(error).__name__}: {error}"}

        return _timed(self.report, leg, safely)

    def _as_c(self, cases: Sequence[Case], compiler: str) -> list[Outcome]:
        try:
            generated = _timed(
                self.report, "print C", lambda: [generate(case.plan, at % 2 == 1) for at, case in enumerate(cases)]
            )
            natives = _timed(
                self.report,
                "compile C",
                lambda: native.compile_many(generated, self.folder, self.kernel_reads, compiler),
            )
        except Exception as error:
            self.report.seen[HALVED] = self.report.seen.get(HALVED, 0) + 1
            if len(cases) == 1:
                return [{"raised": f"{type(error).__name__}: {error}"}]
            half = len(cases) // 2
            return [*self._as_c(cases[:half], compiler), *self._as_c(cases[half:], compiler)]
        natives.set_memory(self.memory)
        found = _timed(
            self.report,
            "run C",
            lambda: [natives.run(at, case.plan, case.hits) for at, case in enumerate(cases)],
        )
        natives.close()
        return found


def differ(answers: Sequence[Outcome]) -> bool:
    """Of the walk only whether stacks were lost and strings cut: steps share what several places ask for, and see
    through variables that an address is the same, and the walk does not.
    """
    as_c, as_python, *walked = answers
    return _said(as_c) != _said(as_python) or any(_said(_roughly(each)) != _said(_roughly(as_c)) for each in walked)


def _roughly(answer: Outcome) -> Outcome:
    loss = answer.get("loss")
    if not isinstance(loss, Loss):
        return answer
    return {**answer, "loss": replace(loss, stacks=min(loss.stacks, 1), truncated=min(loss.truncated, 1))}


def _said(value: object) -> str:
    """The same text for the same answer, whatever the order of keys. Types count: True prints otherwise than 1."""
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{_said(key)}: {_said(held)}' for key, held in value.items()))}}}"
    if type(value) in (tuple, list):
        return f"({', '.join(map(_said, value))})"  # type: ignore[call-overload]
    return repr(value)


def _interesting(answer: Outcome) -> Iterable[str]:
    loss = answer.get("loss")
    for name in ("unreadable", "truncated", "keys", "loops", "stacks", "busy", "divisions"):
        if getattr(loss, name, 0):
            yield name
    for name in ("events", "exiting"):
        if answer.get(name):
            yield name
    maps = answer.get("maps")
    if isinstance(maps, dict) and any(maps.values()):
        yield "maps"


# --- failures --------------------------------------------------------------------------------------------------------


def _failure(legs: Legs, case: Case, compiler: str) -> str:
    """The smallest program and the fewest hits that still differ, as text."""

    def first(cases: Sequence[Case]) -> int | None:
        return next((at for at, answers in enumerate(legs.answers(cases, compiler)) if differ(answers)), None)

    def fails(programs: Sequence[typed.Program]) -> int | None:
        cases, numbers = [], []
        for number, program in enumerate(programs):
            plan = lower(program)
            if not refused(plan):
                cases.append(Case(plan, hits))
                numbers.append(number)
        found = first(cases) if cases else None
        return None if found is None else numbers[found]

    hits = list(case.hits)
    for at in reversed(range(len(hits))):
        fewer = hits[:at] + hits[at + 1 :]
        if fewer and first([replace(case, hits=fewer)]) is not None:
            hits = fewer
    program, same = case.plan.program, case.same
    if fails([program]) is not None:
        program, same = shrunk(program, fails), None  # what is made smaller has no other plan
    plan = lower(program)
    (answers,) = legs.answers([Case(plan, hits, same=same)], compiler)
    lines = [f"the legs differ ({compiler})", case.text, print_typed(program), dump_steps(plan)]
    lines += [f"slots {[str(type) for type in program.clauses[0].slots]}"]
    lines += [f"site {number}: {[_place(spec) for spec in site.args]}" for number, site in enumerate(_sites(program))]
    lines += [f"hit at {hit}" for hit in hits]
    for leg, answer in zip(("C", "Python", "walk", "without macros"), answers, strict=False):
        other = answers[1] if leg == "C" else answers[0]
        lines += [f"{leg:>14} {key}: {value}" for key, value in answer.items() if _said(value) != _said(other.get(key))]
    return "\n".join(lines)


def _sites(program: typed.Program) -> Sequence[FileSite]:
    return in_files(program.clauses[0].sites)


def _place(spec: ArgSpec) -> str:
    return f"{'s' if spec.signed else 'u'}{8 * spec.size} {spec.operand}"
