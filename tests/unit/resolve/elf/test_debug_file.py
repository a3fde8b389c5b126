"""Separate debug files: where they are looked for, and which are believed."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tests.unit.resolve.elfwriter import TEXT_ADDRESS, ElfWriter
from tests.unit.resolve.programs import FUNCTIONS_C
from tracer.resolve.binary import Binary
from tracer.resolve.elf.debug_file import debug_paths, find_debug_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols


@pytest.fixture
def app(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stripped program without build id that names its debug file, as `objcopy` makes them; `whole` is the file."""
    monkeypatch.setattr("tracer.resolve.elf.debug_file.DEBUG_ROOT", str(tmp_path / "lib" / "debug"))
    home = tmp_path / "bin"
    home.mkdir()
    path = Path(shutil.copy2(build(FUNCTIONS_C, "-O1", "-g", "-Wl,--build-id=none"), home / "app"))
    subprocess.run(["objcopy", "--only-keep-debug", path, tmp_path / "whole"], check=True)
    subprocess.run(["strip", "--strip-all", path], check=True)
    shutil.copy2(tmp_path / "whole", tmp_path / "app.debug")
    subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path / 'app.debug'}", path], check=True)
    return path


def names(path: Path) -> set[str]:
    binary = Binary(str(path))
    try:
        return {each.name for each in binary.symbols.functions}
    finally:
        binary.elf.close()


@pytest.mark.parametrize("place", ["bin", "bin/.debug", "lib/debug{folder}"])
def test_the_linked_file_is_found_where_gdb_finds_it(app: Path, place: str) -> None:
    assert "helper_two" not in names(app)
    folder = app.parents[1] / place.format(folder=app.parent)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(app.parents[1] / "whole", folder / "app.debug")
    assert {"helper_one", "helper_two", "public_name"} <= names(app)
    said = subprocess.run(
        ["gdb", "-batch", "-nx", "-iex", f"set debug-file-directory {app.parents[1]}/lib/debug", "-ex",
         "info address helper_two", app], capture_output=True, text=True, check=True,
    ) if shutil.which("gdb") else None  # fmt: skip
    assert said is None or "helper_two" in said.stdout


@pytest.mark.parametrize("place", ["more", "more{folder}"])
def test_the_linked_file_is_found_in_folders_that_the_user_names(
    app: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACER_DEBUGINFO", f"{tmp_path / 'none'}:{tmp_path / 'more'}:")
    assert "helper_two" not in names(app)
    folder = tmp_path / place.format(folder=app.parent)
    folder.mkdir(parents=True)
    shutil.copy2(tmp_path / "whole", folder / "app.debug")
    assert {"helper_one", "helper_two", "public_name"} <= names(app)


@pytest.mark.parametrize("here", ["the file's directory", "the current directory"])
def test_a_folder_that_is_named_relative_is_looked_for_beside_the_file_and_here(
    here: str, app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACER_DEBUGINFO", "none:symbols")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "helper_two" not in names(app)
    folder = (app.parent if here == "the file's directory" else tmp_path / "elsewhere") / "symbols"
    folder.mkdir()
    shutil.copy2(tmp_path / "whole", folder / "app.debug")
    assert {"helper_one", "helper_two", "public_name"} <= names(app)


def test_a_static_function_that_an_exported_one_hides_is_found_in_the_debug_file(tmp_path: Path) -> None:
    """Else a name would mean fewer places once the file was stripped."""
    (tmp_path / "a.c").write_text("static __attribute__((noinline, used)) int step(int x) { return x + 1; }")
    (tmp_path / "b.c").write_text("int step(int x) { return x + 2; }")
    path = tmp_path / "lib.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "a.c", "b.c", "-o", path], cwd=tmp_path, check=True)
    with Elf(str(path)) as elf:
        whole = {each.address for each in Symbols(elf).named("step")}
    subprocess.run(["objcopy", "--only-keep-debug", path, tmp_path / "lib.debug"], check=True)
    subprocess.run(["strip", path], check=True)
    with Elf(str(path)) as elf:
        assert len(whole) == 2 and len(Symbols(elf, find_debug_file).named("step")) == 1
    subprocess.run(["objcopy", f"--add-gnu-debuglink={tmp_path}/lib.debug", path], check=True)
    with Elf(str(path)) as elf:
        assert {each.address for each in Symbols(elf, find_debug_file).named("step")} == whole


def test_a_file_reached_by_another_name_finds_what_is_beside_it(app: Path, tmp_path: Path) -> None:
    shutil.copy2(tmp_path / "whole", app.parent / "app.debug")
    other = tmp_path / "other"
    other.symlink_to(app)
    assert "helper_two" in names(other)


def test_a_file_of_another_build_is_not_believed(app: Path, tmp_path: Path) -> None:
    debug = app.parent / "app.debug"
    shutil.copy2(tmp_path / "whole", debug)
    content = bytearray(debug.read_bytes())
    content[-1] ^= 1
    debug.write_bytes(content)
    assert "helper_two" not in names(app)
    debug.write_bytes(b"no ELF file")
    assert "helper_two" not in names(app)
    with debug.open("wb") as sparse:
        sparse.write((tmp_path / "whole").read_bytes())
        sparse.truncate(1 << 40)  # nobody waits for its checksum
    assert "helper_two" not in names(app)
    debug.unlink()
    os.mkfifo(debug)
    assert "helper_two" not in names(app)


@pytest.mark.parametrize("link", ["../whole", "/etc/passwd", "", ".", "..", "x" * 5000])
def test_the_link_names_a_file_of_those_folders_and_no_other(link: str, tmp_path: Path) -> None:
    whole = ElfWriter(symbols=[("f", TEXT_ADDRESS, 2, 0x12)]).write(tmp_path / "whole")
    name = link.encode() + b"\0"
    content = name.ljust(len(name) + 3 & ~3, b"\0") + zlib.crc32(whole.read_bytes()).to_bytes(4, "little")
    (tmp_path / "bin").mkdir()
    path = ElfWriter(extra=[(".gnu_debuglink", 1, 0, content)]).write(tmp_path / "bin" / "app")
    with Elf(str(path)) as elf:
        assert debug_paths(elf) == ()
        assert find_debug_file(elf) is None


def test_in_another_root_its_own_folders_come_first(tmp_path: Path) -> None:
    content = b"app.debug\0\0\0" + bytes(4)
    data = ElfWriter(extra=[(".gnu_debuglink", 1, 0, content)]).build()
    root = "/proc/42/root"
    assert debug_paths(Elf(f"{root}/usr/bin/app", data)) == (
        f"{root}/usr/bin/app.debug",
        f"{root}/usr/bin/.debug/app.debug",
        f"{root}/usr/lib/debug/usr/bin/app.debug",
        "/usr/lib/debug/usr/bin/app.debug",
    )
