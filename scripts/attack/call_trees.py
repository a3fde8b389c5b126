"""scripts/attack/call_trees [--trees N] [--seed S] [--write]: random trees of calls, traced by `call:` on each backend.

Those of C++ recurse, throw, jump by longjmp(), take signals on a stack of their own, and run fibers, in three threads.
Those of Go panic and recover, call in deferred functions, wait for other goroutines, and grow and shrink their stacks.
Each call that returned must be there once, with its own result, and so many must be left out as never returned. What it
took must lie between the program's clock inside the call and that around it, and its self_time must be what the calls
inside it leave of that. With BPFTRACE=path its idiom times trees of the same sort, each in a program of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from scripts.attack.command import write
from tests.harness.call_trees import Trees, by_idiom, compared
from tests.targets.build import build, build_go

_AT_ONCE = 100

_OF_IDIOM = (
    "bpftrace's idiom (`@start[tid] = nsecs` at the entry, the difference at the return) on trees of this sort, each in"
    " a program of its own.\nIts return probes end each program that throws or jumps over one. Of recursion alone it"
    " times the calls that have no other inside:"
)


def _row(backend: str, language: str, runs: list[Trees], trees: int, seconds: float) -> str:
    more = sorted(ns for run in runs for ns in run.more_ns)
    longer = f"{more[len(more) // 2] / 1000:.1f}, {more[len(more) * 99 // 100] / 1000:.1f} us" if more else "none"
    columns = ((run.returned, run.abandoned, len(run.wrong)) for run in runs)
    counts = [sum(column) for column in zip(*columns, strict=True)]
    beyond = f"{sum(run.beyond for run in runs) / max(len(more), 1):.1%}"
    numbers = " | ".join(f"{count:,}" for count in counts)
    return f"| {backend} | {language} | {trees:,} | {numbers} | {longer} | {beyond} | {seconds:.0f} |"


def _idiom(bpftrace: str, path: Path, seed: int, trees: int) -> list[str]:
    """The table of bpftrace's idiom."""
    rows = [
        "| trees | programs | ended by the probes | calls of the others that returned | timed | of these wrong |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for plain, what in ((False, "the same"), (True, "with recursion alone")):
        runs = [by_idiom(bpftrace, path, seed + number, plain) for number in range(trees)]
        whole = [run for run in runs if not run.ended]
        returned, timed, wrong = (sum(run[column] for run in whole) for column in range(3))
        rows.append(f"| {what} | {trees} | {len(runs) - len(whole)} | {returned:,} | {timed:,} | {wrong:,} |")
    return rows


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="call_trees", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=int, default=2000, help="of each language on each backend (default 2000)")
    parser.add_argument("--idiom", type=int, default=100, help="by bpftrace's idiom (default 100)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    options = parser.parse_args()
    print(f"call_trees: seed {options.seed}", file=sys.stderr)
    path, wrong = build("call-trees"), 0
    programs = {"C++": path} | ({"Go": build_go("call_trees")} if shutil.which("go") else {})
    rows = [
        "| backend | language | trees | returned | left out | wrong | longer than by the clock inside: median, 99% | by"
        " more than twice the probes | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for backend, language in product(("bcc", "ftrace"), programs):
            start, runs = time.monotonic(), list[Trees]()
            for first in range(0, options.trees, _AT_ONCE):
                count = min(_AT_ONCE, options.trees - first)
                seed, go = options.seed + first, language == "Go"
                runs.append(compared(programs[language], backend, seed, count, Path(folder) / "said", go))
                for line in runs[-1].wrong:
                    print(f"{backend}, {language}, seed {seed}: {line}", file=sys.stderr)
                wrong += len(runs[-1].wrong)
            rows.append(_row(backend, language, runs, options.trees, time.monotonic() - start))
            print(rows[-1], flush=True)
    if bpftrace := os.environ.get("BPFTRACE"):
        rows += ["", _OF_IDIOM, "", *_idiom(bpftrace, path, options.seed, options.idiom)]
        print("\n".join(rows[-4:]), flush=True)
    if options.write:
        write("call_trees", "\n".join(rows))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
