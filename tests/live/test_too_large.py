"""A clause that BPF has no room or no patience for: one line under the clause, and ftrace runs it."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = pytest.mark.live

VARIABLES = range(60)
STACK = (
    "usdt:T:depot:parcel { "
    + " ".join(f"$v{n} = arg0 * {n};" for n in VARIABLES)
    + " for ($i : 0..3) { "
    + " ".join(f"$v{n} += $v{(7 * n + 3) % 60} ^ $i;" for n in VARIABLES)
    + f" }} print(({', '.join(f'$v{n}' for n in VARIABLES)})); }}"
)
PATTERNS = ", ".join(f'globmatch(str(arg1), "*{letter}?{letter}*")' for letter in "abcdefghijklmnopqrstuvwxyz")
STEPS = f"usdt:T:depot:parcel /arg0 > 0/ {{ @[{PATTERNS}] = count(); }}"


@pytest.mark.parametrize("program", [STACK, STEPS], ids=["stack", "steps"])
def test_a_clause_that_bpf_does_not_take_is_named_and_ftrace_runs_it(program: str) -> None:
    program, target = program.replace(":T:", f":{build('depot')}:"), f"{build('depot')} 2"
    refused = tracer("run", "--backend", "bcc", "-e", program, "-c", target)
    assert (refused.status, refused.out) == (1, b"")
    shown, carets = refused.err.splitlines()
    assert program.startswith(shown[:40])
    assert carets.lstrip().startswith("^")
    assert "error: this clause is too much for bcc: " in carets
    assert "Traceback" not in refused.err and "--backend ftrace" in carets
    through_ftrace = tracer("run", "--backend", "ftrace", "-e", program, "-c", target)
    assert through_ftrace.status == 0
    # Where the backend is not named, the other one runs it at once.
    done = tracer("run", "-v", "-e", program, "-c", target)
    assert (done.status, done.out) == (0, through_ftrace.out)
    note, attached, *_ = done.err.splitlines()  # then where each map is aggregated
    assert note.startswith("tracer: using ftrace, not bcc: this clause is too much for bcc: ")
    assert attached == "Attached 1 probe through ftrace, 1 site"


def test_more_maps_than_a_program_may_use_are_named_and_ftrace_runs_it() -> None:
    counts = " ".join(f"@m{n}[arg0] = count();" for n in range(70))
    program, target = f"usdt:{build('depot')}:depot:parcel {{ {counts} }}", f"{build('depot')} 2"
    refused = tracer("run", "--backend", "bcc", "-e", program, "-c", target)
    assert (refused.status, refused.out) == (1, b"")
    said = "the clause uses more maps than a BPF program may (64)"
    assert refused.err.splitlines()[1].lstrip().lstrip("^").lstrip() == (
        f"error: {said}; split the clause, or --backend ftrace"
    )
    through_ftrace = tracer("run", "--backend", "ftrace", "-e", program, "-c", target)
    done = tracer("run", "-v", "-e", program, "-c", target)
    assert (done.status, done.out) == (0, through_ftrace.out)
    assert done.err.splitlines()[0].startswith(f"tracer: using ftrace, not bcc: {said}")
