"""The direction of the data is the direction of the imports: this test walks them all, also those inside functions and
for type checking alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "tracer").rglob("*.py"))

LAYERS = [
    "choices", "dataclass", "errors", "servers", "opening", "failed_calls", "host", "cache", "kinds", "demo",
    "lang.types", "lang.suggest", "lang.unsupported", "lang.foreign", "lang.syntax", "lang",
    "resolve.marshalling", "resolve.elf", "resolve.files", "resolve.dwarf", "resolve.usdt",
    "resolve.unwind", "resolve.safety", "resolve.variables", "resolve.symbols", "resolve.binary",
    "resolve.functions", "resolve.sites", "resolve", "foreign", "verify", "results", "target", "steps",
    "kernel", "kernel.workers", "kernel.trials", "kernel.uprobe_events", "render", "plan", "backends",
    "backends.bcc.host", "backends.bcc.maps",
    "backends.bcc.events", "backends.bcc.codegen", "backends.bcc.compile", "backends.bcc.attach", "backends.bcc",
    "backends.ftrace.attach", "backends.ftrace.trigger", "backends.ftrace.fetchargs", "backends.ftrace.filters",
    "backends.ftrace.program", "backends.ftrace.refusals", "backends.ftrace.counting.map_uses",
    "backends.ftrace.counting.bucket_parts", "backends.ftrace.counting.hist_choice",
    "backends.ftrace.compile", "backends.ftrace.samples", "backends.ftrace.read", "backends.ftrace",
    "backends.choose", "overhead", "silence", "pipeline", "tracing", "api", "cli", "__main__",
]  # fmt: skip
"""Lowest first: folders, and modules that do not belong where their folder does. A module is of the longest name here
that its own begins with; it may import what is of the same name, or of one before.
"""

# Who may import a package: everybody else may not.
ONLY_FROM = {
    "bcc": ("backends.bcc.compile.child",), "elftools": ("verify", "resolve.variables.expressions"), "typer": ("cli",),
}  # fmt: skip


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "tracer").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path): path for path in MODULES}


def imported(name: str) -> Iterator[str]:
    """What a module imports: modules of ours without the package's name, packages of others."""
    for node in ast.walk(ast.parse(NAMES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            package, _, module = node.module.partition(".")
            if package != "tracer":
                yield package
            else:
                inside = [".".join(filter(None, (module, alias.name))) for alias in node.names]
                yield from (each if each in NAMES else module for each in inside)


@lru_cache(maxsize=1)
def arrows() -> dict[str, set[str]]:
    """For each module those of ours that it imports."""
    return {name: {to for to in imported(name) if to in NAMES} - {name} for name in NAMES}


def layer(name: str) -> int:
    """The place in LAYERS."""
    parts = name.split(".")
    while ".".join(parts) not in LAYERS:
        parts.pop()
    return LAYERS.index(".".join(parts))


def test_no_import_goes_up() -> None:
    up = [f"{name} imports {to}" for name in NAMES for to in arrows()[name] if name and to and layer(to) > layer(name)]
    assert up == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {name: set(to) for name, to in arrows().items()}
    while ends := [name for name, to in left.items() if not to & left.keys()]:
        for name in ends:
            del left[name]
    assert not left, f"in a circle, or behind one: {', '.join(sorted(left))}"


def test_no_two_folders_need_each_other() -> None:
    """Neither at the top nor in any folder is there a circle of folders and files."""
    for folder in ("", *(name for name in NAMES if NAMES[name].name == "__init__.py" and name)):
        begin = f"{folder}." if folder else ""
        left: dict[str, set[str]] = {}
        for name, to in arrows().items():
            if name.startswith(begin) and name:
                part = name[len(begin) :].partition(".")[0]
                others = {each[len(begin) :].partition(".")[0] for each in to if each.startswith(begin) and each}
                left.setdefault(part, set()).update(others - {part})
        while ends := [part for part, to in left.items() if not to & left.keys()]:
            for part in ends:
                del left[part]
        assert not left, f"in {folder or 'tracer'} in a circle, or behind one: {left}"


def test_some_packages_are_for_some_modules_alone() -> None:
    for package, owner in ONLY_FROM.items():
        assert [name for name in NAMES if not name.startswith(owner) and package in set(imported(name))] == []


def test_only_the_command_line_prints_or_exits() -> None:
    for name in NAMES:
        for node in ast.walk(ast.parse(NAMES[name].read_text())) if not name.startswith("cli") else ():
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"print", "sys.exit", "exit"}, f"{name}: line {node.lineno} calls {called}"


def test_only_tracefs_py_names_tracefs_paths() -> None:
    for path in MODULES:
        if path.name != "tracefs.py":
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    assert not node.value.startswith("/sys/kernel/tracing"), f"{path}: line {node.lineno}"
