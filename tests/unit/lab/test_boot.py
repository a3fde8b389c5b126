from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scripts.lab import LabError, boot
from scripts.lab.boot import Image, run
from scripts.lab.children import child
from scripts.lab.kernels import KERNELS
from tests.harness.cli import ROOT, until

# Stands in for qemu: does to the shared directory what a guest's init does.
MACHINE = """#!/bin/sh
for word; do
    case $word in local,path=*,mount_tag=share,*) share=${word#local,path=}; share=${share%%,mount_tag*} ;; esac
done
{body}
"""


@pytest.fixture(autouse=True)
def _without_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "_KVM", Path("/nowhere"))


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


def test_kvm_runs_the_guest_where_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "_KVM", tmp_path)
    body = 'echo "$2 $4" >> $share/out; : > $share/up; echo 0 > $share/status; sleep 60'
    assert ran(tmp_path, monkeypatch, body) == (0, False, b"kvm host\n", b"")


@pytest.mark.parametrize("kvm", ["sleep 60", "echo no kvm; exit 1"])
def test_a_guest_that_kvm_does_not_boot_is_emulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kvm: str
) -> None:
    monkeypatch.setattr(boot, "_KVM", tmp_path)
    monkeypatch.setattr(boot, "_KVM_BOOTS_WITHIN_S", 1.0)
    body = f'echo "$2" >> $share/out; [ "$2" = kvm ] && {{ {kvm}; }}; : > $share/up; echo 7 > $share/status; sleep 60'
    assert ran(tmp_path, monkeypatch, body) == (7, False, b"tcg,thread=single\n", b"")


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


def test_the_kernels_are_listed_where_nothing_is_installed(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "vm"
    shutil.copytree(ROOT / "scripts", script.parent)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apt-cache").write_text("#!/bin/sh\necho E: no lists >&2; exit 1\n")
    (tmp_path / "bin" / "apt-get").write_text(f"#!/bin/sh\necho \"$*\" >> {tmp_path}/asked; exit 1\n")
    for each in ("apt-cache", "apt-get"):
        (tmp_path / "bin" / each).chmod(0o755)
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(
        [script, "list"], capture_output=True, text=True, env={"PATH": path, "HOME": str(tmp_path)}, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()[::2]] == [kernel.name for kernel in KERNELS]
    assert "install" not in done.stderr
    assert not (tmp_path / ".venv").exists()
    asked = (tmp_path / "asked").read_text()
    assert " install " not in asked
    assert " update " in asked, "our own lists were asked for"
