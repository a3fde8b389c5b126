from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness import legs
from tests.harness.cli import Done
from tests.harness.legs import backends_of, in_formats, meeting


def test_a_run_in_several_formats_writes_all_but_the_first_to_files_and_what_it_does_not_write_is_empty() -> None:
    asked: list[str] = []

    def run(*words: str) -> Done:
        asked.extend(words)
        for word in words[1:2]:
            Path(word.removeprefix("json:")).write_bytes(b"{}\n")
        return Done(3, b"a\n", "said")

    found = in_formats(["text", "json", "other"], run)
    assert found == {"text": Done(3, b"a\n", "said"), "json": Done(3, b"{}\n", "said"), "other": Done(3, b"", "said")}
    assert [word.partition(":")[0] for word in asked] == ["--also", "json", "--also", "other"]
    assert in_formats(["json"], lambda *words: Done(len(words), b"", "")) == {"json": Done(0, b"", "")}


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
