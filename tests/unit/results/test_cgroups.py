"""Control groups: their numbers and paths are those of the folders of their file systems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracer.host import cgroups


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hierarchies made of plain folders."""
    for name in ("two/app/worker", "cpu/app"):
        (tmp_path / name).mkdir(parents=True)
    found = [(str(tmp_path / "cpu"), "cgroup", "/"), (str(tmp_path / "two"), "cgroup2", "/")]
    monkeypatch.setattr(cgroups, "_mounts", lambda: iter(found))
    monkeypatch.setattr(cgroups, "_found", {})
    return tmp_path


def test_a_path_stands_below_the_name_of_its_hierarchy(mounts: Path) -> None:
    worker, root = (os.stat(mounts / name).st_ino for name in ("two/app/worker", "two"))
    assert cgroups.paths_of(worker) == "unified:/app/worker"
    assert cgroups.paths_of(root) == "unified:/"
    assert cgroups.paths_of(os.stat(mounts / "cpu/app").st_ino, "c*") == "cpu:/app"
    assert cgroups.paths_of(worker, "cpu") == cgroups.paths_of(0) == ""


def test_version_2_comes_first_where_both_have_the_number(mounts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_path", lambda number, point: f"/{number}")
    assert cgroups.paths_of(7) == "unified:/7,cpu:/7"


def test_a_group_that_has_gone_keeps_its_path_and_one_that_comes_is_found(mounts: Path) -> None:
    late = mounts / "two/late"
    assert cgroups.paths_of(0) == ""
    late.mkdir()
    number = os.stat(late).st_ino
    assert cgroups.paths_of(number) == "unified:/late"
    late.rmdir()
    assert cgroups.paths_of(number) == "unified:/late"
