"""What a program hands to a system call on a page that is not in memory: counted at the entry, read at the return."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.harness.cli import tracer

COUNT = 10_000
ENTRY = 'tracepoint:syscalls:sys_enter_openat { printf("%s\\n", str(args.filename)); }'
BYTES = 'tracepoint:syscalls:sys_enter_openat { printf("%r\\n", buf(args.filename, 9)); }'


def test_a_name_is_told_or_counted_and_the_return_has_all(place: Callable[[str], Path], tmp_path: Path) -> None:
    command = f"{place('cold')} {tmp_path / 'names'} {COUNT}"
    names = [f"/nowhere/{number}" for number in range(COUNT)]
    done = tracer("--backend", "bcc", "-e", ENTRY, "-c", command)
    shown = done.text.split("\n")
    told = re.search(r"tracer: (\d+) hits? left out: .*; by the return the kernel has read it: (.*)\n", done.said)
    opened = [name for name in shown if name.startswith("/nowhere")]
    if told is None:  # Linux 7.2: programs at the entry of a system call can wait for the page
        assert opened == names
        return
    # Every other page was given back; of those few may come with a neighbour.
    assert opened[0] == names[0] and set(names[::2]) <= set(opened) <= set(names)
    assert "" not in shown[: shown.index(names[-2])]
    others = 4  # of the loader: libc.so.6, ld.so.cache
    assert COUNT <= len(opened) + int(told[1]) <= COUNT + others
    done = tracer("-q", "--backend", "bcc", "-e", told[2], "-c", command)
    assert [name for name in done.text.split("\n") if name.startswith("/nowhere")] == names
    assert done.said == ""


def test_bytes_and_arguments_of_a_new_program(place: Callable[[str], Path], tmp_path: Path) -> None:
    command = f"{place('cold')} {tmp_path / 'names'} 100"
    done = tracer("--backend", "bcc", "-e", BYTES, "-c", command)
    told = re.search(r"tracer: (\d+) hits? left out", done.said)
    shown = done.text.split("\n").count("/nowhere/")
    assert shown >= 50 and 100 <= shown + (int(told[1]) if told is not None else 0) <= 104
    run = "sh -c '/bin/true one two; /bin/echo three >/dev/null'"
    joined = "tracepoint:syscalls:sys_enter_execve { join(args.argv); }"
    done = tracer("-q", "--backend", "bcc", "--follow", "-e", joined, "-c", run)
    lines = [line for line in done.text.splitlines() if line]
    assert lines[-2:] == ["/bin/true one two", "/bin/echo three"] and done.said == ""
