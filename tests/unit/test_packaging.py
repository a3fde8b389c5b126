"""What an installed tracer consists of."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tracer import paths

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    words = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(ROOT)]
    result = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_every_file_of_the_package_and_the_fixed_c(wheel: zipfile.ZipFile) -> None:
    package = {
        f"tracer/{path.relative_to(ROOT / 'tracer')}"
        for path in (ROOT / "tracer").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    programs = {
        f"tracer/_bpf_programs/{path.relative_to(ROOT / 'bpf_programs')}"
        for path in (ROOT / "bpf_programs").rglob("*")
        if path.is_file()
    }
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == package | programs


def test_the_wheel_never_asks_for_bcc_of_pypi(wheel: zipfile.ZipFile) -> None:
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    wanted = [line.split()[1] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert not any(name.lower().startswith("bcc") for name in wanted)
    assert {name.split(">")[0].split("<")[0] for name in wanted} >= {"typer", "pyelftools", "psutil", "capstone"}


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    entry = wheel.read(next(name for name in wheel.namelist() if name.endswith("/entry_points.txt"))).decode()
    assert "tracer = tracer.__main__:main" in entry


def test_the_source_tree_uses_its_own_fixed_c() -> None:
    assert paths.bpf_programs() == ROOT / "bpf_programs"


