"""`tracer demo`, with and without a compiler, and the bakery that it builds."""

from __future__ import annotations

import os
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


def test_is_built_once_and_trusted_only_if_it_is_ours(tmp_path: Path) -> None:
    first = build(tmp_path)
    assert first is not None
    made = first.stat()
    assert not made.st_mode & 0o022
    assert build(tmp_path) == first
    assert first.stat().st_mtime_ns == made.st_mtime_ns
    first.chmod(made.st_mode | stat.S_IWOTH)
    assert build(tmp_path) == first
    assert not first.stat().st_mode & 0o022, "what anybody could have written must be built anew"


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    first = build(tmp_path)
    assert first is not None
    os.chown(first.parent, 65534, 65534)
    second = build(tmp_path)
    assert second is not None
    assert second.parent != first.parent
    shutil.rmtree(second.parent)


def test_without_compiler_and_python_the_error_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracer.errors import TracerError

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(demo, "system_python", lambda: None)
    with pytest.raises(TracerError) as caught:
        demonstration(tmp_path)
    assert caught.value.hint == "apt-get install gcc systemtap-sdt-dev"
