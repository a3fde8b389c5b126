"""scripts/attack/crowd: 24 tracers at once, of one program, that begin and end at random moments; a third is killed.

Each that is not killed must have counted every hit that came while all were attached.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from scripts.attack.command import Trial, command
from scripts.attack.trial import ANSWER, SHAPES, Bench, altered_in
from scripts.attack.verdict import Seen, judge
from tests.harness.cli import Running, read_line, target, tell, tracing

TRACERS = 24
HITS = {"counter": "@: 100", "uretprobe": "@[2]: 28\n@[0]: 36\n@[1]: 36"}


def _crowd(chance: random.Random) -> Trial:
    orders = [(chance.choice(("bcc", "ftrace")), chance.choice(list(HITS)), chance.random()) for _ in range(TRACERS)]

    def run(bench: Bench) -> Seen:
        whole = Seen(status=0)
        with target(bench.target) as traced, ExitStack() as stack:
            assert read_line(traced) == "ready"
            running: list[tuple[str, Running]] = []
            for backend, shape, _ in orders:
                folder = Path(tempfile.mkdtemp(dir=bench.folder))
                words = ("--backend", backend, "-p", str(traced.pid), "-e", SHAPES[shape].format(bench.target))
                running.append((shape, stack.enter_context(tracing(folder, *words, ready=None))))
            for _, tracer in running:
                tracer.wait_for("Attached")
            start = time.monotonic()
            tell(traced)
            if read_line(traced) != ANSWER:
                whole.wrong("the target's answer")
            for (_, tracer), (_, _, fate) in zip(running, orders, strict=True):
                time.sleep(fate / 50)
                tracer.signal(signal.SIGKILL if fate < 1 / 3 else signal.SIGINT)
            for (shape, tracer), (backend, _, fate) in zip(running, orders, strict=True):
                done = tracer.wait(30)
                seen = Seen(done.status, done.text.strip(), done.err)
                judge(seen, HITS[shape], kills=fate < 1 / 3)
                if fate >= 1 / 3 and seen.out != HITS[shape]:
                    seen.wrong("another count", seen.out)
                whole.wrongs += [(kind, f"{backend} {shape}: {words}") for kind, words in seen.wrongs]
            whole.seconds = time.monotonic() - start
            end = time.monotonic() + 10
            while (altered := altered_in(bench.target, traced.pid)) and time.monotonic() < end:
                time.sleep(0.05)
            if altered:
                whole.wrong("a breakpoint left", altered)
            assert traced.stdin is not None
            traced.stdin.close()
            if (said := read_line(traced)) != "semaphore 0":
                whole.wrong("a semaphore left", said)
        return whole

    return Trial("24 tracers", run)


def trials(chance: random.Random, runs: int) -> list[Trial]:
    """Trials with so many crowds; with --jobs 1 one after the other."""
    return [_crowd(chance) for _ in range(runs)]


if __name__ == "__main__":
    sys.exit(command(__doc__, trials, 5))
