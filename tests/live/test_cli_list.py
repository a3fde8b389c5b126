"""`tracer list`: attach points that can be used as they stand, and the places behind them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import target, tracer, tracing, until
from tests.targets.build import build


@pytest.fixture
def depot(tmp_path: Path) -> Path:
    return Path(shutil.copy(build("depot"), tmp_path / "depot"))


def test_each_line_is_a_valid_attach_point(depot: Path) -> None:
    lines = tracer("list", f"usdt:{depot}:*").text.splitlines()
    assert f"usdt:{depot}:depot:parcel" in lines
    assert lines == sorted(lines)
    for line in lines:
        done = tracer("-d", "plan", "-e", f"{line} {{ @ = count(); }}")
        assert (done.status, done.err) == (0, ""), line


def test_a_path_with_blanks_and_colons_is_listed_so_that_it_can_be_used(tmp_path: Path) -> None:
    path = Path(shutil.copy(build("depot"), tmp_path / "a b:c d"))
    lines = tracer("list", str(path)).text.splitlines()
    parcel = next(line for line in lines if line.endswith(":parcel"))
    assert tracer("-d", "plan", "-e", f"{parcel} {{ @ = count(); }}").status == 0


def test_the_bpftrace_spelling_lists_the_same(depot: Path) -> None:
    listed = tracer("list", "-v", f"usdt:{depot}:*")
    for words in (("-l", "-v"), ("-lv",), ("-v", "-l"), ("--list", "-v")):
        assert tracer(*words, f"usdt:{depot}:*") == listed


def test_verbose_adds_every_site_with_its_arguments(depot: Path) -> None:
    lines = tracer("list", "-v", f"usdt:{depot}:depot:parcel").text.splitlines()
    assert lines[0] == f"usdt:{depot}:depot:parcel"
    assert re.match(r"    address 0x\w+  offset 0x\w+  \w+\+0x\w+  \S+/depot.c:129  semaphore 0x\w+  args ", lines[1])
    assert len(lines[1].split("args ")[1].split("@")) == 6
    assert [line.split(":")[0] for line in lines[2:7]] == [f"      arg{number}" for number in range(5)]
    assert re.fullmatch(r"    semaphore 0x\w+: no process that runs now has loaded the file", lines[-1])


def test_verbose_tells_whether_a_semaphore_is_on(tmp_path: Path, backend: str) -> None:
    path = Path(shutil.copy(build("ticker"), tmp_path / "ticker"))
    with target(path, "60") as first, target(path, "60") as second:
        until(lambda: all(os.readlink(f"/proc/{each.pid}/exe") == str(path) for each in (first, second)))

        def semaphore(*words: str) -> str:
            return tracer("list", "-v", *words).text.splitlines()[-1].partition(": ")[2]

        pattern = f"usdt:{path}:ticker:tick"
        assert semaphore(pattern) == "2 processes have loaded the file; it is off"
        options = ("--backend", backend, "-p", str(first.pid))
        with tracing(tmp_path, *options, "-e", f"{pattern} {{ @ = count(); }}"):
            assert semaphore(pattern) == "2 processes have loaded the file; it is on in 1"
            for process, state in (first, "on in 1"), (second, "off"):
                said = semaphore("-p", str(process.pid), "usdt::ticker:tick")
                assert said == f"1 process has loaded the file; it is {state}"
        assert semaphore(pattern) == "2 processes have loaded the file; it is off"


def test_verbose_shows_parameters_and_the_line_of_a_function(depot: Path) -> None:
    lines = tracer("list", "-v", f"uprobe:{depot}:plain").text.splitlines()
    assert lines[:2] == [f"uprobe:{depot}:plain", "    int id"], lines
    assert re.fullmatch(r"    address 0x\w+  offset 0x\w+  plain  \S+/depot_plain.c:\d+", lines[2])


def test_verbose_works_with_a_program_and_with_a_place_in_code(depot: Path, tmp_path: Path) -> None:
    alone = tracer("list", "-v", f"uprobe:{depot}:price").text
    text = f"uprobe:{depot}:price {{ @ = count(); }} interval:s:1 {{ }}"
    (tmp_path / "a.bt").write_text(text)
    for words in (("-e", text), (str(tmp_path / "a.bt"),)):
        assert tracer("list", *words).text == f"uprobe:{depot}:price\ninterval:s:\n"
        assert tracer("list", "-v", *words).text == f"{alone}interval:s:\n"
    address = re.findall(r"address (0x\w+)", alone)[0]
    placed = tracer("list", "-v", f"uprobe:{depot}:{address}").text
    assert placed == alone.replace(f"{depot}:price\n", f"{depot}:{int(address, 16)}\n")
    record = json.loads(tracer("list", "--json", "-e", f"usdt:{depot}:depot:parcel {{ }}").text)
    assert record == json.loads(tracer("list", "--json", f"usdt:{depot}:depot:parcel").text)


def test_verbose_names_functions_of_cpp_as_people_write_them() -> None:
    path = build("carts")
    lines = tracer("list", "-v", f"uprobe:{path}:*").text.splitlines()
    names = [line.split("  ")[2] for line in lines if line.startswith("    address")]
    assert names and not [name for name in names if name.startswith("_Z")]


def test_verbose_has_the_parameters_below_each_place_where_they_differ(tmp_path: Path) -> None:
    own = 'static void __attribute__((noipa)) init({}) {{ __asm__("" : "+r"({})); }}\n'
    (tmp_path / "one.c").write_text(
        own.format("int a", "a") + "void two(void); int main(void) { init(1); two(); return 0; }\n"
    )
    (tmp_path / "two.c").write_text(own.format("char *s, long n", "n") + "void two(void) { init(0, 2); }\n")
    subprocess.run(["gcc", "-g", "-O1", "one.c", "two.c", "-o", "inits"], cwd=tmp_path, check=True)
    shown = tracer("list", "-v", f"uprobe:{tmp_path}/inits:init").text.splitlines()
    assert [line for line in shown[1:] if "address" not in line] == ["      int a", "      char* s", "      long int n"]


def test_of_files_that_are_all_unusable_for_one_reason_that_is_said(tmp_path: Path) -> None:
    files = ["usr", "libc"]
    for name in files:
        (tmp_path / name).write_bytes(b"\x7fELF\2\2\1" + bytes(57))
    done = tracer("list", f"uprobe:{tmp_path}/*:main")
    assert (done.status, done.err) == (1, f"tracer: error: {tmp_path}/libc: big-endian ELF files are not supported\n")
    done = tracer("--dry-run", "-e", f"uprobe:{tmp_path}/*:main {{ }}")
    assert done.err.endswith(f" error: {tmp_path}/libc: big-endian ELF files are not supported\n")


def test_json_has_one_object_a_line_with_every_argument(depot: Path) -> None:
    (line,) = tracer("list", "--json", f"usdt:{depot}:depot:parcel").text.splitlines()
    shown = json.loads(line)
    assert {key: shown[key] for key in ("probe", "kind", "path", "provider", "name")} == {
        "probe": f"usdt:{depot}:depot:parcel",
        "kind": "usdt",
        "path": str(depot),
        "provider": "depot",
        "name": "parcel",
    }
    for site in shown["sites"]:
        assert all(site[key].startswith("0x") for key in ("address", "offset", "semaphore"))
        assert [set(argument) for argument in site["args"]] == [{"text", "size", "signed", "float", "readable"}] * 5
        assert all(argument["readable"] is True for argument in site["args"])


def test_a_process_needs_no_path(depot: Path) -> None:
    with target(depot, "1000000000") as process:
        until(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(depot))
        lines = tracer("list", "-p", str(process.pid), "usdt:*").text.splitlines()
    assert f"usdt:{depot}:depot:parcel" in lines


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("usdt:/no/such/file", "/no/such/file: no such file"),
        ("kprobe:do_exit", "kprobe probes are not supported: of the kernel tracer traces events and samples, no"),
        ("nothing:do_exit", "'nothing' is no kind of probe that can be listed"),
    ],
)
def test_what_cannot_be_listed_is_one_line(pattern: str, said: str) -> None:
    done = tracer("list", pattern)
    assert done.status in (1, 2)
    assert done.out == b""
    assert done.err.startswith(f"tracer: error: {said}")
    assert done.err.count("\n") == 1


def test_a_directory_is_listed_with_all_below_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("ticker", "sub/other"):
        shutil.copy(build("ticker"), tmp_path / name)
    wanted = [f"usdt:{tmp_path}/{name}:ticker:tick" for name in ("sub/other", "ticker")]
    assert tracer("list", f"usdt:{tmp_path}").text.splitlines() == wanted
    assert tracer("-l", f"usdt:{tmp_path}/*:*").text.splitlines() == wanted[1:]
    assert tracer("-l", "usdt:.:*", cwd=tmp_path).text.splitlines() == wanted
