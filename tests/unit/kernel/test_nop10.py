from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.backends.bcc.plans import site
from tracer.dataclass import replace
from tracer.kernel.trials import nop10
from tracer.kernel.workers import spawn


def decided(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> bool:
    """What `calls_nop10` makes of a process that does so."""
    path = folder / "tried.py"
    path.write_text(script)
    start = spawn.start
    monkeypatch.setattr(nop10, "has_trampolines", lambda: True)
    monkeypatch.setattr(spawn, "start", lambda _: start(str(path)))
    return nop10.calls_nop10.__wrapped__()


def test_a_site_of_two_nops_goes_to_the_second_where_that_becomes_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, fast = site(), replace(site(), address=0x2000, offset=0x1000, nop10=True)
    monkeypatch.setattr(nop10, "calls_nop10", lambda: True)
    moved = replace(fast, address=0x2001, offset=0x1001, nop10=False)
    assert nop10.at_fast_nops({3: (plain, fast), 4: ()}, [plain, fast]) == {3: (plain, moved), 4: ()}
    monkeypatch.setattr(nop10, "calls_nop10", lambda: False)
    assert nop10.at_fast_nops({3: (plain, fast)}, [plain, fast]) == {3: (plain, fast)}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("print('true' if input() == '662e0f1f840000000000' else 'false')", True),
        ("input(); print('false')", False),
        ("import os; os.abort()", False),
        ("print('tr', end='')", False),
    ],
)
def test_a_process_beside_says_whether_it_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, expected: bool
) -> None:
    assert decided(monkeypatch, tmp_path, script) is expected


def test_nothing_is_tried_where_the_kernel_has_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nop10, "has_trampolines", lambda: False)
    monkeypatch.setattr(spawn, "start", lambda _: pytest.fail("a process was started"))
    assert nop10.calls_nop10.__wrapped__() is False


def test_a_plain_nop_is_not_rewritten() -> None:
    try:
        found = nop10.rewrites("90")
    except PermissionError:
        pytest.skip("only root may set a probe")
    assert found is False
