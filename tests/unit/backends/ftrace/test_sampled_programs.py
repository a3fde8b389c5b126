"""What is opened for samples and events of the kernel: the text of the program, which needs no kernel."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer

OPENED = {
    "profile:hz:99 { @ = count(); }": ["profile/hz:99: sampled", "    clause 0 (profile:hz:99)"],
    'software:cs:10 /comm == "app"/ { @ = count(); }': [
        "software/cs:10: sampled", '    clause 0 (software:cs:10), in user space: comm == "app"',
    ],
    "profile:hz:99 { @a = count(); } software:faults { @b = count(); } profile:hz:99 { @c = count(); }": [
        "profile/hz:99: sampled", "    clause 0 (profile:hz:99)", "    clause 2 (profile:hz:99)",
        "software/faults: sampled", "    clause 1 (software:faults)",
    ],
}  # fmt: skip


@pytest.mark.parametrize("program", OPENED)
def test_samples_are_never_merely_counted_nor_filtered(program: str) -> None:
    """What perf counts of a clock is nanoseconds, and of others what is no hit yet."""
    done = tracer("-d", "program", "--backend", "ftrace", "-e", program)
    lines = done.text.split("# read by perf_event_open\n")[1].split("\n\n")[0].splitlines()
    assert (done.status, lines) == (0, OPENED[program])
