"""Sessions of the ftrace backend: whom they trace, how they end, and what they leave."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tell, until
from tests.harness.kernel import TRACEFS, nothing_left, uprobe_events
from tests.live.breakpoints import texts_of
from tests.live.ftrace import compiled, compiled_c, finish, gated, items, session
from tracer.backends import ALONE
from tracer.backends.ftrace.program import FtraceProgram
from tracer.backends.ftrace.read import descriptors as descriptors_module
from tracer.backends.ftrace.session import FtraceSession
from tracer.errors import ProgramError, TracerError
from tracer.kernel import buffers
from tracer.kernel.trials import abilities as abilities_module
from tracer.kernel.uprobe_events import cleanup as cleanup_module, owner
from tracer.kernel.uprobe_events.cleanup import cleanup
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kinds.site import EVERY_PROCESS, FileIdentity
from tracer.results.events import ExitEvent, Loss, PrintfEvent

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

THREADS = 4

# With "churn" one thread starts and joins short-lived threads without pause, so that some begin while descriptors are
# opened; four other threads, which hit, are made when the gate opens.
CHURN = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static long hits;
static volatile int stop;

PROBE long hit(long thread, long i) { __asm__ volatile("" ::: "memory"); return thread + i; }

static void *nothing(void *p) { return p; }

static void *churn(void *p) {
  pthread_t one;
  while (!stop) {
    pthread_create(&one, 0, nothing, 0);
    pthread_join(one, 0);
  }
  return p;
}

static void *work(void *p) {
  for (long i = 0; i < hits; i++) hit((long)p, i);
  return 0;
}

int main(int argc, char **argv) {
  hits = atol(argv[1]);
  pthread_t churner, workers[4];
  if (argc > 2) pthread_create(&churner, 0, churn, 0);
  puts("ready");
  fflush(stdout);
  getchar();
  for (long i = 0; i < 4; i++) pthread_create(&workers[i], 0, work, (void *)i);
  for (long i = 0; i < 4; i++) pthread_join(workers[i], 0);
  stop = 1;
  puts("done");
  fflush(stdout);
  while (getchar() != EOF) continue;
  return 0;
}
"""


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_c(tmp_path_factory.mktemp("churn") / "churn", CHURN, "-pthread")


@pytest.mark.parametrize("action", ["@ = count();", "@[arg0] = count();"])
@pytest.mark.parametrize("churning", [False, True])
def test_all_threads_of_a_process_count_once_even_if_threads_come_and_go(
    churn: Path, action: str, churning: bool
) -> None:
    with (
        gated(churn, "20000", *(["churn"] if churning else [])) as (process, go),
        session(f"uprobe:{churn}:hit {{ {action} }}", process.pid) as opened,
    ):
        go()
        finish(opened)
        expected: dict[tuple[int, ...], int] = {(): 80000}
        if "arg0" in action:
            expected = {(thread,): 20000 for thread in range(THREADS)}
        assert items(opened) == expected
        assert opened.loss() == Loss()


def test_where_threads_never_settle_other_processes_are_dropped_on_reading(
    churn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors_module, "_ATTEMPTS", 0)
    with (
        gated(churn, "5000") as (_, other_go),
        gated(churn, "20000") as (process, go),
        session(f"uprobe:{churn}:hit {{ @ = count(); }}", process.pid) as opened,
    ):
        other_go()
        go()
        finish(opened)
        assert items(opened) == {(): 80000}
        assert opened.hits() == 80000


def test_a_kernel_without_inherit_thread_is_exact_too(churn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        abilities_module.Abilities, "detect", classmethod(lambda cls: cls(format_lost=False, inherit_thread=False))
    )
    with (
        gated(churn, "20000") as (process, go),
        session(f"uprobe:{churn}:hit {{ @ = count(); }}", process.pid) as opened,
    ):
        go()
        finish(opened)
        assert items(opened) == {(): 80000}


def test_a_kernel_with_one_probe_for_an_event_gives_the_same_answer(
    churn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"uprobe:{churn}:hit {{ @[probe, arg0] = count(); }} uprobe:{churn}:main {{ @m[probe, arg0] = count(); }}"
    (event,) = compiled(program).events
    assert len(event.places) == 2
    monkeypatch.setattr("tracer.kernel.tracefs.Tracefs.readme", lambda self: "ref_ctr_offset")
    with session(program) as opened:
        with gated(churn, "3") as (_, go):
            go()
        finish(opened)
        assert items(opened) == {(f"uprobe:{churn}:hit".encode(), thread): 3 for thread in range(THREADS)}
        assert items(opened, "@m") == {(f"uprobe:{churn}:main".encode(), 2): 1}


def test_more_samples_than_the_ring_takes_are_counted_to_the_last(churn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "ring_of_each", lambda cpus, stacks: 1 << 14)
    with session(f'uprobe:{churn}:hit {{ printf("%d %d\\n", arg0, arg1); }}') as opened:
        with gated(churn, "20000") as (_, go):
            go()
        happened = finish(opened)
        lost = opened.loss().events
        assert lost > 0
        assert len(happened) + lost == opened.hits() == 80000
        assert all(isinstance(one, PrintfEvent) for one in happened)


def test_where_the_kernel_does_not_tell_losses_they_are_counted_to_the_last_too(
    churn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "ring_of_each", lambda cpus, stacks: 1 << 14)
    without = classmethod(lambda cls: cls(format_lost=False, inherit_thread=True))
    monkeypatch.setattr(abilities_module.Abilities, "detect", without)
    with session(f'uprobe:{churn}:hit {{ printf("%d %d\\n", arg0, arg1); }}') as opened:
        with gated(churn, "20000") as (_, go):
            go()
        happened = finish(opened)
        assert len(happened) + opened.loss().events == opened.hits() == 80000
        assert opened.loss().events > 0


def test_strings_are_refused_where_a_warning_would_stop_the_machine(
    churn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = tmp_path / "panic_on_warn"
    setting.write_text("1\n")
    monkeypatch.setattr("tracer.backends.ftrace.refusals._PANIC_ON_WARN", str(setting))
    with pytest.raises(ProgramError) as raised, session(f"uprobe:{churn}:hit {{ @[str(arg0)] = count(); }}"):
        pass
    assert raised.value.hint == "--backend bcc reads it without; or: sysctl kernel.panic_on_warn=0"
    (diagnostic,) = raised.value.diagnostics
    assert raised.value.source.text[diagnostic.span.start : diagnostic.span.end] == "str(arg0)"
    with session(f"uprobe:{churn}:hit {{ @[comm] = count(); }}"):
        pass
    setting.write_text("0\n")
    with session(f"uprobe:{churn}:hit {{ @[str(arg0)] = count(); }}"):
        pass


def test_a_ring_that_cannot_be_had_is_said(churn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr("tracer.kernel.perf.Ring", refuse)
    # A line for each hit needs the ring everywhere; hist triggers count without one.
    with pytest.raises(TracerError) as raised, session(f'uprobe:{churn}:hit {{ printf("%d\\n", arg0); }}'):
        pass
    assert raised.value.message == "the kernel refused to read a probe (perf_event_open): Too many open files"


def test_events_of_all_cpus_come_in_the_order_of_time(churn: Path) -> None:
    with session(f'uprobe:{churn}:hit {{ printf("%lu\\n", nsecs); }}') as opened:
        with gated(churn, "20000") as (_, go):
            go()
        happened = [one.args[0] for one in finish(opened) if isinstance(one, PrintfEvent)]
        assert len(happened) == 80000
        assert happened == sorted(happened)
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        assert now - 20 * 10**9 < happened[0] < happened[-1] < now  # type: ignore[operator]


def test_no_hit_after_exit_counts(churn: Path) -> None:
    program = f"uprobe:{churn}:hit /arg0 == 0/ {{ @n++; if (arg1 == 99) {{ exit(3); }} }}"
    with session(program) as opened:
        with gated(churn, "20000") as (_, go):
            go()
        happened = list(opened.events(1.0))
        assert happened == [ExitEvent(3)]
        assert finish(opened) == []
        assert items(opened, "@n") == {(): 100}


def test_clearing_a_counter_takes_what_was_seen_and_no_more(churn: Path) -> None:
    total = 0
    with (
        gated(churn, "50000") as (process, _),
        session(f"uprobe:{churn}:hit {{ @ = count(); }}", process.pid) as opened,
    ):
        assert items(opened) == {}
        tell(process)
        while total < 200000:
            opened.maps.begin_handler()
            seen = items(opened).get((), 0)
            time.sleep(0.002)
            assert items(opened).get((), 0) == seen, "inside a handler a map changed"
            opened.maps.clear("@")
            opened.maps.end_handler()
            assert isinstance(seen, int)
            total += seen
        assert total == 200000
        opened.maps.zero("@")
        assert items(opened) == {}


def test_counters_see_nothing_after_detach(churn: Path) -> None:
    with session(f"uprobe:{churn}:hit {{ @ = count(); }}") as opened:
        with gated(churn, "10") as (_, go):
            go()
        opened.detach()
        opened.detach()
        with gated(churn, "10") as (_, go):
            go()
        assert items(opened) == {}, "what was counted comes with drain"
        assert list(opened.drain()) == []
        assert items(opened) == {(): 40}
        assert opened.hits() == 40


@pytest.mark.parametrize("value", ["count()", "sum(arg1 & 1)"])
def test_breakpoints_are_gone_before_the_drain_and_nothing_is_with_them(churn: Path, value: str) -> None:
    """Else what tracer does at the end would meet them, with functions of libc at each call."""
    with gated(churn, "1000") as (process, go), session(f"uprobe:{churn}:hit {{ @ = {value}; }}") as opened:
        (text,) = texts_of(churn, [process.pid])
        assert text.altered()
        go()
        opened.detach()
        assert not text.altered()
        list(opened.drain())
        os.close(text.memory)
        assert items(opened) == {(): THREADS * 1000 if value == "count()" else THREADS * 500}
        assert (opened.hits(), opened.point_hits(), opened.loss()) == (THREADS * 1000, [THREADS * 1000], Loss())


def test_the_kernels_list_of_hits_is_read_seldom_until_all_is_over(churn: Path) -> None:
    with session(f"uprobe:{churn}:hit /arg0 == 1/ {{ @[arg1] = count(); }}") as opened:
        assert opened.point_hits() == [0]
        assert opened.point_hits() is None
        opened.detach()
        assert opened.point_hits() == opened.point_hits() == [0]


def test_a_handler_that_says_exit_has_seen_all_that_counts(churn: Path) -> None:
    # The run loop does not drain after exit().
    with session(f"uprobe:{churn}:hit {{ @ = count(); }}") as opened:
        with gated(churn, "10") as (_, go):
            go()
        opened.maps.begin_handler()
        opened.maps.end_handler()
        with gated(churn, "10") as (_, go):
            go()
        opened.detach()
        opened.maps.begin_handler()
        assert items(opened) == {(): 40}


def test_waiting_for_counters_is_waiting(churn: Path) -> None:
    with session(f"uprobe:{churn}:hit {{ @ = count(); }}") as opened:
        began = time.monotonic()
        assert list(opened.events(0.2)) == []
        assert time.monotonic() - began >= 0.19


def test_closing_twice_is_closing_once(churn: Path) -> None:
    with session(f"uprobe:{churn}:hit {{ @ = count(); }}") as opened:
        opened.close()
        opened.close()
        assert opened.hits() == 0


# --- files and names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["two words", "with#hash", "tab\there", "new\nline", "quo'te\"s", "ü", "co:lon", "(x)"]
)
def test_files_of_any_name_are_traced(churn: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = folder / name
    path.write_bytes(churn.read_bytes())
    path.chmod(0o755)
    program = compiled(f"uprobe:{churn}:hit {{ @ = count(); }}")
    with FtraceSession(moved(program, path), EVERY_PROCESS, ALONE) as opened:
        opened.attach()
        with gated(path, "5") as (_, go):
            go()
        finish(opened)
        assert items(opened) == {(): 20}


def moved(program: FtraceProgram, path: Path) -> FtraceProgram:
    """The program with its only place in another file of the same content."""
    (event,) = program.events
    (place,) = event.places
    found = path.stat()
    identity = FileIdentity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    site = replace(place.file, path=str(path), identity=identity)
    events = (replace(event, places=(replace(place, site=site),)),)
    return replace(program, events=events, parts=events)


def test_a_file_that_was_replaced_meanwhile_is_refused(churn: Path, tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(churn.read_bytes())
    program = compiled(f"uprobe:{path}:hit {{ @ = count(); }} uprobe:{churn}:hit {{ @k[arg0] = count(); }}")
    (tmp_path / "new").write_bytes(churn.read_bytes() + b"x")
    os.replace(tmp_path / "new", path)
    with nothing_left(), pytest.raises(TracerError) as raised, FtraceSession(program, EVERY_PROCESS, ALONE) as opened:
        opened.attach()
    assert raised.value.message == f"{path}: the file changed after its probes were looked up"


# --- others ----------------------------------------------------------------------------------------------------------


def test_two_sessions_on_one_place_do_not_disturb_each_other(churn: Path) -> None:
    with session(f"uprobe:{churn}:hit {{ @ = count(); }}") as first:
        with session(f"uprobe:{churn}:hit {{ @[arg0] = count(); }}") as second:
            with gated(churn, "100") as (_, go):
                go()
            finish(second)
            assert items(second) == {(thread,): 100 for thread in range(THREADS)}
        with gated(churn, "100") as (_, go):
            go()
        finish(first)
        assert items(first) == {(): 800}


def test_another_process_is_not_trapped_by_the_trace_of_one(place: Callable[[str], Path]) -> None:
    path = place("hot")
    with target(path, "60") as watched, target(path, "60") as other:
        with session(f"uprobe:{path}:spin {{ @ = count(); }}", watched.pid) as opened:
            until(lambda: items(opened))
            fast = sorted(float(line) for line in lines(other, 10))[5]
            slow = sorted(float(line) for line in lines(watched, 30)[20:])[5]
        assert fast < slow / 5, (fast, slow)


def lines(process: subprocess.Popen[bytes], count: int) -> list[str]:
    return [read_line(process) for _ in range(count)]


SEMAPHORE = r"""
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <sys/sdt.h>

__extension__ unsigned short app_hit_semaphore __attribute__((section(".probes")));

int main(void) {
  while (getchar() != EOF) {
    if (app_hit_semaphore) DTRACE_PROBE1(app, hit, 7);
    printf("%d\n", app_hit_semaphore);
    fflush(stdout);
  }
  return 0;
}
"""


def semaphore(process: subprocess.Popen[bytes]) -> str:
    tell(process, "x")
    return read_line(process)


def test_only_the_traced_process_has_its_semaphore_raised_and_only_while_it_is_traced(tmp_path: Path) -> None:
    path = compiled_c(tmp_path / "app", SEMAPHORE)
    with target(path) as watched, target(path) as other:
        assert (semaphore(watched), semaphore(other)) == ("0", "0")
        with session(f"usdt:{path}:app:hit {{ @[arg0] = count(); }}", watched.pid) as opened:
            assert (semaphore(watched), semaphore(other)) == ("1", "0")
            finish(opened)
            assert items(opened) == {(7,): 1}
        assert (semaphore(watched), semaphore(other)) == ("0", "0")


# --- what is left ----------------------------------------------------------------------------------------------------


def write(line: str) -> None:
    fd = os.open(TRACEFS / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, line.encode() + b"\n")
    finally:
        os.close(fd)


def define(group: str, path: Path, offset: int) -> None:
    write(f"p:{group}/e0 {path}:{offset}")


@pytest.mark.clock
def test_cleanup_removes_the_dead_and_leaves_the_living_and_the_foreign(churn: Path) -> None:
    group = "tracer_1_deadbeef"
    with session(f"uprobe:{churn}:hit {{ @ = count(); }}") as living:
        (event,) = compiled(f"uprobe:{churn}:hit {{ @ = count(); }}").events
        define(group, churn, event.places[0].file.offset)
        define("somebody_1_deadbeef", churn, event.places[0].file.offset)
        try:
            assert cleanup() == [f"uprobe_events: {group}/e0"]
            assert any("somebody_1_deadbeef" in line for line in uprobe_events())
            assert cleanup() == []
        finally:
            write("-:somebody_1_deadbeef/e0")
        with gated(churn, "10") as (_, go):
            go()
        finish(living)
        assert items(living) == {(): 40}


@pytest.mark.clock
def test_cleanup_waits_for_sessions_between_their_definitions_and_their_use(
    churn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup_module, "_PATIENCE_S", 0.1)
    program = compiled(f"uprobe:{churn}:hit {{ @ = count(); }}")
    definitions = Definitions()
    try:
        definitions.define(program.events)
        # As a session in another container, whose /run is not ours.
        os.unlink(f"{owner.DIRECTORY}/{definitions.group}")
        assert cleanup() == []
        assert any(definitions.group in line for line in uprobe_events())
        definitions.in_use()
        assert cleanup() == [f"uprobe_events: {definitions.group}/e0"]
    finally:
        definitions.close()


@pytest.mark.clock
def test_a_start_leaves_alone_what_no_lock_tells_about(churn: Path) -> None:
    group = "tracer_1_deadbeef"
    program = f"uprobe:{churn}:hit {{ @ = count(); }}"
    (event,) = compiled(program).events
    define(group, churn, event.places[0].file.offset)
    with session(program):
        assert any(group in line for line in uprobe_events())
    assert cleanup() == [f"uprobe_events: {group}/e0"]
