"""scripts/attack/hostile: programs that do what a traced program should not do: tests/targets/hostile.c has the list.

Each with both backends, with -c and -p, and a program of any shape.
"""

from __future__ import annotations

import random
import re
import sys

from scripts.attack.command import Trial, command
from scripts.attack.trial import SHAPES, Bench, Config
from scripts.attack.verdict import Seen, judge
from tests.targets.build import HERE

WAYS = sorted(set(re.findall(r'IS\("([^"]+)"\)', (HERE / "hostile.c").read_text())))
"""What the program can do."""


def _hostile(config: Config, way: str) -> Trial:
    def run(bench: Bench) -> Seen:
        seen = bench.run(config, words=(way.replace(" ", "_"),))
        bench.renew()  # it may have removed its own file
        judge(seen, None)
        return seen

    return Trial(f"{way}: {config}", run)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Trials of each way on each backend, with -c and -p, with other shapes each time."""
    chosen: list[Trial] = []
    while len(chosen) < runs:
        for way in WAYS:
            for mode in ("-c", "-p"):
                shape = chance.choice(("counter", "printf") if "semaphore" in way else list(SHAPES))
                chosen += [_hostile(Config(backend, shape, mode, "warm"), way) for backend in ("bcc", "ftrace")]
    return chosen[:runs]


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 4 * len(WAYS), "hostile"))
