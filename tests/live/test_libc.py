"""A function of libc on a target whose number of calls is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps, total

pytestmark = pytest.mark.live

CALLS = 20000


def test_malloc_is_counted_and_timed(backend: str, place: Callable[[str], Path], clean: None) -> None:
    program = (
        "uprobe:libc:malloc /arg0 == 4099/ { @calls = count(); @start[tid] = nsecs; }"
        " uretprobe:libc:malloc /@start[tid]/"
        " { @ns = hist(nsecs - @start[tid]); @ok[retval != 0] = count(); delete(@start, tid); }"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{place('allocs')} {CALLS}")
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    found = maps(done)
    assert found["@calls"] == CALLS
    assert total(found["@ns"]) == CALLS
    assert found["@ok"] == {"true": CALLS}
    assert "@start" not in found


def test_a_library_is_found_by_name_in_a_process(backend: str, place: Callable[[str], Path], clean: None) -> None:
    program = "uprobe:libc:malloc /arg0 == 4099/ { @ = count(); }"
    by_path = next(
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so.6" in line
    )
    for text in (program, program.replace("libc", by_path)):
        done = tracer("--backend", backend, "-e", text, "-c", f"{place('allocs')} 100")
        assert (done.status, done.text) == (0, "@: 100\n")
