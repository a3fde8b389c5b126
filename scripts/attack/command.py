"""The command that the attacks without injected errors share: the options, the benches, the table of what was found."""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from queue import SimpleQueue

from scripts.attack.trial import Bench
from scripts.attack.verdict import Seen
from tests.harness.cli import ROOT
from tests.harness.kernel import left_since, traces

_TRIES = 5
_HELD_UP = "once every probe that runs has ended: ", "dyn_event_seq_start"
"""What tells that another's probe waits for a page, and all removal on the machine for it: the run is done again."""


@dataclass(frozen=True)
class Trial:
    """A run of an attack: its name, and what does and judges it on a bench."""

    name: str
    run: Callable[[Bench], Seen]


def command(doc: str, make: Callable[[random.Random, int], Sequence[Trial]], runs: int, target: str = "steady") -> int:
    """The command line of an attack; `make` gives the trials by a seed, about as many as asked for; `runs` is usual."""
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(
        prog=name, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=runs, help=f"how many runs (default {runs})")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--jobs", type=int, default=2, help="how many at once (default 2)")
    parser.add_argument("--only", default="", help="trials whose name has this in it")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    options = parser.parse_args()
    trials = [trial for trial in make(random.Random(options.seed), options.runs) if options.only in trial.name]
    print(f"{name}: {len(trials)} runs, seed {options.seed}", file=sys.stderr)
    before, start = traces(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tracer-attack-") as folder:
        os.chmod(folder, 0o755)
        results = run(trials, [Bench(Path(folder) / str(job), target) for job in range(options.jobs)])
    lasting = left_since(before)
    figures = summary(name, results, time.monotonic() - start)
    table = f"{figures}\n| left in the kernel after all | {lasting or 'nothing'} |"
    print(table)
    if options.write:
        write(name, table)
    return bool(lasting or any(seen.wrongs for _, seen in results))


def write(name: str, table: str, page_name: str = "reliability") -> None:
    """Puts a table into a page of docs/, between the marks of its attack."""
    page = ROOT / "docs" / f"{page_name}.md"
    place = re.compile(rf"(?<=<!-- attack {name} -->\n).*?(?=<!-- end -->)", re.S)
    # Once: behind an empty match another one would begin, which reaches to the next attack's end.
    page.write_text(place.sub(lambda _: table + "\n", page.read_text(), count=1))


def run(trials: Sequence[Trial], benches: Sequence[Bench]) -> list[tuple[str, Seen]]:
    """Does them, so many at once as there are benches; says each fault as it is found."""
    free: SimpleQueue[Bench] = SimpleQueue()
    for bench in benches:
        free.put(bench)

    def one(trial: Trial) -> tuple[str, Seen]:
        bench = free.get()
        try:
            for _ in range(_TRIES):
                try:
                    seen = trial.run(bench)
                except Exception as error:
                    seen = Seen()
                    seen.wrong("the attack itself failed", repr(error))
                if not any(sign in words for _, words in seen.wrongs for sign in _HELD_UP):
                    break
                bench.renew()
            for kind, words in seen.wrongs:
                print(f"{trial.name}: {kind}: {words[:600]!r}", file=sys.stderr)
            if seen.wrongs:
                bench.renew()
            return trial.name, seen
        finally:
            free.put(bench)

    with ThreadPool(len(benches)) as pool:
        return pool.map(one, trials, 1)


def summary(name: str, results: Sequence[tuple[str, Seen]], seconds: float) -> str:
    """A table for the docs."""
    wrong = [seen for _, seen in results if seen.wrongs]
    kinds = Counter(kind for seen in wrong for kind in {kind for kind, _ in seen.wrongs})
    ends = Counter("status 0" if seen.status == 0 else "an error" if seen.status else "?" for _, seen in results)
    killed = sum((seen.status or 0) < 0 for _, seen in results)
    lines = [
        f"| {name} | |",
        "| --- | --- |",
        f"| runs | {len(results)}, in {seconds:.0f} s |",
        f"| ended with status 0, with an error, killed | {ends['status 0']}, {ends['an error'] - killed}, {killed} |",
        f"| longest time to the end | {max((seen.seconds for _, seen in results), default=0):.1f} s |",
        f"| runs that found a fault | {len(wrong)} |",
        *(f"| of them {kind} | {number} |" for kind, number in kinds.most_common()),
    ]
    return "\n".join(lines)
