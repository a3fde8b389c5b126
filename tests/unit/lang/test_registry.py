"""Objects that are imported when they are asked for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tracer.lang import registry
from tracer.lang.registry import Registry


def test_two_threads_that_import_the_same_module_lose_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {name: SimpleNamespace(OBJECTS=(SimpleNamespace(name=name),)) for name in ("first", "second", "third")}
    found: Registry[SimpleNamespace] = Registry(*((name, "OBJECTS") for name in modules))
    others = ["first", "third"]

    def imported(name: str) -> SimpleNamespace:
        if others:
            assert found[others.pop()].name  # what another thread asks for while this one imports
        return modules[name]

    monkeypatch.setattr(registry, "import_module", imported)
    assert found["first"].name == "first"
    assert set(found) == set(modules)
    assert len(found) == 3
