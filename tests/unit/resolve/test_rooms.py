"""The folders of `resolve` stand one upon the other, and none holds more than a dozen modules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

RESOLVE = Path(__file__).parents[3] / "tracer" / "resolve"
ORDER = (
    "model", "arch", "kernel_types", "elf", "dwarf", "processes", "files", "unwind", "usdt", "safety", "variables",
    "symbols", "interpreters", "binary", "places", "functions", "sites", "source_places", "kernel_patterns",
    "attach_texts", "listing", "below",
)  # fmt: skip
"""From the bottom to the top: who imports may only look down."""


def room_of(module: str) -> str:
    return module.split(".")[2]


@pytest.mark.parametrize("path", sorted(RESOLVE.rglob("*.py")), ids=lambda path: str(path.relative_to(RESOLVE)))
def test_imports_go_down_and_of_the_language_to_its_syntax_types_and_the_walk_alone(path: Path) -> None:
    parts = path.relative_to(RESOLVE).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.startswith("tracer.lang"):
            assert node.module.startswith(("tracer.lang.syntax.", "tracer.lang.walk", "tracer.lang.types"))
        if node.module.startswith("tracer.resolve."):
            imported = ORDER.index(room_of(node.module))
            own = ORDER.index(parts[0])
            assert imported <= own, f"line {node.lineno}: {node.module}"


def test_no_folder_holds_more_than_a_dozen_modules() -> None:
    for folder in (RESOLVE, *(each for each in RESOLVE.iterdir() if each.is_dir())):
        assert len([each for each in folder.glob("*.py") if each.name != "__init__.py"]) <= 12, folder


def test_no_two_modules_import_one_another_when_they_are_loaded() -> None:
    imports = {}
    for path in RESOLVE.rglob("*.py"):
        name = ".".join(("tracer.resolve", *path.relative_to(RESOLVE).with_suffix("").parts))
        imports[name] = {node.module for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)}
    done: set[str] = set()
    while ready := [name for name in imports if name not in done and not (imports[name] & imports.keys()) - done]:
        done.update(ready)
    assert done == imports.keys()
