"""Features that are switched off by name."""

from __future__ import annotations

import pytest

from tracer.errors import UsageError
from tracer.kernel.disabled import KNOWN, is_disabled, switched_off


def test_only_what_is_named_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACER_WITHOUT", raising=False)
    assert [name for name in KNOWN if is_disabled(name)] == []
    monkeypatch.setenv("TRACER_WITHOUT", " hist ,ring,")
    assert [name for name in KNOWN if is_disabled(name)] == ["ring", "hist"]
    assert switched_off() == ("ring", "hist")


def test_unknown_names_are_a_usage_error_that_lists_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_WITHOUT", "ring,refctr,hits")
    with pytest.raises(UsageError) as caught:
        is_disabled("ring")
    assert caught.value.message == "TRACER_WITHOUT: unknown hits, refctr"
    assert caught.value.hint == (
        "known are bpf, ring, sleepable, kernel_reads, btf, atomics, walks, repeats, mappings, user_registers,"
        " long_keys, late_allocation, uprobe_multi, task_newtask, ref_ctr, ustring, hist, string_bounds, many,"
        " inherit_thread, format_lost"
    )
