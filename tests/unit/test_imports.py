"""The direction of the data is the direction of the imports: this test walks them all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "tracer").rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function, but not for type checking alone."""
    skipped: set[int] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            skipped |= {id(child) for child in ast.walk(node)}
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


# Who may import a package: everybody else may not.
ONLY_FROM = {
    "tracer.cli": ("tracer.cli", "tracer.__main__"),
    "tracer.backends.bcc": ("tracer.backends", "tracer.cli", "tracer.demo"),
    "tracer.backends.ftrace": ("tracer.backends", "tracer.cli", "tracer.kernel.uprobe_events"),
    "bcc": ("tracer.backends.bcc",),
    "typer": ("tracer.cli",),
    "tracer.pipeline": ("tracer.cli", "tracer.demo"),
}

# What the left end of the pipeline must never see.
NEVER = {
    "tracer.lang": ("tracer.backends", "tracer.render", "tracer.steps", "tracer.plan"),
    "tracer.resolve": ("tracer.backends", "tracer.render", "tracer.steps", "tracer.plan"),
    "tracer.plan": ("tracer.backends.bcc", "tracer.backends.ftrace", "tracer.render"),
    "tracer.steps": ("tracer.backends", "tracer.render"),
    "tracer.results": ("tracer.backends", "tracer.render", "tracer.steps"),
    "tracer.render": ("tracer.backends", "tracer.steps", "tracer.plan"),
}


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_follow_the_direction_of_the_data(path: Path) -> None:
    name = module_name(path)
    for imported in imports(path):
        for package, allowed in ONLY_FROM.items():
            if within(imported, package) and not any(within(name, owner) for owner in allowed):
                pytest.fail(f"{name} imports {imported}; only {', '.join(allowed)} may")
        for package, forbidden in NEVER.items():
            if within(name, package):
                assert not any(within(imported, other) for other in forbidden), f"{name} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_only_the_command_line_prints_or_exits(path: Path) -> None:
    if within(module_name(path), "tracer.cli"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"print", "sys.exit", "exit"}, f"line {node.lineno} calls {called}"


def test_only_tracefs_py_names_tracefs_paths() -> None:
    for path in MODULES:
        if path.name != "tracefs.py":
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    assert not node.value.startswith("/sys/kernel/tracing"), f"{path}: line {node.lineno}"
