"""What makes an answer incomplete is counted and said; what must not be traced by accident is not."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.answers import maps
from tracer import pipeline
from tracer.backends import ALONE
from tracer.backends.bcc import BccBackend
from tracer.backends.bcc.codegen.generate import SCRATCH
from tracer.errors import Source
from tracer.kernel import bpf
from tracer.kinds.site import EVERY_PROCESS
from tracer.render.loss import loss_messages
from tracer.results.events import Loss

pytestmark = pytest.mark.live


def test_keys_beyond_the_limit_are_counted(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("threads")
    program = f"usdt:{path}:threads:hit {{ @[arg0, arg1] = count(); @all = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 4 10000")
    assert done.status == 0
    found = maps(done)
    assert (len(found["@"]), found["@all"]) == (16384, 40000)
    assert done.err == (
        "Attached 1 probe\n"
        f"tracer: {40000 - 16384} map updates dropped: @ was full, and new keys did not fit; write config ="
        " { max_map_keys = 65536 }, it is 16384 now, or delete() keys that are done with\n"
    )


def test_each_map_that_was_full_is_named_with_what_makes_room(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("threads")
    program = (
        "config = { max_map_keys = 200 } let @few = hash(64); let @last = lruhash(8); BEGIN { @begun[0] = 1; } "
        f"usdt:{path}:threads:hit {{ @few[arg1] = 1; @last[arg1] = 1; @sums[arg1] = sum(arg0); @held[arg0] = count();"
        f" @high[comm, arg1] = max(arg0); }}"
    )
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 1 300")
    assert done.err == (
        f"Attached 2 probes\ntracer: {236 + 100 + 100} map updates dropped: @few, @high and @sums were full, and new"
        " keys did not fit; write config = { max_map_keys = 800 }, it is 200 now, raise the 64 of let @few = …, or"
        " delete() keys that are done with\n"
    )


def test_the_limit_of_keys_can_be_raised(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("threads")
    program = f"config = {{ max_map_keys = 50000 }} usdt:{path}:threads:hit {{ @[arg0, arg1] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 4 10000")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert len(maps(done)["@"]) == 40000


def test_an_exit_stops_the_count_of_its_thread_at_once(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("threads")
    program = f"usdt:{path}:threads:hit {{ if (arg0 == 0 && arg1 == 500) {{ exit(); }} @[arg0] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 4 100000")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert maps(done)["@"]["0"] == 500


def test_a_tracer_that_traces_itself_comes_to_an_end(backend: str, clean: None) -> None:
    # Every process that allocates is traced, the tracer among them, which allocates to print what it did.
    program = 'uprobe:libc:malloc { printf("%d\\n", pid); @ = count(); } interval:ms:500 { exit(); }'
    done = tracer("--backend", backend, "-f", "json", "-e", program)
    assert done.status == 0
    assert maps(done)["@"] > 0


def test_silence_is_explained(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path, other = place("depot"), place("ticker")
    program = f"usdt:{path}:depot:plain {{ @ = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{other} 0.05 10")
    assert (done.status, done.text) == (0, "5\n")
    hint = f"ticker itself does not use {path}; --follow traces what it starts, too"
    assert done.err == f"Attached 1 probe\ntracer: no probe was hit: {hint}\n"
    done = tracer("--backend", backend, "-e", program + " interval:ms:50 { exit(); }")
    assert (done.status, done.out) == (0, b"")
    assert done.err == f"Attached 2 probes\ntracer: no probe was hit: no process that runs now has loaded {path}\n"


def test_hits_that_find_all_memory_in_use_are_told_as_that(place: Callable[[str], Path], clean: None) -> None:
    path = place("depot")
    plan, _ = pipeline.plan(Source(f'usdt:{path}:depot:label {{ printf("%s", str(arg1)); @ = count(); }}'))
    program = BccBackend().compile(plan)
    with BccBackend().open(program, EVERY_PROCESS, ALONE) as session:
        scratch = session._loaded.maps[SCRATCH]
        for slot in range(program.generated.scratch_slots):
            # As if another hit had it.
            held = struct.pack("=Q", 1).ljust(program.generated.scratch_size, b"\0")
            bpf.map_update(scratch, struct.pack("=I", slot), held)
        session.attach()
        subprocess.run([path, "1"], check=True, stdout=subprocess.DEVNULL)
        session.detach()
        assert list(session.drain()) == []
        assert session.loss() == Loss(busy=9)
        (said,) = loss_messages(session.loss(), session.plan.program)
        assert said.startswith("9 hits left out: all memory for strings and events was in use")
