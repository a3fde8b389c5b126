"""Runs the command lines of the suite two at a time, ahead of the tests that look at them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.contract.case import Case
from tests.contract.cases import CASES
from tests.contract.older import Here
from tests.harness.cli import ONLY_WARM, Done, tracer
from tests.harness.legs import BACKENDS, in_formats
from tests.harness.warm import Warms
from tests.targets.build import build
from tests.targets.symbols import function_addresses

Leg = tuple[Case, str, str]  # case, backend, format


def command_line(case: Case, backend: str, format: str) -> list[str]:
    """The words after `tracer` for one leg of a case."""
    words = ["run", "--backend", backend, "-f", format, "-e", program_of(case)]
    if case.target is not None:
        words += ["-c", f"{build(case.target)} {case.rounds}"]
    return words


def program_of(case: Case) -> str:
    """The program with the target's path and addresses in place."""
    program = case.program
    if case.target is not None:
        path = build(case.target)
        program = program.replace(":T:", f":{path}:").replace(":T@", f":{path}@")
        for name, address in function_addresses(path).items():
            program = program.replace("{" + name + "}", f"{address:#x}")
    return program


def settled(case: Case, out: bytes) -> bytes:
    """Output with the target's path as T, and the offsets of stacks as N, which the compiler decides."""
    if case.target is not None:
        out = out.replace(str(build(case.target)).encode(), b"T")
    return re.sub(rb"(?<=\w)\+\d+(?=\n|\\n|\")", b"+N", out) if "ustack" in case.program else out


class Answers:
    """The runs of the selected legs, started about in the order of the tests and kept until they are asked for.

    Text and JSON of a case on a backend are of one run, which has two outputs: text is the first of them on one backend
    and the other by turns. One run of four is started anew, on the backend whose first is text, as users have it. The
    others are forks of an interpreter that has imported everything, and with TRACER_TEST_WARM=1 all are.
    """

    def __init__(self, legs: list[Leg]) -> None:
        self._pool = ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1))
        text_first = {case.name: BACKENDS[number % len(BACKENDS)] for number, case in enumerate(CASES)}
        anew = {case.name for number, case in enumerate(CASES) if number // len(BACKENDS) % 2 == 0 and not ONLY_WARM}
        wanted: dict[tuple[str, str], tuple[Case, list[str]]] = {}
        for case, backend, format in legs:
            wanted.setdefault((case.name, backend), (case, []))[1].append(format)
        self._runs: dict[tuple[str, str], Future[dict[str, Done]]] = {
            (name, backend): self._pool.submit(
                self._run,
                *(case, backend, sorted(formats, reverse=backend == text_first[name])),
                backend != text_first[name] or name not in anew,
            )
            for (name, backend), (case, formats) in wanted.items()
        }

    def _run(self, case: Case, backend: str, formats: Sequence[str], warm: bool) -> dict[str, Done]:
        return in_formats(formats, lambda *also: tracer(*command_line(case, backend, formats[0]), *also, warm=warm))

    def __call__(self, case: Case, backend: str, format: str) -> Done:
        """How the run of that leg ended."""
        return self._runs[case.name, backend].result()[format]

    def close(self) -> None:
        """Drops the runs that nobody will ask for."""
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def answers(request: pytest.FixtureRequest) -> Iterator[Answers]:
    legs: list[Leg] = []
    for item in request.session.items:
        call = getattr(item, "callspec", None)
        if call is not None and {"case", "backend", "format"} <= call.params.keys():
            legs.append((call.params["case"], call.params["backend"], call.params["format"]))
    answers = Answers(legs)
    yield answers
    answers.close()


@pytest.fixture(scope="session")
def here(warms: Warms) -> Here:
    info = json.loads(warms.tracer("info", "--json").out)
    backends = info["backends"].items()
    closed = {name: f"{state['reason']} ({state['remedy']})" for name, state in backends if not state["usable"]}
    return Here(info["features"], closed)
