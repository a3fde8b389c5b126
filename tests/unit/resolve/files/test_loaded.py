"""What a program will load, against what the kernel shows once it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tracer.errors import ProgramError, Source, TracerError
from tracer.host.maps import Picture
from tracer.kinds.site import FileSite, Target, places_among
from tracer.lang.syntax.parser import parse
from tracer.resolve.files.loaded import loaded_files
from tracer.resolve.files.paths import find_files
from tracer.resolve.sites.expand import expand


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("loaded")
    for path, text in {
        "one/a.c": "int b(int); int a(int x) { return b(x) + 1; }",
        "two/b.c": "int b(int x) { return x * 2; }",
        "main.c": "#include <unistd.h>\nint a(int); char c; "
        'int main(void) { write(1, "+", 1); read(0, &c, 1); return a(1); }',
    }.items():
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_text(text)
    made(place, "-shared -fPIC two/b.c -o two/libb.so")
    made(place, "-shared -fPIC one/a.c -o one/liba.so -Ltwo -lb -Wl,-rpath,$ORIGIN/../two")
    made(place, "main.c -o main -Lone -la -Wl,-rpath,${ORIGIN}/one -Wl,--allow-shlib-undefined")
    return place


@pytest.fixture
def program(compiled: Path, tmp_path: Path) -> Path:
    """Needs liba (DT_RUNPATH), which needs libb (its own DT_RUNPATH); both in places that only they name. A copy, since
    some tests link parts of it anew.
    """
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    return tmp_path / "main"


def made(place: Path, words: str) -> None:
    subprocess.run(["gcc", "-w", "-g", *words.split()], check=True, cwd=place)


def names(paths: tuple[str, ...]) -> list[str]:
    return [os.path.basename(path) for path in paths]


def mapped(program: Path) -> set[str]:
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read(1) == b"+"
        found = {os.path.realpath(each.path) for each in Picture(process.pid).files}
        process.stdin.close()
    return found


def sites(points: str, program: Path) -> tuple[FileSite, ...]:
    found = expand(parse(Source(points + " { @ = count(); }")), Target(program=str(program)))[0]
    return tuple(places_among(found))


def test_a_program_loads_what_the_kernel_shows_later(program: Path) -> None:
    found = loaded_files(str(program))
    assert found[0] == str(program)
    assert {os.path.realpath(path) for path in found} == mapped(program)


def test_rpath_is_handed_on_to_the_libraries_and_runpath_is_not(program: Path) -> None:
    place = program.parent
    made(place, "-shared -fPIC one/a.c -o one/liba.so -Ltwo -lb")
    both = "-Wl,-rpath,$ORIGIN/one:$ORIGIN/two -Wl,--allow-shlib-undefined"
    made(place, f"main.c -o main -Lone -la {both} -Wl,--enable-new-dtags")
    assert "libb.so" not in names(loaded_files(str(program)))
    made(place, f"main.c -o main -Lone -la {both} -Wl,--disable-new-dtags")
    assert "libb.so" in names(loaded_files(str(program)))
    assert {os.path.realpath(path) for path in loaded_files(str(program))} == mapped(program)


def test_the_environments_directories_are_searched(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = program.parent
    made(place, "-shared -fPIC one/a.c -o one/liba.so -Ltwo -lb")
    assert "libb.so" not in names(loaded_files(str(program)))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{place}/two")
    assert {os.path.realpath(path) for path in loaded_files(str(program))} == mapped(program)


def test_of_a_script_the_interpreter_is_what_runs(program: Path) -> None:
    script = program.parent / "script"
    script.write_text(f"#!{program} -x\n")
    assert loaded_files(str(script)) == loaded_files(str(program))
    script.write_text("#!/usr/bin/env -S VAR=1 sh\n")
    assert os.path.realpath(loaded_files(str(script))[0]) == os.path.realpath("/bin/sh")
    script.write_text(f"#!{script}\n")
    with pytest.raises(TracerError, match="too many scripts"):
        loaded_files(str(script))
    script.write_text("echo\n")
    with pytest.raises(TracerError, match="not an ELF file"):
        loaded_files(str(script))


def test_an_attach_point_without_a_path_means_all_of_them(program: Path) -> None:
    place = program.parent
    assert [(each.path, each.probe) for each in sites("uprobe::b", program)] == [
        (f"{place}/two/libb.so", f"uprobe:{place}/two/libb.so:b")
    ]
    assert [each.path for each in sites("uprobe:*:main", program)] == [str(program)]
    assert [each.function for each in sites("uprobe::b.c:1", program)] == ["b"]
    with pytest.raises(ProgramError) as caught:
        sites("usdt::shop:nothing", program)
    assert caught.value.diagnostics[0].message == "no USDT probe matches 'shop:nothing' in any of 5 files"


def test_a_library_that_only_the_program_finds_has_its_name(program: Path) -> None:
    place = program.parent
    for name in ("libb", "b", "libb.so"):
        assert [each.path for each in sites(f"uprobe:{name}:b", program)] == [f"{place}/two/libb.so"]
    with pytest.raises(TracerError, match="neither a program in PATH nor a library"):
        find_files("libb", Target())


def test_a_command_that_is_no_program_does_not_hide_the_libraries(program: Path) -> None:
    script = program.parent / "script"
    script.write_text("echo\n")
    (found,) = find_files("libc", Target(program=str(script)))
    assert found.path.endswith("libc.so.6")
