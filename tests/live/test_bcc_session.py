"""Attaching, events and the end of a trace."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.bcc import build_hits, open_session, trace
from tests.singly import singly
from tracer import pipeline
from tracer.backends import ALONE
from tracer.backends.bcc import BccBackend, session as session_module
from tracer.backends.bcc.attach import uprobe
from tracer.backends.bcc.host import trials
from tracer.errors import Source, TracerError
from tracer.kernel import buffers
from tracer.kinds.site import EVERY_PROCESS, FileIdentity, Target
from tracer.lang.types import Stack
from tracer.resolve.files.identity import open_verified
from tracer.results.events import ExitEvent, Loss, MapEvent, PrintfEvent

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def hits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hits(tmp_path_factory.mktemp("hits"))


@pytest.fixture(params=[True, False], ids=["links", "events"])
def multi(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways of attaching: one link for many sites, and a perf event for each, as before Linux 6.6."""
    if not request.param:
        monkeypatch.setattr(trials, "has_multi", lambda one_process: False)
    return bool(request.param)


def open_programs() -> int:
    """How many BPF programs this process holds."""
    return sum("bpf-prog" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd))


def _is_link(fd: str) -> bool:
    try:
        os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False
    return True


def test_clauses_at_one_place_run_in_the_order_of_the_program(hits: Path, multi: bool) -> None:
    place = f"usdt:{hits}:hits:value"
    traced = trace(
        f'{place} {{ printf("first %d", arg1); }} {place} {{ printf("second %d", arg1); }} '
        f'{place} {{ printf("third %d", arg1); }}',
        [hits, "values", "1", "50"],
    )
    seen = [(event.format, *event.args) for event in traced.events if isinstance(event, PrintfEvent)]
    assert seen == [(format, i) for i in range(50) for format in range(3)]


def test_sites_of_one_function_know_their_own_names(hits: Path, multi: bool) -> None:
    value, name, main = f"usdt:{hits}:hits:value", f"usdt:{hits}:hits:name", f"uprobe:{hits}:main"
    traced = trace(
        f"{value},{name},{main} {{ @[probe] = count(); @f[func, probe] = count(); "
        f'if (probe == "{main}") {{ @main = count(); }} }}',
        ["sh", "-c", f"{hits} values 1 30; {hits} names 7 2"],
    )
    counts = {value.encode(): 30, name.encode(): 7, main.encode(): 2}
    assert traced.maps["@"] == {(text,): count for text, count in counts.items()}
    assert {key[1]: count for key, count in traced.maps["@f"].items()} == counts
    assert (b"main", main.encode()) in traced.maps["@f"]
    assert traced.maps["@main"] == {(): 2}


def test_a_wildcard_with_probe_in_its_body_is_one_program(hits: Path) -> None:
    with open_session(f"usdt:{hits}:hits:* {{ @[probe] = count(); }}") as session:
        before = open_programs()
        assert len(session.plan.probes[0].variants) > 2
        assert before == 1


def test_one_process_means_all_its_threads_and_nobody_else(hits: Path, multi: bool) -> None:
    waiting = subprocess.Popen(
        ["sh", "-c", f"read line; exec {hits} values 4 100"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    with open_session(
        f"usdt:{hits}:hits:value {{ @[arg0] = count(); @p[pid] = count(); }}", Target([waiting.pid])
    ) as session:
        session.attach()
        subprocess.run([hits, "values", "2", "100"], check=True)
        assert waiting.stdin is not None
        waiting.stdin.write(b"\n")
        waiting.stdin.close()
        waiting.wait()
        session.detach()
        assert session.maps.snapshot("@").items == {(thread,): 100 for thread in range(4)}
        assert session.maps.snapshot("@p").items == {(waiting.pid,): 400}


def test_attaching_is_all_or_nothing(hits: Path, multi: bool) -> None:
    plan, _ = pipeline.plan(
        Source(f"usdt:{hits}:hits:value {{ @ = count(); }} usdt:{hits}:hits:text {{ @t = count(); }}")
    )
    first, last = plan.probes
    (variant,) = first.variants
    # Behind the end of the file; the first clause is attached last.
    broken = replace(variant, sites=tuple(replace(site, offset=1 << 40) for site in variant.places))
    plan = replace(plan, probes=(replace(first, variants=(broken,)), last))
    backend = BccBackend()
    before = open_programs()
    with backend.open(backend.compile(plan), EVERY_PROCESS, ALONE) as session:
        with pytest.raises(TracerError, match=r"cannot attach to usdt:.*:hits:value"):
            session.attach()
        subprocess.run([hits, "cold"], check=True)
        assert session.hits() == 0
    assert open_programs() == before


def test_a_file_that_changed_since_it_was_read_is_refused(hits: Path, tmp_path: Path) -> None:
    copy = tmp_path / "hits"
    copy.write_bytes(hits.read_bytes())
    copy.chmod(0o755)
    with open_session(f"usdt:{copy}:hits:value {{ @ = count(); }}") as session:
        os.utime(copy, ns=(1, 1))
        with pytest.raises(TracerError, match="changed"):
            session.attach()


def test_a_file_put_in_the_place_of_the_one_that_was_checked_is_not_probed(
    hits: Path, tmp_path: Path, multi: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hits"
    path.write_bytes(hits.read_bytes())
    path.chmod(0o755)
    checked = open_verified

    def replaced(name: str, identity: FileIdentity) -> int:
        found = checked(name, identity)
        path.rename(tmp_path / "old")
        path.write_bytes(hits.read_bytes())
        path.chmod(0o755)
        return found

    monkeypatch.setattr(uprobe, "open_verified", replaced)
    with open_session(f"usdt:{path}:hits:value {{ @[comm] = count(); }}") as session:
        session.attach()
        for name in (path, tmp_path / "old"):
            subprocess.run([name, "values", "1", "5"], check=True)
        session.detach()
        assert session.maps.snapshot("@").items == {(b"old",): 5}


def held() -> tuple[int, int]:
    """Descriptors of this process, and BPF maps in its memory."""
    return len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text().count("bpf-map")


@pytest.mark.parametrize("where", ["loaded", "Ring", "KernelMaps"])
def test_opening_that_fails_leaves_nothing(hits: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    program = f"usdt:{hits}:hits:text {{ @[str(arg0)] = count(); @n = count(); }}"
    open_session(program).close()
    before = held()

    def fail(*_: object, **__: object) -> None:
        raise OSError(12, "no memory")

    monkeypatch.setattr(session_module, where, fail)
    with pytest.raises(OSError, match="no memory"):
        open_session(program)
    assert held() == before


def test_closing_twice_is_closing_once(hits: Path) -> None:
    before = held()
    with open_session(f"usdt:{hits}:hits:text {{ @ = count(); }}") as session:
        session.attach()
        session.close()
    assert held() == before


def test_what_cannot_wait_for_pages_says_so(hits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"usdt:{hits}:hits:text {{ @[str(arg0)] = count(); }}"
    with open_session(program) as session:
        assert session.details == ()
    monkeypatch.setenv("TRACER_WITHOUT", "sleepable")
    with open_session(program) as session:
        (said,) = session.details
    assert said.startswith("programs do not wait for pages") and said.endswith("(Linux 6.0)")
    with open_session(f"usdt:{hits}:hits:text {{ @ = count(); }}") as session:
        assert session.details == ()


def test_no_hit_counts_after_exit(hits: Path) -> None:
    traced = trace(
        f'usdt:{hits}:hits:value {{ @n++; printf("%d", arg1); if (arg1 == 99) {{ exit(3); }} @after = arg1; }}',
        [hits, "values", "1", "5000"],
    )
    assert traced.maps == {"@n": {(): 100}, "@after": {(): 98}}
    assert traced.printed == [(i,) for i in range(100)]
    assert traced.events[-1] == ExitEvent(3)


def test_control_events_survive_a_full_ring(hits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "shared_ring", lambda stacks: 4096)
    program = (
        f'usdt:{hits}:hits:value {{ printf("%d %d", arg0, arg1); if (arg1 % 1000 == 999) {{ print(@x); }} '
        "@x[arg1] = 1; if (arg1 == 19999) { exit(2); } }"
    )
    with open_session(program) as session:
        session.attach()
        subprocess.run([hits, "values", "1", "20000"], check=True)  # nobody reads meanwhile
        events = [event for _ in range(50) for event in singly(session.events(0.01))]
        lost = session.loss().events
    printed = sum(isinstance(event, PrintfEvent) for event in events)
    assert printed + lost == 20_000 and lost > 10_000
    assert [event for event in events if isinstance(event, MapEvent)] == [MapEvent("@x", 0, 0)] * 20
    assert [event for event in events if isinstance(event, ExitEvent)] == [ExitEvent(2)]


def test_events_of_one_thread_come_in_order_and_all_of_them(hits: Path) -> None:
    traced = trace(
        f'usdt:{hits}:hits:value {{ printf("%d %d", arg0, arg1); if (arg1 % 3 == 0) {{ printf("third %d", arg0); }} }}',
        [hits, "values", "4", "30000"],
    )
    assert traced.loss == Loss()
    for thread in range(4):
        seen = [args[1] for args in traced.printed if len(args) == 2 and args[0] == thread]
        assert seen == list(range(30000))
    assert sum(len(args) == 1 for args in traced.printed) == 4 * 10_000


def test_an_event_is_seen_within_a_tenth_of_a_second(hits: Path) -> None:
    with open_session(f'usdt:{hits}:hits:value {{ printf("%d", nsecs); }}') as session:
        session.attach()
        worst = 0.0
        for _ in range(5):
            list(session.events(0.2))
            child = subprocess.Popen([hits, "values", "1", "1"])
            (event,) = singly(session.events(2))
            assert isinstance(event, PrintfEvent) and isinstance(event.args[0], int)
            worst = max(worst, (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - event.args[0]) / 1e9)
            child.wait()
    assert worst < 0.1


def test_hits_are_counted_without_a_map(hits: Path) -> None:
    with open_session(f"usdt:{hits}:hits:value {{ @ = count(); }}") as session:
        session.attach()
        assert session.hits() == 0
        subprocess.run([hits, "values", "1", "1"], check=True)
        assert session.hits() == 1


def test_stacks_and_loops_and_tuples(hits: Path) -> None:
    traced = trace(
        f"config = {{ stack_unwind = fp }} "
        f"usdt:{hits}:hits:value {{ $i = 0; while ($i < 20) {{ $i++; if ($i == 3) {{ continue; }} "
        "if ($i > 9) { break; } @sum = sum($i); } while (arg1 == 4) { @rounds++; } "
        "@t = (arg1, (comm, -1)); @[ustack(2)] = count(); }",
        [hits, "values", "1", "5"],
    )
    assert traced.maps["@sum"] == {(): 5 * (sum(range(1, 10)) - 3)}
    assert traced.maps["@rounds"] == {(): 131062}
    assert traced.maps["@t"] == {(): (4, (b"hits", -1))}
    (stack,) = traced.maps["@"]
    assert isinstance(stack[0], Stack) and 1 <= len(stack[0].addresses) <= 2
    assert traced.loss == Loss(loops=1)


def test_this_host_can_do_everything() -> None:
    capabilities = BccBackend().capabilities()
    assert capabilities.unusable is None
    named = ("bpf", "bpf ring buffer", "bpf sleepable", "bpf kernel reads", "uprobe_multi", "uprobe pmu", "ref_ctr")
    assert {name: capabilities.facts[name] for name in named} == dict.fromkeys(named, "yes")
