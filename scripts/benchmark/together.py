"""The memory of a contestant: of its largest process, and of all its processes at one time."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from scripts.benchmark.children import Ran, child

_EVERY_S = 0.005
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)

# Starts what follows a file's name, and writes into that file what its largest process held, in KiB. The kernel counts
# for a process what the one that started it held at that time: so that one must be small, which we are not.
_START = """
import os, sys
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
status, usage = os.wait4(pid, 0)[1:]
open(sys.argv[1], "w").write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""


def run_and_weigh(command: Sequence[str], timeout_s: float, environment: Mapping[str, str]) -> tuple[Ran, int, int]:
    """Runs a program to its end; the most that one process of it and its children held, and all together, in KiB.

    One is its resident pages; together, what several processes share is counted once.
    """
    with NamedTemporaryFile("r") as largest:
        start = [sys.executable, "-I", "-S", "-c", _START, largest.name]
        with child([*start, *command], environment) as running:
            together = Together(running.process.pid)
            together.start()
            ran = running.wait(timeout_s)
            peak_kb = together.end()
        return ran, int(largest.read() or 0), peak_kb


class Together(threading.Thread):
    """Looks at all descendants of a process until told to end; `peak_kb` is the most that it saw, in KiB.

    A process that lives between two looks is not seen.
    """

    def __init__(self, leader: int) -> None:
        super().__init__(daemon=True)
        self._leader = leader
        self._over = threading.Event()
        self.peak_kb = 0

    def run(self) -> None:
        """Until `end`."""
        while not self._over.wait(_EVERY_S):
            self.peak_kb = max(self.peak_kb, sum(map(_share, _tree(self._leader)[1:])))

    def end(self) -> int:
        """The peak."""
        self._over.set()
        self.join()
        return self.peak_kb


def _tree(leader: int) -> list[int]:
    tree, new = [], [leader]
    while new:
        pid = new.pop()
        tree.append(pid)
        for task in _tasks(pid):
            with suppress(OSError):
                new += map(int, (task / "children").read_text().split())
    return tree


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _share(pid: int) -> int:
    """The share of a process in the pages it holds (PSS); 0 where it is gone."""
    try:
        match = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return 0
    return int(match[1]) if match else 0
