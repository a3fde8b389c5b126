"""`tracer demo`, with and without a compiler, and the bakery that it builds."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.conftest import need
from tracer.demo import program as demo
from tracer.demo.program import build, demonstration, system_python


def test_both_backends_answer_and_are_compared(tmp_path: Path) -> None:
    done = tracer("demo", env={"XDG_CACHE_HOME": str(tmp_path)})
    assert done.status == 0, done.err
    assert "@[rye bread]: 196" in done.text
    assert "@cents:" in done.text
    assert "@microseconds:" in done.text
    assert done.text.count("-- ftrace: the same ") == 2
    assert done.text.splitlines()[-1].startswith("Compared: bcc and ftrace gave the same bytes for 2 of 2 questions")


def test_without_a_compiler_the_systems_python_is_traced(tmp_path: Path) -> None:
    python = shutil.which("python3", path="/usr/bin")
    need(python is not None and system_python() is not None, "a system's Python with USDT probes")
    tools = tmp_path / "bin"
    tools.mkdir()
    done = tracer("demo", env={"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tools)})
    assert done.status == 0, done.err
    assert "@[turn]: 3000" in done.text
    assert "@[is_even]: 3000" in done.text
    assert "Compared: bcc and ftrace gave the same bytes for 2 of 2" in done.text


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache is for this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def built() -> Path:
    binary = build()
    assert binary is not None
    return binary


def test_is_built_once_and_trusted_only_if_it_is_ours(home: Path) -> None:
    first = built()
    made = first.stat()
    assert first.is_relative_to(home) and not made.st_mode & 0o022
    assert built() == first
    assert first.stat().st_mtime_ns == made.st_mtime_ns
    first.chmod(made.st_mode | stat.S_IWOTH)
    assert built() == first
    assert not first.stat().st_mode & 0o022, "what anybody could have written must be built anew"


def test_a_link_in_its_place_is_not_followed(home: Path) -> None:
    first = built()
    first.unlink()
    first.symlink_to("/bin/true")
    assert built() == first
    assert first.is_file() and not first.is_symlink()


@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_binary_that_somebody_else_can_exchange_is_not_used(
    home: Path, monkeypatch: pytest.MonkeyPatch, above: int
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda user: pwd.struct_passwd(("x", "x", user, user, "", "/proc", "/bin/sh")))
    first = built()
    os.chown(first.parents[above], 65534, 65534)
    monkeypatch.setenv("TMPDIR", str(home))
    second = built()
    assert not second.is_relative_to(home)
    assert second.stat().st_uid == second.parent.stat().st_uid == 0
    shutil.rmtree(second.parent)


def test_without_compiler_and_python_the_error_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracer.errors import TracerError

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(demo, "system_python", lambda: None)
    with pytest.raises(TracerError) as caught:
        demonstration()
    assert caught.value.hint == "apt-get install gcc systemtap-sdt-dev"
