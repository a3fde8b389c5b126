"""The library: traces that a program drives, on both backends; counts are compared with the target's own."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracer
from tests.harness.cli import PATIENCE_S, environment, target, until
from tests.live.breakpoints import texts_of

Place = Callable[[str], Path]


def events(path: Path, program: str, backend: str, count: int = 5, **more: Any) -> tuple[list[Any], tracer.Trace]:
    with tracer.trace(program, command=f"{path} {count / 1000} 1", backend=backend, **more) as trace:
        found = list(trace)
    return found, trace


def probed(pid: int, path: Path) -> bool:
    return any(text.altered() for text in texts_of(path, [pid]))


def test_events_are_typed_and_in_order(backend: str, place: Place) -> None:
    path = place("ticker")
    program = f'''usdt:{path}:ticker:tick {{ printf("%d of %s\\n", arg0, comm); print((arg0, "x")); }}
        END {{ print(1); errorf("over"); exit(3); }}'''
    found, trace = events(path, program, backend)
    numbers = [event.values[0] for event in found if isinstance(event, tracer.events.Printf)]
    assert numbers == sorted(numbers) and len(numbers) == 5
    assert found[0] == tracer.events.Printf(f"{numbers[0]} of ticker\n", (numbers[0], "ticker"))
    assert found[1] == tracer.events.Value((numbers[0], "x"), f"({numbers[0]}, x)")
    assert found[-2] == tracer.events.Value(1, "1")
    assert found[-1] == tracer.events.Message("errorf", "over", 2, 25)
    assert (trace.exit_code, trace.hits, trace.probes, trace.backend) == (3, 5, 2, backend)
    assert not trace.loss and trace.warnings == ()


def test_maps_are_mappings_with_values_of_their_types(backend: str, place: Place) -> None:
    path = place("ticker")
    program = f"""usdt:{path}:ticker:tick {{
        @ = count(); @k[comm, arg0 % 2] = sum(1); @one[comm] = max(arg0); @h = lhist(arg0 % 2, 0, 2, 1);
        @s = stats(arg0 % 2); @t = (arg0 % 1, "a"); @stack[ustack(2)] = count(); @f = arg0 % 1 == 0; }}"""
    _, trace = events(path, program, backend, 4)
    maps = trace.maps
    assert (maps["@"], maps["@t"], maps["@f"]) == (4, (0, "a"), 1)
    assert maps["@k"] == {("ticker", 0): 2, ("ticker", 1): 2}
    assert list(maps["@one"]) == ["ticker"]
    assert maps["@h"] == (tracer.Bucket(0, 1, 2), tracer.Bucket(1, 2, 2))
    assert maps["@s"] == {"count": 4, "average": 0, "total": 2}
    ((stack, hits),) = maps["@stack"].items()
    assert hits == 4 and isinstance(stack, tracer.Stack)
    assert stack[0].path == str(path) and stack[0].name.partition("+")[0] in str(stack)


def test_maps_can_be_read_meanwhile_and_a_trace_is_stopped_by_another_thread(backend: str, place: Place) -> None:
    path = place("ticker")
    with target(path, 600, 10) as process:
        program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
        with tracer.trace(program, pid=process.pid, backend=backend) as trace:
            until(lambda: trace.maps["@"] >= 3)
            threading.Timer(0.1, trace.stop).start()
            assert trace.wait(PATIENCE_S)
        assert trace.maps["@"] >= 3
        assert process.poll() is None


def test_a_duration_ends_it(backend: str, place: Place) -> None:
    path = place("ticker")
    with target(path, 600, 10) as process:
        program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
        begun = time.monotonic()
        with tracer.trace(program, pid=process.pid, backend=backend, duration=0.5) as trace:
            assert trace.wait(PATIENCE_S)
        assert time.monotonic() - begun >= 0.5
        assert trace.maps["@"] > 0


def test_eight_at_once_in_threads_are_exact_with_stacks(backend: str, place: Place) -> None:
    path = place("ticker")
    found: dict[int, Any] = {}

    def one(number: int) -> None:
        program = f"usdt:{path}:ticker:tick {{ @[ustack(3)] = count(); printf(\"%d\", pid); }}"
        with tracer.trace(program, command=f"{path} {(100 + number) / 1000} 1", backend=backend) as trace:
            pids = {event.values[0] for event in trace if isinstance(event, tracer.events.Printf)}
        ((stack, hits),) = trace.maps["@"].items()
        found[number] = (hits, len(pids), stack[0].path, bool(trace.loss))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: (100 + number, 1, str(path), False) for number in range(8)}


def test_a_trace_that_is_dropped_undoes_itself(backend: str, place: Place) -> None:
    path = place("ticker")
    with target(path, 600, 10) as process:
        trace = tracer.trace(f"usdt:{path}:ticker:tick {{ @ = count(); }}", pid=process.pid, backend=backend)
        trace.__enter__()
        assert probed(process.pid, path)
        del trace
        gc.collect()
        until(lambda: not probed(process.pid, path))


def test_nothing_of_the_process_is_changed(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("ticker")
    script = f"""
import os, signal, gc, tracer
def state():
    handlers = [signal.getsignal(number) for number in range(1, 32)]
    return dict(os.environ), os.getcwd(), gc.get_threshold(), gc.isenabled(), handlers
before = state()
program, command = 'usdt:{path}:ticker:tick {{ @ = count(); }}', ['{path}', '0.003', '1']
with tracer.trace(program, command=command, backend='{backend}') as trace:
    for event in trace: pass
assert state() == before
assert trace.maps == {{'@': 3}}, trace.maps
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3\n"  # the command's own


def test_errors_come_as_exceptions_with_their_places(backend: str) -> None:
    with pytest.raises(tracer.ProgramError) as wrong:
        tracer.trace("uprobe:libc:no_such_function { @ = count(); }", backend=backend)
    (found,) = wrong.value.diagnostics
    assert (found.span.start, found.message.partition("'")[0]) == (0, "no function ") or found.span.start == 0
    with pytest.raises(tracer.TracerError, match="no process"):
        tracer.trace("BEGIN { }", pid=4_000_000, backend=backend)
    with pytest.raises(tracer.UsageError, match="no setting"):
        tracer.trace("BEGIN { }", config={"nonsense": 1})
    with pytest.raises(tracer.TracerError), tracer.trace(
        "uprobe:libc:malloc { @ = count(); }", command="/dev/null", backend=backend
    ):
        pass


def test_a_reader_that_is_slow_loses_nothing_and_holds_up_no_maps(
    backend: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracer.api.collector.MOST", 10)
    path = place("ticker")
    program = f'usdt:{path}:ticker:tick {{ @ = count(); printf("%d", arg0); }}'
    with tracer.trace(program, command=f"{path} 0.2 1", backend=backend) as trace:
        until(lambda: trace.maps["@"] >= 10)  # on ftrace hits are counted as far as they are read
        assert len(list(trace)) == 200
    assert (trace.maps, bool(trace.loss)) == ({"@": 200}, False)


def test_a_trace_that_is_never_entered_keeps_no_descriptor(place: Place) -> None:
    path = place("ticker")
    with target(path, 600, 10) as process:
        tracer.check("BEGIN { }")
        before = len(os.listdir("/proc/self/fd"))
        trace = tracer.trace(f"usdt:{path}:ticker:tick {{ @ = count(); }}", pid=process.pid)
        with pytest.raises(tracer.ProgramError):
            tracer.trace("BEGIN { x", pid=process.pid)
        del trace
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before
