"""scripts/attack/swaps: the file of the target is replaced, emptied or removed while tracer looks at it and attaches.

A replacement is another program (`hot`), a file of zeros or of noise, a half of the file, a folder, a FIFO, a link that
leads to itself. Programs that run the old file, and those that are started later, must stay as they are.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from scripts.attack.command import Trial, command
from scripts.attack.trial import CONFIGS, Bench, Config
from scripts.attack.verdict import Seen, judge
from tests.targets.build import build


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _another(path: Path) -> None:
    shutil.copy(build("hot"), path)


WAYS: dict[str, Callable[[Path, bytes], object]] = {
    "another program": lambda path, old: _another(path),
    "the same bytes": lambda path, old: path.write_bytes(old),
    "zeros": lambda path, old: path.write_bytes(bytes(len(old))),
    "noise": lambda path, old: path.write_bytes(old[:64] + os.urandom(len(old) - 64)),
    "a half": lambda path, old: path.write_bytes(old[: len(old) // 2]),
    "nothing": lambda path, old: None,
    "a folder": lambda path, old: path.mkdir(),
    "a FIFO": lambda path, old: os.mkfifo(path),
    "a link to itself": lambda path, old: _loop(path),
}
"""How to make what takes the file's place, given where and what was there."""


def _swap(config: Config, way: str, after: float) -> Trial:
    def run(bench: Bench) -> Seen:
        old = bench.target.read_bytes()
        kept, other = bench.target.with_name("kept"), bench.target.with_name("made")

        def swap(process: psutil.Process) -> None:
            time.sleep(after)
            WAYS[way](other, old)
            os.rename(bench.target, kept)
            with suppress(FileNotFoundError):
                os.chmod(other, 0o755) if not other.is_symlink() else None
                os.rename(other, bench.target)
            time.sleep(0.5)
            if bench.target.is_dir() and not bench.target.is_symlink():
                bench.target.rmdir()
            os.rename(kept, bench.target)

        seen = bench.run(config, meanwhile=swap)
        judge(seen, None)
        return seen

    return Trial(f"{way} after {after:.2f} s: {config}", run)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Moments over a whole start."""
    ways = list(WAYS)
    return [_swap(chance.choice(CONFIGS), ways[number % len(ways)], chance.uniform(0, 0.4)) for number in range(runs)]


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 90))
