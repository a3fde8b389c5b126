"""scripts/attack/faults [--runs N] [--seed S] [--only TEXT] [--jobs N] [--out FOLDER] [--again]: injected errors.

Each run lets one call of one system call of tracer and its processes fail, and looks at what is left and what was said.
Programs of nine shapes, both backends, -c and -p, with and without what an earlier run kept; every call that is made
there, every error that its manual page names, and places over the whole run: 10,000 and more without options, two to
four hours. What FOLDER/found.jsonl holds is not done again, but for runs that found something, with --again. A summary
as Markdown goes to stdout at the end. `--repeat 'CONFIG CALL ERROR N'` does one run and shows it. Where others use the
machine, TRACER_TEST_PATIENCE=3 gives everything three times its time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from scripts.attack.calls import ERRORS, number_of, numbers
from scripts.attack.command import write
from scripts.attack.trial import CONFIGS, SHAPES, Bench, Config
from scripts.attack.verdict import WORDLESS, judge
from tests.harness.kernel import left_since, traces

Counts = dict[str, dict[str, int]]
"""For each configuration how often each system call is made."""


@dataclass(frozen=True)
class Fault:
    """The `nth` call of a system call fails with an error, and all after it where that is `lasting`."""

    config: Config
    call: str
    error: str
    nth: int
    lasting: bool = False

    def __str__(self) -> str:
        return f"{self.config} {self.call} {self.error} {self.nth}{'+' * self.lasting}"

    @staticmethod
    def of(text: str) -> Fault:
        """The fault that `str` writes so."""
        backend, shape, mode, cache, call, error, nth = text.split()
        return Fault(Config(backend, shape, mode, cache), call, error, int(nth.rstrip("+")), nth.endswith("+"))


class Sweep:
    """Runs faults on benches, a thread for each."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._benches: SimpleQueue[Bench] = SimpleQueue()
        self.jobs = jobs
        for number in range(jobs):
            self._benches.put(Bench(folder / f"bench-{number}"))
        self.expected: dict[Config, str] = {}

    def undisturbed(self, configs: Iterable[Config]) -> Counts:
        """Runs each configuration as it is: what it prints, and how often it makes each call."""
        calls = {number: name for name, number in numbers().items()}

        def count(config: Config) -> dict[str, int]:
            with self._bench() as bench:
                for _ in range(2 if config.cache == "warm" else 1):  # the first fills the cache
                    seen = bench.run(config, inject=(-1, 0, 0))
            judge(seen, seen.out)
            if seen.status != 0 or seen.wrongs or not seen.out:
                raise AssertionError(f"undisturbed, {config}: {seen}")
            self.expected[config] = seen.out
            return {calls[int(number)]: count_of for number, count_of in seen.counts.items()}

        with ThreadPool(self.jobs) as pool:
            configs = list(configs)
            counts = pool.map(count, configs, 1)
        for shape in SHAPES:
            printed = {out for config, out in self.expected.items() if config.shape == shape}
            if len(printed) > 1:
                raise AssertionError(f"undisturbed runs of {shape} differ: {printed}")
        return {str(config): calls for config, calls in zip(configs, counts, strict=True)}

    def run(self, faults: Iterable[Fault], until: float = math.inf) -> Iterator[dict[str, Any]]:
        """Does these runs, none that would begin after a moment of time.monotonic(); gives what is written down."""
        with ThreadPool(self.jobs) as pool:
            for row in pool.imap_unordered(lambda fault: time.monotonic() < until and self._one(fault), faults):
                if row:
                    yield row

    def _one(self, fault: Fault) -> dict[str, Any]:
        error, nth = number_of(fault.error), -fault.nth if fault.lasting else fault.nth
        with self._bench() as bench:
            seen = bench.run(fault.config, inject=(numbers()[fault.call], nth, error))
            judge(seen, self.expected[fault.config], error)
            if fault.call in _WRITES:  # it may have been the very words
                seen.wrongs = [wrong for wrong in seen.wrongs if wrong[0] not in WORDLESS]
            if seen.wrongs:
                bench.renew()
        row = {"fault": str(fault), "hit": seen.hit, "status": seen.status, "seconds": round(seen.seconds, 2)}
        return {**row, "wrongs": seen.wrongs, "err": seen.err[:1500]}

    @contextmanager
    def _bench(self) -> Iterator[Bench]:
        bench = self._benches.get()
        try:
            yield bench
        finally:
            self._benches.put(bench)


_LASTING = {"EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EPIPE"}
_WRITES = {"write", "writev", "pwrite64"}  # without which nothing can be undone in tracefs, nor said


def every(counts: Counts, places: int) -> list[Fault]:
    """All faults: each configuration, call and error, at `places` places each, spread over the run; 0: at every one.

    What is wanting may be wanting from then on: such an error comes once, and in another run at all calls that follow.
    """
    faults = []
    for turn, config in enumerate(CONFIGS):
        for call, calls in sorted(counts.get(str(config), {}).items()):
            for number, error in enumerate(ERRORS.get(call, ())):
                lasts = error in _LASTING and call not in _WRITES
                # Where there are more calls than places, each configuration and error takes others of them.
                shift = (turn * 0.6180339887 + number * 0.7548776662) % 1
                chosen = range(1, calls + 1) if 0 in (places, *range(calls, places)) else [
                    1 + int((place + shift) * calls / places) for place in range(places)
                ]  # fmt: skip
                for nth in sorted({min(nth, calls) for nth in chosen}):
                    faults += [Fault(config, call, error, nth, lasting) for lasting in {False, lasts}]
    return faults


def spread(faults: list[Fault], runs: int | None, seed: int) -> list[Fault]:
    """Chooses so many of the faults, or all, in an order by a seed in which every call has its turn before one has its
    second.
    """
    shuffled = random.Random(seed).sample(faults, len(faults))
    seen: Counter[str] = Counter()
    turns = []
    for fault in shuffled:
        turns.append((seen[fault.call], fault))
        seen[fault.call] += 1
    return [fault for _, fault in sorted(turns, key=lambda turn: turn[0])[:runs]]


def summary(results: Iterable[dict[str, Any]]) -> str:
    """A table of what was found, for the docs."""
    rows = list(results)
    hit = [row for row in rows if row["hit"]]
    wrong = [row for row in hit if row["wrongs"]]
    kinds = Counter(kind for row in wrong for kind in {kind for kind, _ in row["wrongs"]})
    parts = [row["fault"].split() for row in hit]
    ended = sorted(row["seconds"] for row in hit)
    unmoved = sum(row["status"] == 0 and row["err"].count("\n") < 2 and not row["wrongs"] for row in hit)
    lines = [
        "| faults | |",
        "| --- | --- |",
        f"| runs in which the call came and failed | {len(hit)} |",
        f"| system calls, errors of them | {len({p[4] for p in parts})}, {len({(p[4], p[5]) for p in parts})} |",
        f"| ended with the right answer and no word | {unmoved} |",
        f"| ended with an error | {sum(row['status'] != 0 for row in hit)} |",
        f"| median and longest time to the end | {ended[len(ended) // 2]} s, {ended[-1]} s |" if ended else "",
        f"| faults found | {len(wrong)} |",
        *(f"| of them {kind} | {number} |" for kind, number in kinds.most_common()),
    ]
    return "\n".join(line for line in lines if line)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, help="so many, spread by the seed, instead of all")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--places", type=int, default=1, help="for each configuration, call and error; 0: every call")
    parser.add_argument("--only", default="", help="faults whose text has this in it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="the folder of what was found; a new one")
    parser.add_argument("--again", action="store_true", help="only what found something before, once more")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    parser.add_argument("--repeat", metavar="FAULT", help="one run, as it stands in what was found")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tracer-attack-") as scratch:
        if options.repeat:
            return _repeat(Path(scratch), Fault.of(options.repeat))
        folder = options.out or Path(tempfile.mkdtemp(prefix="tracer-faults-"))
        folder.mkdir(exist_ok=True)
        return _sweep(Sweep(Path(scratch), options.jobs), folder, options)


def _repeat(scratch: Path, fault: Fault) -> int:
    sweep = Sweep(scratch, 1)
    sweep.undisturbed([fault.config])
    for row in sweep.run([fault]):
        print(json.dumps({**row, "err": None}, indent=1), row["err"], sep="\n")
    return bool(row["wrongs"])


def _sweep(sweep: Sweep, folder: Path, options: argparse.Namespace) -> int:
    notes = folder / "found.jsonl"
    lines = notes.read_text().splitlines() if notes.exists() else []
    done = {row["fault"]: row for row in map(json.loads, lines)}  # the last of a fault counts
    before, start = traces(), time.monotonic()
    if options.again:
        todo = [Fault.of(text) for text, row in done.items() if row["wrongs"] and options.only in text]
        sweep.undisturbed({fault.config for fault in todo})
    else:
        counts, kept = sweep.undisturbed(CONFIGS), folder / "counts.json"
        if kept.exists():  # the next time they are a little different, and so would be the places
            counts = json.loads(kept.read_text())
        kept.write_text(json.dumps(counts))
        faults = [fault for fault in every(counts, options.places) if options.only in str(fault)]
        todo = [fault for fault in spread(faults, options.runs, options.seed) if str(fault) not in done]
    print(f"faults: {len(todo)} runs, seed {options.seed}, in {folder}", file=sys.stderr)
    with notes.open("a") as file:
        for number, row in enumerate(sweep.run(todo), 1):
            done[row["fault"]] = row
            print(json.dumps(row), file=file, flush=True)
            for kind, words in row["wrongs"]:
                print(f"faults: {row['fault']}: {kind}: {words[:200]!r}", file=sys.stderr)
            if number % 500 == 0:
                print(f"faults: {number} of {len(todo)} in {time.monotonic() - start:.0f} s", file=sys.stderr)
    lasting = left_since(before)
    table = f"{summary(done.values())}\n| left in the kernel after all | {lasting or 'nothing'} |"
    print(table)
    if options.write:
        write("faults", table)
    return bool(lasting or any(row["wrongs"] for row in done.values()))


if __name__ == "__main__":
    sys.exit(main())
