"""A sample of the errors that `scripts/attack/faults` injects: whatever fails, tracer ends, says why, leaves nothing.

TRACER_FAULT_SEED takes another sample than the usual one; every run prints its own. A fault that is found once and not
a second time is printed, and no failure: on a machine with other work a run may take too long.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from scripts.attack.faults import Fault, Sweep, every, spread
from scripts.attack.trial import CONFIGS
from tests.harness.cli import PATIENCE
from tests.harness.kernel import nothing_left

# Whether a breakpoint stays each run sees from the bytes; the kernel's log has the first try, too.
pytestmark = [pytest.mark.live, pytest.mark.leaks("uprobe-undo")]

RUNS = 80
SEED = 25
SECONDS = 150.0


@pytest.mark.timeout(600)
def test_whichever_call_fails_tracer_ends_and_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("TRACER_FAULT_SEED") or SEED)
    print(f"TRACER_FAULT_SEED={seed}")
    end = time.monotonic() + SECONDS * PATIENCE
    with nothing_left():
        sweep = Sweep(tmp_path, 2)
        # Not all, since each is run undisturbed first.
        counts = sweep.undisturbed(random.Random(seed).sample(CONFIGS, len(CONFIGS) // 2))
        found = list(sweep.run(spread(every(counts, 1), RUNS, seed), end))
        once = [run for run in found if run["wrongs"]]
        again = list(sweep.run([Fault.of(run["fault"]) for run in once]))
    print(f"{len(found)} runs; found at first: {[(run['fault'], run['wrongs']) for run in once]}")
    found = [*(run for run in found if run not in once), *again]
    wrong = [f"{run['fault']}: {kind}: {words}" for run in found for kind, words in run["wrongs"]]
    remedy = f"each: scripts/attack/faults --repeat 'FAULT'; all: TRACER_FAULT_SEED={seed}"
    assert not wrong, "\n".join([remedy, *wrong])
    assert sum(run["hit"] is not None for run in found) >= RUNS // 2
