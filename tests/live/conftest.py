"""What every live test needs: root, tracefs, and programs at paths that no other run traces."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.kernel import TRACEFS, nothing_left
from tests.targets.build import build

BACKENDS = ("bcc", "ftrace")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need the machine that `live` asks for, and scripts/test goes by that marker."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("live") is None:
            item.add_marker("live")


def need(condition: object, what: str) -> None:
    """A live test that cannot run is skipped, but in CI (CI=true) it fails: there everything must be there."""
    if not condition:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{what} is needed")
        pytest.skip(f"{what} is needed")


@pytest.fixture(autouse=True, scope="session")
def _root() -> None:
    need(os.geteuid() == 0, "root")
    need(TRACEFS.is_mount(), "tracefs")  # kernel lockdown leaves it empty


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a built target that is this test's alone: what is left of a trace of it is this test's fault."""

    def copy(name: str) -> Path:
        # Readable to everybody: pytest's own directories are not.
        built = build(name)
        home = tmp_path / name
        home.mkdir(exist_ok=True)
        path = home / built.name
        shutil.copy(built, path)
        return path

    return copy


@pytest.fixture
def clean() -> Iterator[None]:
    """Fails if anything is left in the kernel."""
    with nothing_left():
        yield
