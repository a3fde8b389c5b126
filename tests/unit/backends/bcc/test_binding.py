"""Finding the distribution's binding, and telling the unrelated package from it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tracer.backends.bcc.host import binding
from tracer.backends.bcc.host.binding import Binding, NoBinding, find_binding, install_command


def test_the_binding_of_this_machine_is_found_from_this_interpreter() -> None:
    found = find_binding()
    assert isinstance(found, Binding)
    assert (found.folder / "libbcc.py").is_file() and found.version[0].isdigit()


@pytest.fixture
def crystals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PyPI's bcc, and nothing else."""
    package = tmp_path / "bcc"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('it must not be loaded')")
    monkeypatch.setattr(binding, "_PLACES", ())
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return package


def test_an_unrelated_package_is_named_and_not_loaded(crystals: Path) -> None:
    found = find_binding()
    assert isinstance(found, NoBinding)
    assert found.reason == (
        f"the package bcc in {crystals} is an unrelated one, and the BPF Compiler Collection is not installed"
    )


def test_the_distributions_folder_goes_before_an_unrelated_package(
    crystals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "dist" / "bcc"
    real.mkdir(parents=True)
    (real / "libbcc.py").touch()
    (real / "version.py").write_text("__version__ = '0.31.0'\n")
    monkeypatch.setattr(binding, "_PLACES", (str(tmp_path / "dist"),))
    assert find_binding() == Binding(real, "0.31.0")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("ID=debian\n", "sudo apt-get install python3-bpfcc"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "sudo apt-get install python3-bpfcc"),
        ("ID=fedora\n", "sudo dnf install python3-bcc"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "sudo dnf install python3-bcc"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "sudo zypper install python3-bcc"),
        ("ID=alpine\n", "sudo apk add py3-bcc bcc-tools"),
        ("ID=plan9\n", "install the distribution's Python binding of BCC (python3-bpfcc, python3-bcc)"),
    ],
)
def test_the_remedy_is_the_distributions_command(text: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "os-release").write_text(text)
    assert install_command(str(tmp_path / "os-release")) == command
