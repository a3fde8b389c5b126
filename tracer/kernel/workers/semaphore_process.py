"""The process that raises semaphores, and lowers them when its standard input ends (see `kernel.workers.spawn`).

It alone knows what is up, so there is one way down for every end of the tracer. It reads one line of JSON, the
processes (none: all), the semaphores, and whether only copies are meant; answers with one line when they are up, and
with another when they are down. Each further line asks to balance them first.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress


def main() -> None:
    """Runs from the request to the end of the pipe."""
    from tracer.kernel.workers.semaphores import Counting, Semaphore

    lines = sys.stdin.buffer
    processes, semaphores, copies = json.loads(lines.readline())
    counting = Counting((Semaphore(*words) for words in semaphores), copies=copies)
    try:
        raised = counting.raise_all(processes)
    except OSError as error:
        _say({"error": f"{error.filename or 'its memory'}: {error.strerror}"})
        return
    _say({"raised": raised, "refused": sorted(counting.refused.items())})
    for _ in lines:
        counting.balance()
        _say({"balanced": True})
    counting.lower_all()
    _say({"lowered": True})


def _say(answer: object) -> None:
    with suppress(BrokenPipeError):  # the tracer may have gone; what is to be done is done all the same
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    os.chdir("/")
    # Whoever waits for the end of a pipe that the tracer inherited must not wait for this process.
    os.closerange(3, 1 << 16)
    sys.path.append(os.path.abspath(f"{__file__}/../../../.."))
    main()
