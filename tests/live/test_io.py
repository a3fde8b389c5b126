"""`tracer io`: the bytes of a file are those that the program itself counted, and no other file's."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.cli import tracer

FILES = 2000
NAMED = ("parent", "parent.copy", "parent.other", "child", "child.copy", "child.other")


def rows_of(text: str) -> dict[str, dict[str, Any]]:
    (files,) = (json.loads(line)["data"] for line in text.splitlines() if line.startswith('{"type": "files"'))
    return {row["file"]: row for row in files}


def test_each_file_has_the_bytes_that_were_moved(backend: str, place: Callable[[str], Path], tmp_path: Path) -> None:
    """All calls, two processes, two files by one number, and a number that dup2() gives to another file."""
    done = tracer("io", "--json", "--follow", "--backend", backend, "-c", f"{place('reads')} {tmp_path}")
    rows = rows_of(done.text)
    told = {line.split()[0]: tuple(map(int, line.split()[1:])) for line in done.said.splitlines() if line[0] == "/"}
    assert sorted(told) == sorted(str(tmp_path / name) for name in NAMED)
    columns = ("reads", "read_bytes", "writes", "written_bytes")
    assert {name: tuple(rows[name][column] for column in columns) for name in told} == told
    assert rows[str(tmp_path / "child.copy")]["errors"] == {"EBADF": 1}
    assert rows[str(tmp_path / "parent")]["others"] == 1
    sockets = [(row["written_bytes"], row["read_bytes"]) for name, row in rows.items() if name.startswith("socket:[")]
    assert sorted(sockets) == [(0, 9), (0, 9), (21, 0), (21, 0)]


def test_a_number_used_again_gives_no_file_the_bytes_of_another(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    for number in range(FILES):
        (tmp_path / str(number)).write_bytes(b"x" * (number + 1))
    command = f"{place('reads')} {tmp_path} {FILES}"
    done = tracer("io", "--json", "--backend", backend, "-c", command)
    rows = rows_of(done.text)
    assert rows[str(tmp_path / "stays")]["written_bytes"] == 10
    # Most were closed before tracer could look; what has a name has that file's bytes, and what has none is said.
    named = {int(Path(name).name): row for name, row in rows.items() if Path(name).name.isdigit()}
    assert all(row["read_bytes"] == number + 1 for number, row in named.items())
    total = sum(row["read_bytes"] for name, row in rows.items() if not name.endswith(".so.6"))
    libc = total - FILES * (FILES + 1) // 2
    assert 0 <= libc < 10_000
    told = re.search(r"^tracer: (\d+) descriptors were closed before the name was read", done.said, re.M)
    assert told is not None and FILES <= int(told[1]) + len(named) <= FILES + 4


def test_opened_names_each_by_what_open_was_given(place: Callable[[str], Path], tmp_path: Path) -> None:
    for number in range(FILES):
        (tmp_path / str(number)).write_bytes(b"x" * (number + 1))
    command = f"{place('reads')} {tmp_path} {FILES}"
    rows = rows_of(tracer("io", "--json", "--opened", "--backend", "bcc", "-c", command).text)
    assert [rows[str(tmp_path / str(number))]["read_bytes"] for number in range(FILES)] == list(range(1, FILES + 1))
    refused = tracer("io", "--opened", "--backend", "ftrace", "-c", command)
    assert refused.status != 0 and "str() is not available with ftrace" in refused.said


def test_the_table_of_a_running_process(backend: str) -> None:
    """A file that is open before the trace has its name; --by, --top, --filter, --slower and -i work."""
    opens = "import time\nfile = open('/dev/zero', 'rb', 0)\nprint(flush=True)\n"
    script = f"{opens}while 1: file.read(100); time.sleep(.01)"
    with subprocess.Popen(["python3", "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"\n"
            words = ("io", "-q", "--backend", backend, "-p", str(process.pid), "--by", "comm", "-i", "400ms", "-n", "2")
            done = tracer(*words, "--top", "1", "--filter", "duration < 1s", "--slower", "1ns")
        finally:
            process.kill()
    lines = [re.split(r"  +", line.strip()) for line in done.text.splitlines()]
    heads = [line for line in lines if line[0] == "reads"]
    assert heads == [["reads", "bytes", "writes", "bytes", "p50", "p99", "max", "file"]] * 2
    rows = [line for line in lines if len(line) > 1 and line[-1].endswith("/dev/zero")]
    assert [row[-1] for row in rows] == ["python3, /dev/zero"] * 2
    # Through BCC the maps are read one after the other, while the process goes on.
    assert all(abs(int(row[1]) // 100 - int(row[0])) <= 1 and int(row[1]) % 100 == 0 for row in rows)
