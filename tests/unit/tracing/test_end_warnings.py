"""What is said at the end about an answer that is incomplete."""

from __future__ import annotations

import pytest

from tests.typed_ir import N, num
from tests.unit.backends.ftrace.plans import count, plan, probe
from tracer.lang import typed
from tracer.lang.types import UINT8
from tracer.results.events import Loss
from tracer.tracing.end_warnings import lost

EXIT = "exit() may be among what was lost: what came after it may have been counted"


@pytest.mark.parametrize(
    ("exits", "loss", "backend", "said"),
    [
        (True, Loss(events=3), "ftrace", True),
        (True, Loss(events=3), "bcc", False),
        (True, Loss(truncated=3), "ftrace", False),
        (False, Loss(events=3), "ftrace", False),
    ],
)
def test_where_exit_can_be_lost_it_is_said(exits: bool, loss: Loss, backend: str, said: bool) -> None:
    body: list[typed.Stmt] = [count(), typed.Exit(N, num(0, UINT8))] if exits else [count()]
    lines = list(lost(plan(probe(body)), loss, backend).sentences())
    assert lines[1:] == ([EXIT] if said else [])
