from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tracer.errors import TracerError
from tracer.probes.site import EVERY_PROCESS
from tracer.resolve.files.paths import find_files


def hint(path: str) -> str | None:
    with pytest.raises(TracerError, match="no such file") as caught:
        find_files(path, EVERY_PROCESS)
    return caught.value.hint


def test_a_link_to_nothing_is_said_to_be_one_and_not_suggested_for_itself(tmp_path: Path) -> None:
    link = tmp_path / "app"
    link.symlink_to(tmp_path / "app-1.2")
    assert hint(str(link)) == f"it is a link to {tmp_path}/app-1.2, which is not there"
    (tmp_path / "app-1.3").touch()
    assert hint(str(tmp_path / "app-1.4")) == f"did you mean {tmp_path}/app-1.3?"


def test_the_program_of_a_process_that_has_ended_is_said_to_be_gone() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        expected = "the process has no program: it has ended, or is one of the kernel's"
        assert hint(f"/proc/{process.pid}/exe") == expected
