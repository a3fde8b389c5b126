"""scripts/attack/fuzz [--inputs N] [--seed S]: random inputs, by the tests that know how to make them.

Random programs, run natively as C, as Python and by a walk over the typed tree (tests/proof); random programs on both
backends (tests/contract); and the tests of hostile files, names, programs and tables, with new examples.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time

from scripts.attack.command import write
from tests.harness.cli import ROOT

HOSTILE = (
    "tests/unit/cli/test_hostile_programs.py", "tests/unit/cli/test_hostile_names.py", "tests/unit/resolve",
    "tests/unit/lang",
)  # fmt: skip


def _pytest(name: str, words: tuple[str, ...], variables: dict[str, str]) -> tuple[str, bool]:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True,
    )  # fmt: skip
    told = re.findall(r"^(\d+ (?:passed|failed).*) in .*$", done.stdout, re.M) or ["no end"]
    if done.returncode:
        print(done.stdout[-5000:], file=sys.stderr)
    row = f"| {name} | {told[-1]}, in {time.monotonic() - start:.0f} s |"
    print(row, flush=True)
    return row, done.returncode == 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=150_000, help="random programs of tests/proof (default 150000)")
    parser.add_argument("--live", type=int, default=300, help="random programs on both backends (default 300)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    options = parser.parse_args()
    print(f"fuzz: seed {options.seed}", file=sys.stderr)
    seed = str(options.seed)
    done = [
        _pytest(
            f"{options.inputs} random programs: C, Python and a walk agree",
            ("tests/proof/test_same.py::test_c_and_python_say_the_same",),
            {"TRACER_PROOF": str(options.inputs), "TRACER_PROOF_SEED": seed, "TRACER_TEST_PATIENCE": "100"},
        ),
        _pytest(
            f"{options.live} random programs: both backends agree with the walk",
            ("tests/contract/test_fuzz.py", "-m", "live"),
            {"TRACER_FUZZ": str(options.live), "TRACER_FUZZ_SEED": seed},
        ),
        _pytest("hostile files, names, programs, tables", (*HOSTILE, "-m", "not live"), {"CI": ""}),
    ]
    if options.write:
        write("fuzz", "\n".join(["| fuzz | |", "| --- | --- |", *(row for row, _ in done)]))
    return not all(good for _, good in done)


if __name__ == "__main__":
    sys.exit(main())
