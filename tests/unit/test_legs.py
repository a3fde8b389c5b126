from __future__ import annotations

from tests.harness.legs import in_order

LEGS = [(case, backend, format) for case in range(9) for backend in ("bcc", "ftrace") for format in ("text", "json")]


def test_each_leg_is_run_once_and_json_on_bcc_well_after_its_text() -> None:
    found = in_order(LEGS)
    assert sorted(found) == sorted(LEGS)
    for case in range(6):
        assert found.index((case, "bcc", "json")) - found.index((case, "bcc", "text")) >= 5
    others = [leg for leg in found if leg[1:] != ("bcc", "json")]
    assert others == [leg for leg in LEGS if leg[1:] != ("bcc", "json")]
