from __future__ import annotations

import os

import pytest

from scripts.lab import suite
from scripts.lab.kernels import KERNELS, Kernel
from scripts.lab.results import Outcome


def test_the_machine_with_most_to_do_is_first_and_the_others_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}

    def test(kernel: Kernel, *_: object) -> Outcome:
        seen[kernel.name] = os.getpriority(os.PRIO_PROCESS, 0)
        return Outcome(kernel.name, "", (), (), 0.0)

    before = os.getpriority(os.PRIO_PROCESS, 0)
    monkeypatch.setattr(suite, "_prepare", lambda *_: None)
    monkeypatch.setattr(suite, "_test", test)
    monkeypatch.setattr(suite, "end_all", lambda: None)
    required = [kernel for kernel in KERNELS if kernel.required]
    done = [kernel.name for kernel, _ in suite._outcomes(required, True, False)]
    assert sorted(done) == sorted(kernel.name for kernel in required)
    assert seen == {"6.1": before, "nobpf": min(before + 5, 19)}
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
