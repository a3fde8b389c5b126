"""Programs of Go: their own counts, while their stacks grow, and every way to write their names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
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


@pytest.fixture
def grows(tmp_path: Path) -> Path:
    return copied("plain", tmp_path)


def copied(name: str, directory: Path) -> Path:
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
