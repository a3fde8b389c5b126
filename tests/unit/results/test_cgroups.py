"""Control groups: their numbers and paths are those of the folders of their file systems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracer.host.tables import cgroups


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hierarchies made of plain folders."""
    for name in ("two/app/worker", "cpu/app"):
        (tmp_path / name).mkdir(parents=True)
    found = [(str(tmp_path / "cpu"), "cgroup", "/"), (str(tmp_path / "two"), "cgroup2", "/")]
    monkeypatch.setattr(cgroups, "_mounts", lambda: iter(found))
    monkeypatch.setattr(cgroups, "_paths", {})
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


def test_the_lowest_limit_on_memory_is_found_above_the_own_group(
    mounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mounts / "two/app/worker/memory.max").write_text("max\n")
    (mounts / "two/app/memory.max").write_text("67108864\n")
    (mounts / "two/memory.max").write_text("134217728\n")
    groups = mounts / "groups"
    groups.write_text("4:cpu,memory:/app\n1:pids:/app\n0::/app/worker\n")
    monkeypatch.setattr(cgroups, "_OWN", str(groups))
    assert cgroups.memory_limit() == (f"{mounts}/two/app/memory.max", 64 << 20)
    (mounts / "cpu/app/memory.limit_in_bytes").write_text("33554432\n")
    assert cgroups.memory_limit() == (f"{mounts}/cpu/app/memory.limit_in_bytes", 32 << 20)
    groups.write_text("4:cpu:/app\n0::/\n")
    (mounts / "two/memory.max").write_text(f"{(1 << 63) - 4096}\n")
    assert cgroups.memory_limit() is None
