"""scripts/attack/kills: SIGKILL at random moments, as the kernel's OOM killer sends it.

To tracer, to the process that attaches and removes, or to all but that; and by the OOM killer itself, in a control
group whose memory ends at a random moment.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from scripts.attack.command import Trial, command
from scripts.attack.limits import MIB, group, inside
from scripts.attack.trial import CONFIGS, Bench, Config
from scripts.attack.verdict import Seen, judge

UNDO = "uprobe-undo"
"""The process that attaches and removes. Not killed together with tracer: what then stays the next start removes."""


def _victims(process: psutil.Process, who: str, target: Path) -> list[psutil.Process]:
    """The processes of a run to kill, never the target."""
    ours = []
    for each in process.children(recursive=True):
        with suppress(psutil.Error):
            if each.exe() != str(target):
                ours.append(each)
    if who == "tracer":
        return ours[:1]
    with suppress(psutil.Error):
        if who == "undo":
            return [each for each in ours if each.name() == UNDO]
        if who == "all but undo":
            return [each for each in ours if each.name() != UNDO]
    return []


def _kill(config: Config, who: str, after: float) -> Trial:
    def run(bench: Bench) -> Seen:
        def kill(process: psutil.Process) -> None:
            time.sleep(after)
            with suppress(psutil.Error):
                for victim in _victims(process, who, bench.target):
                    victim.kill()

        seen = bench.run(config, meanwhile=kill)
        judge(seen, bench.undisturbed(config), kills=True)
        return seen

    return Trial(f"{config} kill {who} after {after:.3f} s", run)


def _oom(config: Config, after: float) -> Trial:
    def run(bench: Bench) -> Seen:
        with group("memory", 1 << 40) as home:
            names = ("memory.limit_in_bytes", "memory.max")
            (limit,) = [home / name for name in names if (home / name).exists()]

            def starve(process: psutil.Process) -> None:
                time.sleep(after)
                # The first version of the interface refuses a limit below what is in use: it is lowered step by step.
                for size in range(64, 1, -2):
                    with suppress(OSError):
                        limit.write_text(str(size * MIB))

            seen = bench.run(config, inside(home), meanwhile=starve)
        judge(seen, bench.undisturbed(config), kills=True)
        return seen

    return Trial(f"{config} out of memory after {after:.3f} s", run)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Moments from the start to a little after the usual end."""
    made = []
    for number in range(runs):
        config, after = chance.choice(CONFIGS), chance.uniform(0, 0.6)
        who = ("oom", "tracer", "oom", "all but undo", "oom", "undo")[number % 6]
        made.append(_oom(config, after) if who == "oom" else _kill(config, who, after))
    return made


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 132))
