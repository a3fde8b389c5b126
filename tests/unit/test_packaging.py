"""What an installed tracer consists of."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tracer import __version__
from tracer.backends.bcc.compile import compiler as paths

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


def test_every_folder_of_modules_is_a_package() -> None:
    # What walks the packages, as tests/harness/interpreter.py does, passes by the others.
    folders = {path.parent for path in (ROOT / "tracer").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_wheel_never_asks_for_bcc_of_pypi(wheel: zipfile.ZipFile) -> None:
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    wanted = [line.split()[1] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert not any(name.lower().startswith("bcc") for name in wanted)
    assert {name.split(">")[0].split("<")[0] for name in wanted} >= {"typer", "psutil", "capstone"}


IMPORTED_AS = {"elftools": "pyelftools"}


def test_the_benchmark_is_installed_with_all_that_it_imports(wheel: zipfile.ZipFile) -> None:
    imported = set()
    for path in (ROOT / "scripts" / "benchmark").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    others = imported - sys.stdlib_module_names - {"scripts", "tracer", "tests"}
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    asked = [line for line in wheel.read(metadata).decode().splitlines() if line.startswith("Requires-Dist: ")]
    brought = {
        re.split("[<>=; ]", line.removeprefix("Requires-Dist: "))[0]
        for line in asked
        if "extra ==" not in line or line.endswith(("extra == 'bench'", 'extra == "bench"'))
    }
    assert {IMPORTED_AS.get(name, name) for name in others} <= brought


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    entry = wheel.read(next(name for name in wheel.namelist() if name.endswith("/entry_points.txt"))).decode()
    assert "tracer = tracer.__main__:main" in entry


def readme_line(words: str) -> str:
    """The command of the README that holds these words."""
    (line,) = [line.strip() for line in (ROOT / "README.md").read_text().splitlines() if words in line]
    return line.removeprefix("sudo ")


def says_something(command: Path, folder: Path) -> None:
    """The command runs from anywhere, as whoever calls it by its name."""
    program = ["-e", "BEGIN { print(6 * 7); exit(); }"]
    for words, said in ((["--version"], f"tracer {__version__}\n"), (program, "42\n\n\n")):
        result = subprocess.run(
            ["tracer", *words], capture_output=True, text=True, cwd=folder,
            env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert (result.returncode, result.stdout) == (0, said), result.stderr


def test_the_link_of_the_readme_is_a_command(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "tracer"
    command.parent.mkdir()
    line = readme_line("ln -s").replace("/usr/local/bin/tracer", str(command))
    subprocess.run(["sh", "-c", line], cwd=ROOT, check=True)
    assert command.is_symlink()
    says_something(command, tmp_path)


def test_an_environment_of_its_own_has_the_command_as_pipx_links_it(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    assert readme_line("pipx").endswith("pipx install .")
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    words = ["pip", "--python", str(home / "bin/python"), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", *words, str(wheel.filename)], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # what pipx would download
    command = tmp_path / "bin" / "tracer"
    command.parent.mkdir()
    command.symlink_to(home / "bin" / "tracer")
    says_something(command, tmp_path)


def test_the_source_tree_uses_its_own_fixed_c() -> None:
    assert paths.bpf_programs() == ROOT / "bpf_programs"


