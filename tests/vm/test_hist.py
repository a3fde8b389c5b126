"""Hist triggers: the same answer as user space's, and nothing left of them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil
import pytest

from tests.harness.cli import read_line, target, tell, tracing, until
from tests.harness.kernel import TRACEFS, uprobe_events
from tests.harness.warm import Warms
from tests.live.ftrace import finish, gated, items, session
from tests.vm.mixer import TYPES, hits, made
from tracer.results.events import Loss
from tracer.results.values import Key, MapValue

pytestmark = [pytest.mark.needs("ftrace", "hist"), pytest.mark.usefixtures("clean")]

ROUNDS = 500
IN_KERNEL = re.compile(r"@\w*: aggregated in the kernel, by a (hist trigger|counter)")


def answers(
    text: str, names: list[str], path: Path, *arguments: str
) -> tuple[dict[str, dict[Key, MapValue]], Loss, tuple[str, ...]]:
    """What the maps hold after a run of a target, what was lost, and where the maps were aggregated."""
    with gated(path, *arguments) as (_, go), session(text) as opened:
        details = opened.details
        go()
        finish(opened)
        return {name: items(opened, name) for name in names}, opened.loss(), details


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_give_the_same_in_the_kernel_in_user_space_and_by_their_meaning(
    seed: int, place: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place("mixer")
    random = Random(seed)
    for _ in range(3):
        number = random.randrange(1 << 32)
        program = made(random, str(path), hits(number, ROUNDS))
        names = sorted(set(re.findall(r"@\w+", program.text)))
        meant = {name: program.maps.get(name, {}) for name in names}
        for without in ("", "hist"):
            monkeypatch.setenv("TRACER_WITHOUT", without)
            found, loss, details = answers(program.text, names, path, str(number), str(ROUNDS))
            assert (program.text, found, loss) == (program.text, meant, Loss())
            if not without:
                assert len(details) == len(meant), details
                assert all(map(IN_KERNEL.fullmatch, details)), (program.text, details)


def test_a_full_map_keeps_the_first_keys_and_counts_the_others_as_in_user_space(
    place: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place("mixer")
    text = f"config = {{ max_map_keys = 128 }} usdt:{path}:mixer:round {{ @c[arg6] = count(); @s[arg6] = sum(arg0); }}"
    found = {}
    for without in ("", "hist"):
        monkeypatch.setenv("TRACER_WITHOUT", without)
        maps, loss, details = answers(text, ["@c", "@s"], path, "7", str(ROUNDS))
        assert bool(IN_KERNEL.fullmatch(details[0])) == (not without)
        found[without] = maps, loss
    maps, loss = found[""]
    assert len(maps["@c"]) == 128
    # Each of the two maps counts what it leaves out.
    assert 2 * (ROUNDS - sum(int(str(hits)) for hits in maps["@c"].values())) == loss.keys
    assert found["hist"] == found[""]


def test_a_hist_of_every_type_is_what_it_means_in_the_kernel_and_in_user_space(
    place: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, number = place("mixer"), 23
    text = f"config = {{ max_map_keys = 512 }} usdt:{path}:mixer:third {{ @k[arg7] = hist(arg1); }}" + "".join(
        f" usdt:{path}:mixer:round {{ @h{index} = hist(arg{index}); }}" for index in range(len(TYPES))
    )
    meant: dict[str, dict[Key, dict[int, int]]] = {}
    made = hits(number, ROUNDS)
    counted: list[tuple[str, Key, int]]
    counted = [(f"@h{index}", (), hit[index]) for hit in made["usdt:{}:mixer:round"] for index in range(len(TYPES))]
    counted += [("@k", (hit[7],), hit[1]) for hit in made["usdt:{}:mixer:third"]]
    for name, key, value in counted:
        held = meant.setdefault(name, {}).setdefault(key, {})
        bucket = 0 if value >> 63 else value.bit_length() + 1
        held[bucket] = held.get(bucket, 0) + 1
    for without in ("", "hist"):
        monkeypatch.setenv("TRACER_WITHOUT", without)
        found, loss, details = answers(text, [*meant], path, str(number), str(ROUNDS))
        assert [bool(IN_KERNEL.fullmatch(line)) for line in details[:9]] == [not without] * 9, details
        assert (found, loss) == (meant, Loss())


@pytest.mark.parametrize("name", ["set_event_pid", "set_event_notrace_pid"])
def test_processes_that_somebody_hides_from_ftrace_are_counted_all_the_same(
    name: str, place: Callable[[str], Path]
) -> None:
    path, listed = place("mixer"), TRACEFS / name
    listed.write_text(str(os.getpid()))
    try:
        maps, loss, details = answers(
            f"usdt:{path}:mixer:round {{ @[arg0] = count(); }}", ["@"], path, "7", str(ROUNDS)
        )
    finally:
        listed.write_text("")
    assert (sum(int(str(hits)) for hits in maps["@"].values()), loss) == (ROUNDS, Loss())
    why = "set_event_pid or set_event_notrace_pid of tracefs hides processes from hist triggers"
    assert details[0] == f"@: aggregated in user space: {why}"


def test_hits_of_many_processes_at_once_are_all_there(place: Callable[[str], Path], tmp_path: Path) -> None:
    path = place("mixer")
    text = (
        f"usdt:{path}:mixer:round {{ @c[arg0, tid] = count(); }} uprobe:{path}:wide {{ @s = sum((int64)arg0); }}"
        " interval:ms:50 { @seen = len(@c); }"
    )
    expected = hits(11, ROUNDS)
    with session(text) as opened, target(path, "11", str(ROUNDS)) as one, target(path, "11", str(ROUNDS)) as other:
        for process in (one, other):
            read_line(process)
        for process in (one, other):
            tell(process)
        while one.poll() is None or other.poll() is None:
            opened.maps.begin_handler()
            items(opened, "@c")
            opened.maps.end_handler()
        finish(opened)
        by_thread = items(opened, "@c")
        for process in (one, other):
            mine = {key[0]: value for key, value in by_thread.items() if key[1] == process.pid}
            first = [hit[0] for hit in expected["usdt:{}:mixer:round"]]
            assert mine == {number: first.count(number) for number in set(first)}
        total = 2 * sum(hit[0] for hit in expected["uprobe:{}:wide"])
        assert (items(opened, "@s")[()] - total) % (1 << 64) == 0  # type: ignore[operator]
        assert opened.hits() == 4 * ROUNDS
        assert opened.loss() == Loss()


def sums(printed: bytes) -> list[int]:
    """Of the columns of whole lines."""
    rows = [[int(word) for word in line.split()] for line in printed.splitlines(keepends=True) if line.endswith(b"\n")]
    return [sum(column) for column in zip(*rows, strict=True)]


def test_each_hit_falls_into_exactly_one_interval(place: Callable[[str], Path], tmp_path: Path) -> None:
    path = place("mixer")
    text = (
        f"usdt:{path}:mixer:round {{ @s = sum(1); @n++; }} uprobe:{path}:wide {{ @z[probe] = count(); }}"
        " interval:ms:20 { printf(\"%d %d %d\\n\", @s, @n, @z[str($1)]); clear(@s); zero(@z); @n = 0; }"
        " END { clear(@s); clear(@n); clear(@z); }"
    )
    with (
        tracing(tmp_path, "run", "-v", "--backend", "ftrace", "-e", text, f"uprobe:{path}:wide") as running,
        gated(path, "3", str(20 * ROUNDS)) as (_, go),
    ):
        assert "@s: aggregated in the kernel, by a hist trigger" in running.err
        assert "@z: aggregated in the kernel, by a hist trigger" in running.err
        go()
        # Not until a line of zeros: it may be of a moment before the hits have been read.
        until(lambda: sums(running.out) == [20 * ROUNDS] * 3, 30, lambda: (sums(running.out), running.err))
        done = running.stop()
    assert done.status == 0
    assert sums(done.out) == [20 * ROUNDS] * 3


def test_one_process_is_aggregated_in_user_space_and_verbose_says_so(
    place: Callable[[str], Path], warms: Warms
) -> None:
    path = place("mixer")
    with gated(path, "5", "10") as (process, go):
        del go
        done = warms.tracer(
            "-v", "--backend", "ftrace", "-p", str(process.pid),
            "-e", f"usdt:{path}:mixer:round {{ @[arg0] = count(); }} interval:ms:50 {{ exit(); }}",
        )  # fmt: skip
    reason = "a hist trigger counts a process with all that it starts, and this trace is of one alone"
    assert f"tracer: @: aggregated in user space: {reason}\n" in done.err


def test_a_thread_has_its_number_where_the_kernel_numbers_it(place: Callable[[str], Path]) -> None:
    path = place("mixer")
    with session(f"uprobe:{path}:wide {{ @[tid, cpu] = count(); }}") as opened, gated(path, "5", "10") as (process, go):
        go()
        finish(opened)
        assert {key[0]: value for key, value in items(opened).items()} == {process.pid: 10}


PROGRAM = (
    "usdt:{0}:mixer:round {{ @c[arg0, cpu] = count(); }} "
    'usdt:{0}:mixer:third /comm == "mixer" && arg1 != 3/ {{ @h = lhist(arg0, 0, 100, 10); }} '
    "uprobe:{0}:wide* {{ @[func]++; }}"
)


def triggers() -> list[str]:
    """All triggers of tracers, as they are listed."""
    files = TRACEFS.glob("events/tracer_*/*/trigger")
    return [line for file in files for line in file.read_text().splitlines() if line.startswith("hist:")]


def test_after_sigkill_the_watcher_removes_the_triggers(place: Callable[[str], Path], tmp_path: Path) -> None:
    path = place("mixer")
    with tracing(tmp_path, "--backend", "ftrace", "-e", PROGRAM.format(path)) as running:
        assert len(triggers()) == 5
        with gated(path, "1", str(ROUNDS)) as (_, go):
            running.signal(signal.SIGKILL)
            go()
        until(lambda: not uprobe_events(), 30, uprobe_events)
    assert triggers() == []


@pytest.mark.parametrize("how", ["the next start", "cleanup", "cleanup without a lock file"])
def test_after_sigkill_of_the_watcher_too_the_triggers_are_swept(
    how: str, place: Callable[[str], Path], tmp_path: Path, warms: Warms
) -> None:
    path = place("mixer")
    with tracing(tmp_path, "--backend", "ftrace", "-e", PROGRAM.format(path)) as running:
        (watcher,) = psutil.Process(running.pid).children()
        running.signal(signal.SIGSTOP)  # or it would see its watcher end
        watcher.kill()
        running.signal(signal.SIGKILL)
        running.wait()
    assert len(triggers()) == 5
    if how == "the next start":
        done = warms.tracer("--backend", "ftrace", "-e", f"uprobe:{path}:wide {{ @ = count(); }}", "-c", f"{path} 1 1")
        assert (done.status, done.err) == (0, "Attached 1 probe\n")
    else:
        if how.endswith("file"):
            for lock in Path("/run/tracer").iterdir():
                lock.unlink()
        assert warms.tracer("cleanup").status == 0
    assert (triggers(), uprobe_events()) == ([], [])


def test_cleanup_leaves_the_triggers_of_a_living_session_whose_lock_file_it_does_not_see(
    place: Callable[[str], Path], tmp_path: Path, warms: Warms
) -> None:
    path = place("mixer")
    with tracing(tmp_path, "--backend", "ftrace", "-e", f"uprobe:{path}:wide {{ @ = sum(arg0); }}") as running:
        (lock,) = Path("/run/tracer").iterdir()
        os.rename(lock, f"{lock}.hidden")
        done = warms.tracer("cleanup")
        assert (done.status, done.text, len(triggers())) == (0, "nothing was left\n", 1)
        os.rename(f"{lock}.hidden", lock)
        assert running.stop().status == 0
    assert triggers() == []
