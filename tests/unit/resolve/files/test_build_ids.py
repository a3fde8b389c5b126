"""Files by their build-ids, found by the processes that run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tracer.errors import Fault, Source, TracerError
from tracer.kinds.site import EVERY_PROCESS, Target
from tracer.lang.printing.formatted import laid_out
from tracer.lang.syntax.attach import read
from tracer.resolve.elf.file import Elf
from tracer.resolve.files.build_ids import files_of
from tracer.resolve.files.paths import Found, find_files
from tracer.resolve.listing import list_probes

SOURCE = "#include <unistd.h>\nint main(void) { write(1, \"x\", 1); sleep(60); return %d; }\n"


def made(folder: Path, name: str, build_id: str, status: int = 0) -> Path:
    source = folder / f"{name}.c"
    source.write_text(SOURCE % status)
    subprocess.run(["gcc", f"-Wl,--build-id=0x{build_id}", "-o", folder / name, source], check=True)
    return folder / name


@contextmanager
def running(*paths: Path) -> Iterator[list[int]]:
    processes = [subprocess.Popen([path], stdout=subprocess.PIPE) for path in paths]
    try:
        for each in processes:
            assert each.stdout is not None
            assert each.stdout.read(1) == b"x"
        yield [each.pid for each in processes]
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def own_id(number: int) -> str:
    """No other run has it."""
    return f"{os.getpid():08x}{number:08x}cafe"


def test_every_copy_that_runs_is_meant_and_none_that_does_not(tmp_path: Path) -> None:
    wanted = own_id(1)
    first = made(tmp_path, "first", wanted)
    second, third = tmp_path / "second", tmp_path / "third"
    shutil.copy(first, second)
    shutil.copy(first, third)
    with running(first, second, first) as pids:
        for text in (f"build-id:{wanted}", f"build-id:{wanted.upper()}", f"build-id:{wanted[:17]}"):
            assert sorted(files_of(text, EVERY_PROCESS)) == [(wanted, str(first)), (wanted, str(second))]
        assert files_of(f"build-id:{wanted}", Target([pids[1]])) == [(wanted, str(second))]
        assert find_files(f"build-id:{wanted}", Target([pids[1]])) == (Found(str(second), str(second)),)
        with pytest.raises(TracerError, match=rf"process {os.getpid()} .* runs no file of build-id {wanted}"):
            files_of(f"build-id:{wanted}", Target([os.getpid()]))
        listed = {each.probe for each in list_probes(f"uprobe:build-id:{wanted}:main", EVERY_PROCESS)}
        assert listed == {f"uprobe:{first}:main", f"uprobe:{second}:main"}
        assert {each.name for each in list_probes(f"build-id:{wanted}", Target([pids[1]]))} >= {"main", "_start"}
        second.unlink()
        ((_, path),) = files_of(f"build-id:{wanted}", Target([pids[1]]))
        assert path.startswith(f"/proc/{pids[1]}/map_files/")
    with pytest.raises(TracerError, match=f"no process runs a file of build-id {wanted}"):
        files_of(f"build-id:{wanted}", EVERY_PROCESS)
    # The program of -c does not run yet.
    assert files_of(f"build-id:{wanted}", Target(program=str(third))) == [(wanted, str(third))]
    with pytest.raises(TracerError, match="and its libraries are not of build-id"):
        files_of(f"build-id:{wanted}", Target(program="/bin/true"))


def test_digits_that_may_be_two_files_are_refused_with_both(tmp_path: Path) -> None:
    both = own_id(2)[:-4]
    first, second = made(tmp_path, "first", both + "aaaa"), made(tmp_path, "second", both + "bbbb", 1)
    with running(first, second):
        with pytest.raises(TracerError) as caught:
            files_of(f"build-id:{both}", EVERY_PROCESS)
        assert f"build-id {both} may be 2 files: " in caught.value.message
        assert f"{both}aaaa ({first})" in caught.value.message and f"{both}bbbb ({second})" in caught.value.message
        assert caught.value.hint == "write more of its digits"
        assert files_of(f"build-id:{both}a", EVERY_PROCESS) == [(both + "aaaa", str(first))]


@pytest.mark.parametrize("digits", ["", "abc", "1234567", "1234567g", "*", "1234\n5678", "a" * 129])
def test_what_is_no_build_id_is_said(digits: str) -> None:
    with pytest.raises(TracerError, match="is not a build-id, which has at least 8 hexadecimal digits") as caught:
        find_files(f"build-id:{digits}", EVERY_PROCESS)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("text", "path", "provider", "name"),
    [
        ("usdt:build-id:4fc5aa00:p:n", "build-id:4fc5aa00", "p", "n"),
        ("usdt:build-id:4fc5aa00:n", "build-id:4fc5aa00", None, "n"),
        ("uprobe:build-id:4fc5aa00:main", "build-id:4fc5aa00", None, "main"),
        ("u:build-id:4fc5aa00:main+8", "build-id:4fc5aa00", None, "main"),
        ('uprobe:build-id:4fc5aa00:cpp:"a::b"', "build-id:4fc5aa00", None, "a::b"),
        ("uprobe:./build-id:main", "./build-id", None, "main"),
        ('uprobe:"build-id":main', "build-id", None, "main"),
        ("uprobe:a:build-id:4", "a", None, None),
    ],
)
def test_it_stands_for_the_file(text: str, path: str, provider: str | None, name: str | None) -> None:
    point, end = read(text + " {", 0)
    assert (point.path, point.provider, point.name, end) == (path, provider, name, len(text))


def test_it_takes_source_lines_and_predicates_and_arguments_of_the_program() -> None:
    point, _ = read("uprobe:build-id:4fc5aa00:src/shop.c:36 {", 0)
    assert (point.path, point.source, point.line) == ("build-id:4fc5aa00", "src/shop.c", 36)
    point, end = read("uprobe:build-id:$1:main/arg0/ {", 0, ["4fc5aa00"])
    assert (point.path, point.name, end) == ("build-id:4fc5aa00", "main", len("uprobe:build-id:$1:main"))
    with pytest.raises(Fault, match="incomplete"):
        read("uprobe:build-id:4fc5aa00 {", 0)


def test_the_layout_keeps_it() -> None:
    text = "uprobe:build-id:4fc5aa00:main,usdt:build-id:4fc5aa00:p:n{@=count();}"
    once = laid_out(Source(text))
    assert "uprobe:build-id:4fc5aa00:main" in once and "usdt:build-id:4fc5aa00:p:n" in once
    assert laid_out(Source(once)) == once


def test_the_debug_file_of_a_build_id_is_not_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = own_id(3)
    path = made(tmp_path, "program", wanted)
    debug = tmp_path / "debug" / ".build-id" / wanted[:2] / f"{wanted[2:]}.debug"
    debug.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
    with Elf(str(debug), objects=True) as elf:
        assert elf.build_id == wanted
    monkeypatch.setattr("tracer.resolve.files.build_ids.DEBUG_ROOT", str(tmp_path / "debug"))
    with pytest.raises(TracerError) as caught:
        files_of(f"build-id:{wanted}", EVERY_PROCESS)
    assert caught.value.hint == f"{debug} is its debug information, and not the file: start what runs it"
