from __future__ import annotations

import io
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scripts.lab import LabError
from scripts.lab.boot import Image, run
from scripts.lab.children import child
from tests.harness.cli import until

# Stands in for qemu: does to the shared directory what a guest's init does.
MACHINE = """#!/bin/sh
for word; do
    case $word in local,path=*,mount_tag=share,*) share=${word#local,path=}; share=${share%%,mount_tag*} ;; esac
done
{body}
"""


def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, timeout_s: float = 20.0) -> tuple[object, ...]:
    (tmp_path / "bin").mkdir()
    for name, text in (("qemu-system-x86_64", MACHINE.replace("{body}", body)), ("busybox", "static")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    out, err = io.BytesIO(), io.BytesIO()
    ended = run(Image(tmp_path / "vmlinux"), ["true"], timeout_s=timeout_s, out=out, err=err)
    return ended.status, ended.time_was_up, out.getvalue(), err.getvalue()


def test_output_and_status_come_out_of_the_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "printf 'a\\0b' >> $share/out; echo e >> $share/err; echo 7 > $share/status; sleep 60"
    assert ran(tmp_path, monkeypatch, body) == (7, False, b"a\0b", b"e\n")


def test_what_was_said_before_a_crash_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(tmp_path, monkeypatch, "echo last >> $share/out; exit 0") == (None, False, b"last\n", b"")


def test_a_status_half_written_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(tmp_path, monkeypatch, "printf 1 > $share/status")[:2] == (None, False)


def test_a_status_that_comes_in_pieces_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = ": > $share/status; sleep 0.3; printf 7 >> $share/status; sleep 0.3; echo >> $share/status; sleep 60"
    assert ran(tmp_path, monkeypatch, body)[:2] == (7, False)


def test_a_guest_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(tmp_path, monkeypatch, "sleep 100", 0.3)[:2] == (None, True)


def test_a_machine_ends_with_all_that_it_started() -> None:
    with tempfile.TemporaryFile() as said:
        with child(["sh", "-c", "sleep 100 & echo $!; wait"], said) as process:
            until(lambda: said.seek(0, 2), 10)
        said.seek(0)
        started = int(said.read())
    assert process.returncode == -signal.SIGKILL
    until(lambda: not Path(f"/proc/{started}/cmdline").exists() or not is_alive(started), 10)


def is_alive(pid: int) -> bool:
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_without_qemu_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="install qemu-system-x86"):
        run(Image(tmp_path), ["true"], timeout_s=1, out=io.BytesIO(), err=io.BytesIO())


def test_the_command_s_help_names_its_commands() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.lab", "--help"], capture_output=True, text=True, check=True)
    assert "{list,run,prepare,test,table}" in done.stdout
