"""Who runs a file, and who another one of its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tracer.host.file_users import Other, Uses, listed, uses_of
from tracer.host.maps import Picture


def started(process: subprocess.Popen[bytes], path: Path) -> int:
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    while os.readlink(f"/proc/{pid}/exe") != str(path):
        time.sleep(0.001)
    return pid


def test_a_file_is_told_from_another_that_took_its_name(tmp_path: Path) -> None:
    path = tmp_path / "sleeper"
    shutil.copy("/bin/sleep", path)
    # A child of ours would be passed over, as tracer's own helpers are.
    command = ["/bin/sh", "-c", f"'{path}' 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        pid = started(process, path)
        try:
            told_apart(path, pid)
        finally:
            os.kill(pid, 9)


def told_apart(path: Path, pid: int) -> None:
    assert uses_of([str(path)]) == {str(path): Uses([pid], [])}
    assert uses_of([str(path)], [Picture(os.getpid())]) == {str(path): Uses([], [])}
    shutil.copy(path, path.with_name("new"))
    os.replace(path.with_name("new"), path)
    assert uses_of([str(path)]) == {str(path): Uses([], [Other(pid, True, False)])}
    assert uses_of([str(path)], [Picture(pid)]) == {str(path): Uses([], [Other(pid, True, False)])}
    assert listed([pid]) == f"process {pid} (sleeper)"
    assert listed([pid, 1, 2]) == f"process {pid} (sleeper) and 2 more"
    path.unlink()
    assert uses_of([str(path)]) == {str(path): Uses([], [])}
