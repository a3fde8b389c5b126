"""Programs of Go: their own counts, while their stacks grow, and every way to write their names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tests.live.conftest import need
from tests.targets.build import build_go

pytestmark = pytest.mark.live

BUILDS: dict[str, tuple[tuple[str, ...], str]] = {
    "plain": ((), "v1"),
    "v3": ((), "v3"),
    "unoptimised": (("-gcflags=all=-N -l",), "v1"),
    "pie": (("-buildmode=pie",), "v1"),
    "linked by gcc": (("-ldflags=-linkmode=external",), "v1"),
}

ROUNDS = 5


def copied(name: str, directory: Path) -> Path:
    need(shutil.which("go"), "Go")
    flags, level = BUILDS[name]
    return Path(shutil.copy(build_go("grows", *flags, level=level), directory / "grows"))


def traced(backend: str, path: Path, clauses: str) -> tuple[dict[str, object], dict[str, int]]:
    """What tracer says, and what the program says of itself in that run."""
    done = tracer("--backend", backend, "-q", "-f", "json", "-e", clauses.replace("T:", f"{path}:"),
                  "-c", f"{path} {ROUNDS} {path}.own")  # fmt: skip
    assert done.status == 0, done.err
    names = ("small", "large", "huge", "add", "both", "done", "arguments")
    return maps(done), dict(zip(names, map(int, Path(f"{path}.own").read_text().split()), strict=True))


@pytest.mark.parametrize("build", BUILDS)
def test_a_call_counts_once_though_the_stack_grows(build: str, backend: str, tmp_path: Path, clean: None) -> None:
    path = copied(build, tmp_path)
    found, own = traced(
        backend,
        path,
        "uprobe:T:main.small { @small = count(); @arguments = sum(arg1 + arg3); }"
        " uprobe:T:main.large { @large = count(); } uprobe:T:main.huge { @huge = count(); }"
        ' uprobe:T:"main.(*Cart).Add" { @add = count(); }',
    )
    assert own["small"] == 20 * 100 * ROUNDS
    assert found == {f"@{name}": own[name] for name in ("small", "large", "huge", "add", "arguments")}


def test_wildcards_returns_lines_and_assembler(backend: str, tmp_path: Path, clean: None) -> None:
    path = copied("plain", tmp_path)
    source = Path(__file__).parents[1] / "targets" / "grows.go"
    line = source.read_text().splitlines().index("func small(left int, number int, name string) int {") + 1
    found, own = traced(
        backend,
        path,
        "uprobe:T:main.* { @[func] = count(); } uretprobe:T:main.* { @returns[func] = count(); }"
        f" uprobe:T:grows.go:{line} {{ @line = count(); }}"
        ' uprobe:T:"main.(*Cart).*" { @methods[str(arg2, 5)] = count(); }'
        " uprobe:T:runtime.futex.abi0 /(int32)arg1 != 128 && (int32)arg1 != 129/ { @neither_wait_nor_wake = count(); }"
        " uprobe:T:runtime.futex.abi0 { @futex = count(); }",
    )
    functions = {"main.small": "small", "main.large": "large", "main.huge": "huge", "main.(*Cart).Add": "add"}
    assert int(str(found.pop("@futex"))) > 0
    for name in ("@", "@returns"):
        counts = found.pop(name)
        assert isinstance(counts, dict)
        assert {each: counts[each] for each in functions} == {each: own[kind] for each, kind in functions.items()}
        assert [count for each, count in counts.items() if each.startswith("main.both[")] == [1]
        assert counts["main.leaf"] == own["add"] and counts["main.main.func1"] == own["done"] == 20
    assert found == {"@line": own["small"], "@methods": {"pear": own["add"]}}
