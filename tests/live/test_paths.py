"""Files whose names are hard to write, in a definition or anywhere: traced on both backends, or refused clearly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import Done, target, tracer

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

NAMES = (
    "two words\tand a tab", "with#hash (x)", "quo'te dou\"ble back\\slash", "ü€", "not utf-8 \udcff",
    "co:lon;com,ma br{ace}", "-$dollar `%s`", "a" * 255,
)  # fmt: skip


def quoted(path: Path) -> str:
    """A path in the attach point's quotes."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def counted(path: Path, backend: str) -> Done:
    """One line of three ticks, of a program at a path, which is told to make them."""
    return tracer(
        "--backend", backend, "-e", f"usdt:{quoted(path)}:ticker:tick {{ @ = count(); }}", "-c", starter(path)
    )


def starter(path: Path) -> str:
    words = str(path).replace("'", "'\\''")
    return f"'{words}' 0.03 10"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_is_traced(name: str, backend: str, place: Callable[[str], Path], tmp_path: Path) -> None:
    path = tmp_path / name[:100] / name
    path.parent.mkdir()
    shutil.copy(place("ticker"), path)
    done = counted(path, backend)
    assert (done.status, done.out, done.err) == (0, b"3\n@: 3\n", "Attached 1 probe\n")


def test_a_path_of_nearly_the_greatest_length_is_traced(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    # 4,095 bytes is the most that a path can have, and that a definition can.
    folder = tmp_path
    while len(str(folder)) < 3800:
        folder /= "d" * 200
    folder.mkdir(parents=True)
    path = folder / ("e" * (4095 - len(str(folder)) - 1))
    if len(path.name) > 255:
        path = folder / "f" / path.name[2:]
        path.parent.mkdir()
    assert len(str(path)) == 4095
    shutil.copy(place("ticker"), path)
    done = counted(path, backend)
    assert (done.status, done.out, done.err) == (0, b"3\n@: 3\n", "Attached 1 probe\n")


def test_a_name_with_the_end_of_a_line_is_refused(backend: str, place: Callable[[str], Path], tmp_path: Path) -> None:
    path = tmp_path / "new\nline"
    shutil.copy(place("ticker"), path)
    done = counted(path, backend)
    first = f'usdt:"{tmp_path}/new'
    assert (done.status, done.out) == (2, b"")
    fault = 'error: the quotes in the attach point are not closed; end them with "'
    assert done.err == f"{first}\n     {'^' * (len(first) - 5)} {fault}\n"


def test_a_deleted_file_is_traced_in_the_processes_that_run_it(backend: str, place: Callable[[str], Path]) -> None:
    path = place("ticker")
    with target(path, 100, 5) as process:
        until_mapped(process.pid, path)
        path.unlink()
        body = "{ @[arg0] = count(); @n++; if (@n == 20) { exit(); } }"
        who = ("--backend", backend, "-p", str(process.pid), "-e")
        everybody = tracer("--backend", backend, "-e", f"usdt:{path}:ticker:tick {body}")
        assert (everybody.status, everybody.out) == (2, b"")
        assert f"error: {path}: no such file" in everybody.err
        for file in (path, path.name, "*", f"/proc/{process.pid}/exe"):
            found = tracer(*who, f"usdt:{file}:ticker:tick {body}")
            assert (found.status, found.err) == (0, "Attached 1 probe\n"), file
            assert found.text.count("]: 1\n") == 20 and found.text.endswith("@n: 20\n")


def test_where_a_file_was_replaced_the_one_that_the_process_runs_is_traced(
    backend: str, place: Callable[[str], Path]
) -> None:
    path = place("ticker")
    with target(path, 100, 5) as process:
        until_mapped(process.pid, path)
        shutil.copy(path, path.with_name("new"))
        os.replace(path.with_name("new"), path)
        program = f"usdt:{path}:ticker:tick {{ @[probe, usym(reg(\"ip\"))] = count(); }} interval:ms:200 {{ exit(); }}"
        done = tracer("--backend", backend, "-p", str(process.pid), "-e", program)
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    shown, _, hits = done.text.rpartition(": ")
    assert shown == f"@[usdt:{path}:ticker:tick, main]" and int(hits) > 0


def test_a_file_in_memory_is_traced_by_its_name(backend: str, tmp_path: Path) -> None:
    """A library that a process has written to memfd_create(2) and loaded: no directory has it."""
    library = tmp_path / "work.so"
    source = "int work(int n) { return n + 1; }"
    subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", "-"], input=source.encode(), check=True)
    script = (
        "import ctypes, os, sys, time\n"
        "held = os.memfd_create('kept')\n"
        "os.write(held, open(sys.argv[1], 'rb').read())\n"
        "library = ctypes.CDLL(f'/proc/self/fd/{held}')\n"
        "print('ready', flush=True)\n"
        "while True: library.work(1), time.sleep(0.005)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, library], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            for file in ("kept", '"/memfd:kept"'):
                program = f"uprobe:{file}:work {{ @[probe, ustack(1)] = count(); }} interval:ms:200 {{ exit(); }}"
                done = tracer("--backend", backend, "-p", str(process.pid), "-e", program)
                assert (done.status, done.err) == (0, "Attached 2 probes\n"), file
                shown, _, hits = done.text.rpartition(": ")
                assert shown == "@[uprobe:/memfd:kept:work, \n        work+0\n]" and int(hits) > 0
        finally:
            process.kill()


def test_a_library_that_only_the_mount_namespace_of_the_process_has_is_traced(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "only").mkdir()
    hidden = tmp_path / "only/ticker"
    script = (
        f"mount --make-rprivate / && mount -t tmpfs none {tmp_path}/only && cp {place('ticker')} {hidden}"
        f" && exec {hidden} 100 5"
    )
    with target("unshare", "-m", "sh", "-c", script) as process:
        until_mapped(process.pid, hidden)
        assert not hidden.exists()
        program = f"usdt:{hidden}:ticker:tick {{ @[ustack(2)] = count(); }} interval:ms:200 {{ exit(); }}"
        done = tracer("--backend", backend, "-p", str(process.pid), "-e", program)
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    first, second = done.text.splitlines()[1:3]
    assert (first.strip().partition("+")[0], second.strip().partition("+")[0]) == ("main", "__libc_start_call_main")


def until_mapped(pid: int, path: Path) -> None:
    """Until the process has gone through exec."""
    while os.readlink(f"/proc/{pid}/exe") != str(path):
        pass
