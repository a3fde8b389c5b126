"""Directories that are listed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.targets.build import build
from tracer.errors import TracerError
from tracer.kinds.site import EVERY_PROCESS, Target
from tracer.resolve.files.paths import Found, files_below
from tracer.resolve.listing import list_lines, list_probes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    shutil.copy(build("ticker"), tmp_path / "ticker")
    shutil.copy(build("silent"), tmp_path / "sub" / "silent")
    (tmp_path / "readme").write_text("no program")
    (tmp_path / "damaged").write_bytes(b"\x7fELF")
    (tmp_path / "a").symlink_to(tmp_path / "ticker")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_every_program_below_is_listed_once_by_its_own_name(folder: Path) -> None:
    wanted = [f"usdt:{folder}/sub/silent:silent:gated", f"usdt:{folder}/ticker:ticker:tick"]
    for pattern in (f"usdt:{folder}", f"usdt:{folder}/:*", f"usdt:{folder}:*", f"usdt:{folder}/./:*:*"):
        assert [each.probe for each in list_probes(pattern, EVERY_PROCESS)] == wanted, pattern
        assert "".join(list_lines(pattern, EVERY_PROCESS)).splitlines() == wanted
    assert [each.probe for each in list_probes(f"usdt:{folder}:silent:*", EVERY_PROCESS)] == wanted[:1]
    functions = "".join(list_lines(f"uprobe:{folder}:main", EVERY_PROCESS)).splitlines()
    assert functions == [f"uprobe:{folder}/sub/silent:main", f"uprobe:{folder}/ticker:main"]
    everything = "".join(list_lines(str(folder), EVERY_PROCESS)).splitlines()
    assert set(wanted) | set(functions) <= set(everything)


def test_files_of_a_process_are_those_that_it_sees(folder: Path) -> None:
    names = [Path(each.path).name for each in files_below(str(folder), Target([os.getpid()]))]
    assert names == ["damaged", "silent", "ticker", "a"]
    assert Found(f"{folder}/ticker", f"{folder}/ticker", False) in files_below(str(folder), EVERY_PROCESS)


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TracerError, match="no program or library is there"):
        list(list_lines(f"usdt:{tmp_path}", EVERY_PROCESS))
    hostile = tmp_path / "a\n\x1b[31m"
    hostile.mkdir()
    with pytest.raises(TracerError) as caught:
        files_below(str(hostile), EVERY_PROCESS)
    assert caught.value.message.isprintable()


def test_names_that_would_steer_a_terminal_are_not_listed_as_they_are(tmp_path: Path) -> None:
    shutil.copy(build("ticker"), tmp_path / "a\n\x1b[31m")
    for line in list_lines(f"usdt:{tmp_path}", EVERY_PROCESS):
        assert line.rstrip("\n").isprintable()
