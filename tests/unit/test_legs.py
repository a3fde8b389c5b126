from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import legs
from tests.harness.legs import backends_of, in_order, meeting

LEGS = [(case, backend, format) for case in range(9) for backend in ("bcc", "ftrace") for format in ("text", "json")]


def test_each_leg_is_run_once_and_json_on_bcc_well_after_its_text() -> None:
    found = in_order(LEGS)
    assert sorted(found) == sorted(LEGS)
    for case in range(6):
        assert found.index((case, "bcc", "json")) - found.index((case, "bcc", "text")) >= 5
    others = [leg for leg in found if leg[1:] != ("bcc", "json")]
    assert others == [leg for leg in LEGS if leg[1:] != ("bcc", "json")]


def test_who_meets_a_backend_is_looked_up_where_it_is_known_and_nobody_else_has_a_leg(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert meeting("suite", lambda: iter("ab")) == {"a", "b"}
    assert [backends_of(number, meets) for number in (0, 1) for meets in (True, False)] == [
        ("bcc", "ftrace"), ("bcc",), ("bcc", "ftrace"), ("ftrace",)
    ]  # fmt: skip
    (tmp_path / "known").write_text(json.dumps({"contract": ["c"], "suite": ["d"]}))
    monkeypatch.setattr(legs, "KNOWN", str(tmp_path / "known"))
    assert meeting("suite", lambda: pytest.fail("it was planned")) == {"d"}
    assert [backends_of(0, meets) for meets in (True, False)] == [("bcc", "ftrace"), ()]
