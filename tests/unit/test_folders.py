"""A folder is seen at a glance, and so is a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

MODULES = list((Path(__file__).parents[2] / "tracer").rglob("*.py"))


def test_a_folder_has_a_dozen_files_at_most() -> None:
    files = Counter(path.parent for path in MODULES)
    assert {str(folder): count for folder, count in files.items() if count > 12} == {}


def test_a_file_has_four_hundred_lines_at_most() -> None:
    lines = {str(path): path.read_text("utf-8").count("\n") for path in MODULES}
    assert {path: count for path, count in lines.items() if count > 400} == {}
