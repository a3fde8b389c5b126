"""Results on a pipe: lines come as they happen, a slow reader costs the target nothing, one that leaves is the end."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import (
    PATIENCE,
    PATIENCE_S,
    TRACER,
    environment,
    read_line,
    start,
    target,
    tell,
    tracer,
    without_overhead,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

LINE = 9  # bytes of "%08d\n"


@contextmanager
def piped(*args: str) -> Iterator[subprocess.Popen[bytes]]:
    """`tracer ARGS | …`: nobody reads unless the test does. Its probes are attached when this begins."""
    with start(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().startswith(b"Attached")
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[bytes], timeout: float = 60) -> tuple[int, str]:
    """Its exit status, and what else it said."""
    status = process.wait(timeout * PATIENCE)
    assert process.stderr is not None
    return status, without_overhead(process.stderr.read().decode())


def count(text: str, pattern: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@contextmanager
def flood(path: Path, hits: int) -> Iterator[Callable[[], None]]:
    """A target that waits; the function lets it make its hits, and waits until it has made them."""
    with target(path, 1, hits, "wait") as process:

        def go() -> None:
            tell(process)
            assert read_line(process) == "done"

        yield go


def test_a_reader_that_has_enough_ends_the_trace_and_its_command(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("ticker")
    program = f'usdt:{path}:ticker:tick {{ printf("tick\\n"); @ = count(); }} END {{ printf("the end\\n"); }}'
    with piped("--backend", backend, "-e", program, "-c", f"{path} 100 3000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"tick\n"
        process.stdout.close()
        assert ended(process) == (0, "")


def test_a_reader_that_leaves_is_noticed_though_nothing_more_happens(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    program = f'BEGIN {{ printf("one\\n"); }} usdt:{place("ticker")}:ticker:tick {{ printf("tick\\n"); }}'
    with piped("--backend", backend, "-e", program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        time.sleep(0.3)
        process.stdout.close()
        assert ended(process) == (0, "")


def test_a_line_is_seen_when_it_happens(backend: str, place: Callable[[str], Path], clean: None) -> None:
    # `tracer … | grep`: the default, a pipe. A busy machine may take its time, but not until the end.
    path = place("threads")  # once: a second copy onto it would end the trace
    program = f'usdt:{path}:threads:hit {{ printf("%08d\\n", arg1); }}'
    with piped("--backend", backend, "-e", program) as process, flood(path, 1) as go:
        assert process.stdout is not None
        go()
        assert select.select([process.stdout], [], [], PATIENCE_S * PATIENCE)[0]
        assert os.read(process.stdout.fileno(), 100) == b"00000000\n"
        process.send_signal(signal.SIGINT)
        assert ended(process)[0] == 0


def test_full_buffering_shows_nothing_before_a_piece_is_full(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("threads")  # once: a second copy onto it would end the trace
    program = f'usdt:{path}:threads:hit {{ printf("%08d\\n", arg1); }}'
    with piped("--backend", backend, "-B", "full", "-e", program) as process, flood(path, 100) as go:
        assert process.stdout is not None
        go()
        assert select.select([process.stdout], [], [], 1)[0] == []
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"".join(b"%08d\n" % number for number in range(100)) + b"\n\n"
        assert ended(process) == (0, "")


@pytest.mark.clock
def test_a_reader_that_is_slow_costs_the_target_nothing_and_gets_all_that_fits(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path, hits = place("threads"), 200_000
    program = f'usdt:{path}:threads:hit {{ printf("%08d\\n", arg1); @ = count(); }}'
    with piped("--backend", backend, "-e", program) as process, flood(path, hits) as go:
        assert process.stdout is not None
        go()  # done, though nobody reads
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        lines = process.stdout.read().split()
        assert ended(process) == (0, "")
    assert lines[-2:] == [b"@:", b"%d" % hits]
    assert [int(line) for line in lines[:-2]] == list(range(hits))


@pytest.mark.clock
def test_the_maps_do_not_suffer_from_a_reader_that_is_slow(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    # On ftrace they are filled from the same samples as the lines that nobody takes.
    path, hits = place("threads"), 300_000
    program = f'usdt:{path}:threads:hit {{ @s = sum(arg1); printf("%08d\\n", arg1); }}'
    with piped("--backend", backend, "-f", "json", "-e", program) as process, flood(path, hits) as go:
        assert process.stdout is not None
        go()
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read().splitlines()[-1] == b'{"type": "map", "data": {"@s": %d}}' % sum(range(hits))
        assert ended(process) == (0, "")


@pytest.mark.clock
@pytest.mark.parametrize("options", [(), ("--max-rate", "50000")], ids=["a warning", "a limit"])
def test_a_reader_of_both_streams_that_takes_nothing_keeps_nobody(
    options: Sequence[str], backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("hot")
    program = f'usdt:{path}:hot:spin {{ printf("%d some text that makes the line long\\n", arg0); @ = count(); }}'
    with target(path, "120") as traced:
        args = ("--backend", backend, *options, "-e", program, "-p", str(traced.pid))
        shared, pipe = subprocess.STDOUT, subprocess.PIPE
        with start(args, stdout=pipe, stderr=shared) as process:
            assert process.stdout is not None and process.stdout.readline() == b"Attached 1 probe\n"
            time.sleep(2.5 * PATIENCE)  # the guard, which looks once a second, has had something to say
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S * PATIENCE) == 1
            assert traced.poll() is None


@pytest.mark.clock
@pytest.mark.parametrize("signals", [1, 2])
def test_an_end_that_nobody_reads_comes_all_the_same_and_every_line_is_accounted_for(
    signals: int, backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path, hits = place("threads"), 300_000
    program = f'usdt:{path}:threads:hit {{ printf("%08d\\n", arg1); }}'
    with piped("--backend", backend, "-e", program) as process, flood(path, hits) as go:
        assert process.stdout is not None
        go()
        begun = time.monotonic()
        for number in range(signals):
            time.sleep(0.6 * number)
            process.send_signal(signal.SIGINT)
        status, said = ended(process)
        took = time.monotonic() - begun
        printed = len(process.stdout.read())
    dropped = count(said, r"(\d+) events? left out: not shown yet")
    unread = count(said, r"(\d+) bytes of output left out: nobody reads them")
    assert status == 1
    assert printed > 0 and dropped > 0 and unread > 0
    assert (printed + unread) // LINE + dropped + count(said, r"(\d+) events? lost: ") == hits, said
    if signals == 2:
        assert took < 20 * PATIENCE


@pytest.mark.clock
def test_a_second_ctrl_c_gives_up_a_drain_that_takes_long(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path, hits = place("threads"), 1_000_000
    program = f'usdt:{path}:threads:hit {{ printf("%08d\\n", arg1); }} END {{ printf("the end\\n"); }}'
    with piped("--backend", backend, "-e", program) as process, flood(path, hits) as go:
        assert process.stdout is not None
        go()
        process.send_signal(signal.SIGINT)
        found = bytearray()
        second = time.monotonic() + 0.7
        while part := os.read(process.stdout.fileno(), 4096):  # 400 KB a second, where some MB wait
            found += part
            if second < time.monotonic():
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.01)
        found += process.stdout.read()
        status, said = ended(process)
    dropped = count(said, r"(\d+) events? left out: not shown yet")
    unread = count(said, r"(\d+) bytes of output left out: nobody reads them")
    assert status == (1 if unread else 0)
    assert dropped > 0
    shown = len(found) + unread - len(b"the end\n\n\n")
    assert shown // LINE + dropped + count(said, r"(\d+) events? lost: ") == hits, said


@pytest.mark.parametrize("options", [("-B", "line"), ("-B", "full"), ("-B", "none"), ("-f", "json", "-B", "full")])
def test_every_buffering_gives_the_same_in_the_end(options: Sequence[str], tmp_path: Path) -> None:
    program = 'BEGIN { printf("a"); printf("b\\n"); @x = 1; print(@x); exit(); }'
    json = "json" in options
    expected = (
        b'{"type": "attached_probes", "count": 1, "data": {"probes": 1}}\n'
        b'{"type": "printf", "data": "a"}\n{"type": "printf", "data": "b\\n"}\n'
        b'{"type": "map", "data": {"@x": 1}}\n{"type": "map", "data": {"@x": 1}}\n'
        if json
        else b"ab\n@x: 1\n\n\n@x: 1\n"
    )
    assert tracer(*options, "-e", program).printed == expected
    file = tmp_path / "results"
    done = tracer(*options, "-o", str(file), "-e", program)
    assert (done.status, done.out, file.read_bytes()) == (0, b"", expected)


def test_a_closed_stdout_is_said_and_nothing_else_is_written_there() -> None:
    words = ("bash", "-c", 'exec "$@" >&-', "bash")
    done = tracer("-e", 'BEGIN { printf("x"); exit(); }', prefix=words)
    assert (done.status, done.out) == (1, b"")
    assert done.err == "tracer: error: stdout is closed; -o FILE writes results to a file\n"


def test_what_is_said_goes_to_no_file_that_has_got_the_number_of_a_closed_stderr(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path, out = place("ticker"), tmp_path / "out"
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    args = ("--backend", backend, "-o", str(out), "-e", program, "-c", f"{path} 0.1 2")
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *TRACER, *args], env=environment(), timeout=60)
    assert done.returncode == 0
    assert out.read_text() == "\n\n@: 50\n"


@pytest.mark.parametrize("whom", ["-c", "-p"])
def test_more_than_a_thousand_descriptors_do_not_matter(
    whom: str, backend: str, place: Callable[[str], Path], clean: None
) -> None:
    many = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for number in range(3, 1100):
    os.dup2(0, number)
os.execvp(sys.argv[1], sys.argv[1:])
"""
    prefix = (sys.executable, "-c", many)
    path = place("threads")
    words = ("--backend", backend, "-e", f'usdt:{path}:threads:hit {{ printf("%d\\n", arg1); }}')
    if whom == "-c":
        done = tracer(*words, "-c", f"{path} 1 2", prefix=prefix)
        assert (done.status, done.out.replace(b"done\n", b""), done.err) == (0, b"0\n1\n", "Attached 1 probe\n")
        return
    with target(path, 1, 2, "wait") as process, subprocess.Popen(
        [*prefix, *TRACER, *words, "-p", str(process.pid)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as running:  # fmt: skip
        assert running.stderr is not None and running.stdout is not None
        assert running.stderr.readline() == b"Attached 1 probe\n"
        tell(process)
        assert read_line(process) == "done"
        process.kill()
        assert running.stdout.read() == b"0\n1\n\n\n"
        assert ended(running) == (0, "")
