"""scripts/attack/kills: SIGKILL at random moments, as the kernel's OOM killer sends it.

To tracer, to the process that attaches and removes, or to all but that; and by the OOM killer itself, in a control
group whose memory ends at a random moment.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from scripts.attack.command import Trial, command
from scripts.attack.limits import MIB, group, inside
from scripts.attack.trial import CONFIGS, Bench, Config
from scripts.attack.verdict import Seen, judge
from tests.harness.cli import TRACER, environment
from tests.harness.kernel import uprobe_events

UNDO = "uprobe-undo"
"""The process that attaches and removes. Not killed together with tracer: what then stays the next start removes."""
_LEFT = "a definition left"
_MAY_PROTECT = 1 << 24
"""CAP_SYS_RESOURCE of linux/capability.h."""


def _victims(process: psutil.Process, who: str, target: Path) -> list[psutil.Process]:
    """The processes of a run to kill, never the target."""
    ours = []
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            if child.exe() != str(target):
                ours.append(child)
    if who == "tracer":
        return ours[:1]
    with suppress(psutil.Error):
        if who == "undo":
            return [child for child in ours if child.name() == UNDO]
        if who == "all but undo":
            return [child for child in ours if child.name() != UNDO]
    return []


@dataclass(frozen=True)
class Moment:
    """A moment: so many seconds after the start, or after all is attached."""

    attached: bool
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s after {'attaching' if self.attached else 'the start'}"

    def wait(self, bench: Bench, process: psutil.Process) -> None:
        """Until it comes."""
        while self.attached and process.is_running() and b"Attached" not in (bench.folder / "err").read_bytes():
            if process.status() == psutil.STATUS_ZOMBIE:
                break
            time.sleep(0.002)
        time.sleep(self.seconds)


def _kill(config: Config, who: str, moment: Moment) -> Trial:
    def run(bench: Bench) -> Seen:
        def kill(process: psutil.Process) -> None:
            moment.wait(bench, process)
            with suppress(psutil.Error):
                for victim in _victims(process, who, bench.target):
                    victim.kill()

        seen = bench.run(config, meanwhile=kill)
        judge(seen, bench.undisturbed(config), kills=True)
        return seen

    return Trial(f"{config} kill {who} {moment}", run)


def _oom(config: Config, moment: Moment) -> Trial:
    def run(bench: Bench) -> Seen:
        with group("memory", 1 << 40) as home:
            names = ("memory.limit_in_bytes", "memory.max")
            (limit,) = [home / name for name in names if (home / name).exists()]

            def starve(process: psutil.Process) -> None:
                moment.wait(bench, process)
                # The first version of the interface refuses a limit below what is in use: it is lowered step by step.
                for size in range(64, 1, -2):
                    with suppress(OSError):
                        limit.write_text(str(size * MIB))

            seen = bench.run(config, inside(home), meanwhile=starve)
        if not _protects() and any(kind == _LEFT for kind, _ in seen.wrongs):
            # The killer may have taken both: then it has to be gone after the next start.
            subprocess.run([*TRACER, "cleanup"], env=environment(), capture_output=True, check=True)
            if not any(str(bench.target) in line for line in uprobe_events()):
                seen.wrongs = [wrong for wrong in seen.wrongs if wrong[0] != _LEFT]
        judge(seen, bench.undisturbed(config), kills=True)
        return seen

    return Trial(f"{config} out of memory {moment}", run)


def _protects() -> bool:
    """Whether tracer may keep the OOM killer from that process, which containers often forbid."""
    effective = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.M)
    return effective is not None and bool(int(effective[1], 16) & _MAY_PROTECT)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Moments of starting and attaching, and of running, detaching and showing."""
    chosen = []
    for number in range(runs):
        config = chance.choice(CONFIGS)
        moment = Moment(True, chance.uniform(0, 0.1)) if number // 6 % 2 else Moment(False, chance.uniform(0, 0.6))
        who = ("oom", "tracer", "oom", "all but undo", "oom", "undo")[number % 6]
        chosen.append(_oom(config, moment) if who == "oom" else _kill(config, who, moment))
    return chosen


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 132))
