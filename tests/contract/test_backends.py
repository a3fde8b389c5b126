"""The same answer: every case through the command line, text and JSON, on both backends where it meets one, equal to
the last byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.case import Case
from tests.contract.conftest import Answers, program_of, settled
from tests.contract.legs import LEGS
from tests.contract.older import Here, is_older
from tests.contract.refusals import CONSTRUCTS, REFUSALS
from tests.harness.cli import without_silence

pytestmark = pytest.mark.live


UNREADABLE = (
    "tracer: {} left out: an argument or string could not be read there;"
    " its memory was not mapped, has to come from another process or machine, or holds no such value{}\n"
)
TRUNCATED = "tracer: 1 string cut to {} bytes; raise max_strlen, now {}\n"
LOOPS = (
    "tracer: 1 hit ran out of rounds: all loops of a hit have 131072 together,"
    " those of BEGIN, END or an interval 4194304; split the work\n"
)
DIVISIONS = "tracer: {} division{} by zero: 1 is used as the result\n"


def said_about_losses(case: Case) -> str:
    """The lines that end a run whose answer is incomplete."""
    return (
        (_unreadable(case) if case.unreadable else "")
        + (TRUNCATED.format(case.max_strlen - 1, case.max_strlen) if case.truncated else "")
        + (LOOPS if case.loops else "")
        + (DIVISIONS.format(case.divisions, "s" * (case.divisions > 1)) if case.divisions else "")
    )


def _unreadable(case: Case) -> str:
    index = ", or an index was outside its array" if case.unreadable > 1 else ""
    return UNREADABLE.format("1 hit" if case.unreadable == 1 else f"{case.unreadable} hits", index)


def by_zero(case: Case) -> bytes:
    """What JSON says of divisions by zero."""
    message = "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result."
    line = {"type": "runtime_error", "msg": message, "count": case.divisions}
    return json.dumps(line).encode() + b"\n" if case.divisions else b""


def refusal(case: Case, backend: str, here: Here) -> str:
    """The whole of stderr where a backend does not run a case; on some kernels the other could, but is not there."""
    program, what = program_of(case), case.refused[backend]
    message = REFUSALS[what]
    for other, reason in here.closed.items():
        message = message.replace(f"; --backend {other} can", f"; {other} could, but {reason}")
    return f"{program}\n{' ' * program.index(CONSTRUCTS[what])}{message}\n"


def without_operands(err: str) -> str:
    """The compiler decides in which registers an argument lies."""
    return re.sub(r" at -?\d@\S+ ", " at OPERAND ", err)


@pytest.mark.parametrize(("case", "backend", "format"), LEGS, ids=str)
def test_answers_as_expected(
    case: Case, backend: str, format: str, answers: Answers, here: Here, record_property: Callable[[str, object], None]
) -> None:
    if case.cold is not None and backend == "bcc" and here.features["bpf sleepable"] != "yes":
        case = replace(case, out=case.cold, unreadable=1)
        record_property("excepted", True)
    done = answers(case, backend, format)
    if is_older(done, here):
        record_property("excepted", True)
        return
    if backend in case.refused:
        assert (done.status, done.out, without_operands(done.err)) == (1, b"", refusal(case, backend, here))
        return
    wanted = case.out.text if format == "text" else case.attached() + b"".join(case.out.json) + by_zero(case)
    assert settled(case, done.out).decode() == wanted.decode(), done.err
    probes = f"{case.probes} probe" + ("" if case.probes == 1 else "s")
    # A program that ends in BEGIN attaches nothing.
    attached = f"Attached {probes}\n" if case.target or "interval" in case.program else ""
    assert without_silence(done.err) == attached + said_about_losses(case)
    assert done.status == case.status
