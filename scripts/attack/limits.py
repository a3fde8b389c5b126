"""scripts/attack/limits: runs that want for something: descriptors, memory, processes, processor time, room for files.

Resource limits (prlimit), and control groups of either version for memory, processes and processor time.
"""

from __future__ import annotations

import os
import random
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from scripts.attack.command import Trial, command
from scripts.attack.trial import CONFIGS, LIMIT_S, Bench, Config
from scripts.attack.verdict import Seen, judge
from tests.harness.cli import until

MIB = 1 << 20

RLIMITS: dict[str, Sequence[int]] = {
    "nofile": (3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64),
    "as": tuple(n * MIB for n in (15, 40, 80, 120, 160, 200, 240, 320, 400)),
    "data": tuple(n * MIB for n in (4, 16, 40, 80, 160)),
    "stack": (16384, 65536, 131072, 262144, MIB),
    "fsize": (0, 1, 4096, 65536),
    "memlock": (0, 4096, 65536),
    "cpu": (1,),
    "nproc": (1, 2, 4),
    "sigpending": (0, 1),
    "core": (0,),
}
GROUPS: dict[str, Sequence[int]] = {
    "pids": (1, 2, 3, 4, 5, 6, 8, 12),
    "memory": tuple(n * MIB for n in (6, 10, 16, 24, 32, 48, 64, 96)),
    "cpu": (1, 3, 10, 30),  # percent of a processor
}

_number = count()


def _files(kind: str, amount: int, old: bool) -> dict[str, str]:
    """The files of a control group, of the first version of the interface or the second, and what to write there."""
    period = 100_000
    quota = max(period * amount // 100, 1000)
    if kind == "pids":
        return {"pids.max": str(amount)}
    if kind == "memory":
        return {"memory.limit_in_bytes" if old else "memory.max": str(amount)}
    return {"cpu.cfs_quota_us": str(quota)} if old else {"cpu.max": f"{quota} {period}"}


@contextmanager
def group(kind: str, amount: int) -> Iterator[Path]:
    """A control group of its own with a limit."""
    root = Path("/sys/fs/cgroup")
    old = (root / kind).is_dir()
    home = (root / kind if old else root) / f"tracer-attack-{os.getpid()}-{next(_number)}"
    if not old:
        with suppress(OSError):
            (root / "cgroup.subtree_control").write_text(f"+{kind}")
    home.mkdir()
    try:
        for name, text in _files(kind, amount, old).items():
            (home / name).write_text(text)
        yield home
    finally:
        until(lambda: _removed(home), 10)


def _removed(home: Path) -> bool:
    """Whether it could be: who was killed in it is in it until the kernel is done with the process."""
    with suppress(OSError):
        home.rmdir()
    return not home.exists()


def inside(home: Path) -> tuple[str, ...]:
    """The prefix of a command that runs in a control group."""
    return ("/bin/sh", "-c", f'echo $$ > {shlex.quote(str(home / "cgroup.procs"))}; exec "$@"', "sh")


def _limited(config: Config, kind: str, amount: int) -> Trial:
    def run(bench: Bench) -> Seen:
        seen = bench.run(config, ("prlimit", f"--{kind}={amount}", "--"))
        if kind != "fsize":  # which cuts off what is printed and said here
            judge(seen, bench.undisturbed(config), kills=kind == "cpu")
        return seen

    return Trial(f"{config} prlimit {kind} {amount}", run)


def _grouped(config: Config, kind: str, amount: int) -> Trial:
    def run(bench: Bench) -> Seen:
        with group(kind, amount) as home:
            # Who has a hundredth of a processor takes a hundred times as long.
            slow = max(1, 60 // amount) if kind == "cpu" else 1
            seen = bench.run(config, inside(home), limit_s=LIMIT_S * slow)
        judge(seen, bench.undisturbed(config), kills=kind == "memory")
        return seen

    return Trial(f"{config} group {kind} {amount}", run)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Trials of each limit with as many configurations as there are runs for it."""
    kinds = [(_limited, kind, amount) for kind, amounts in RLIMITS.items() for amount in amounts]
    kinds += [(_grouped, kind, amount) for kind, amounts in GROUPS.items() for amount in amounts]
    chosen: list[Trial] = []
    while len(chosen) < runs:
        chosen += [make(chance.choice(CONFIGS), kind, amount) for make, kind, amount in kinds]
    return chosen[:runs]


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 270))
