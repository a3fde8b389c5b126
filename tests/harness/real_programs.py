"""Programs that people run and that say themselves how often they did what a probe counts; and what the commands for
the usual questions count of that.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from tests.harness.cli import PATIENCE, PATIENCE_S, TRACER
from tests.live.postgres import cluster, installation

_LABS = "import ctypes; labs = ctypes.CDLL(None).labs; print(len([labs(n % 7) for n in range({})]))"
_RMDIR = "$done = 0; for ($n = 0; $n < {}; $n++) {{ $done += @rmdir('/no/such/folder') ? 0 : 1; }} echo $done, PHP_EOL;"


@dataclass(frozen=True)
class Work:
    """A program's work, in which it comes to `probe`, where `value` is a number; so often where `only` holds. It is a
    `command`, whose output says how often, as `told` reads it. Or it is done in a server, the process `pid` and what
    descends from it, by `act`, which returns how often by the program's own account.
    """

    program: str
    probe: str
    value: str
    only: str = ""
    command: tuple[str, ...] = ()
    told: Callable[[str], int] = lambda said: int(said.split()[0])
    pid: int = 0
    act: Callable[[], int] = lambda: 0


def commands(calls: int, folder: Path) -> list[Work]:
    """The works of programs that run to their end; `folder` is for their files."""
    script = folder / "statements.sql"
    script.write_text("SELECT 7;\n" * calls)
    copies = ("dd", "if=/dev/zero", "of=/dev/null", "bs=300", f"count={calls}")
    return [
        Work("Python", "libc:labs", "arg0", command=(sys.executable, "-c", _LABS.format(calls))),
        Work("PHP", "libc:rmdir", "tid", command=("php", "-n", "-r", _RMDIR.format(calls))),
        Work(
            "dd", "libc:write", "arg2", "arg0 == 1", copies,
            lambda said: int(said.partition("records in\n")[2].partition("+")[0]),
        ),
        Work(
            "SQLite", "libsqlite3:sqlite3_prepare_v2", "tid", command=("sqlite3", ":memory:", f".read {script}"),
            told=lambda said: said.count("7\n"),
        ),
    ]  # fmt: skip


@contextmanager
def redis(calls: int, folder: Path) -> Iterator[Work]:
    """A server that is set so many keys, and counts that."""
    socket = folder / "redis"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )

    def asked(*words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def sets() -> int:
        stats = asked("redis-cli", "-s", str(socket), "INFO", "commandstats")
        return int((stats.partition("cmdstat_set:calls=")[2] or "0,").partition(",")[0])

    def act() -> int:
        before = sets()
        asked("redis-benchmark", "-s", str(socket), "-n", str(calls), "-c", "2", "-t", "set", "-q")
        return sets() - before

    try:
        while subprocess.run(["redis-cli", "-s", str(socket), "PING"], capture_output=True).stdout != b"PONG\n":
            assert server.poll() is None
        yield Work("Redis", "/usr/bin/redis-server:setCommand", "tid", pid=server.pid, act=act)
    finally:
        server.terminate()
        server.wait()


@contextmanager
def postgres(calls: int) -> Iterator[Work]:
    """A server that is asked so many questions, and answers each."""
    with cluster(installation() or Path()) as running:
        pid = int((running.home / "data" / "postmaster.pid").read_text().split()[0])
        probe = f"{running.server}:pg_parse_query"
        yield Work("PostgreSQL", probe, "tid", pid=pid, act=lambda: len(running.psql(*["SELECT 7"] * calls)))


WORDS: dict[str, Callable[[Work], Sequence[str]]] = {
    "count": lambda work: (work.probe,),
    "hist": lambda work: (work.probe, work.value),
    "latency": lambda work: (work.probe,),
    "args": lambda work: (work.probe,),
    "trace": lambda work: (work.probe, "%d", work.value),
    "stacks": lambda work: (work.probe,),
}
"""The words that are given to each command."""

def program(name: str, work: Work) -> str:
    """The program that a command shows."""
    words = [name, *WORDS[name](work), *(("--filter", work.only) if work.only else ())]
    return subprocess.run([*TRACER, *words, "--show"], capture_output=True, text=True, check=True).stdout


def counted(backend: str, name: str, work: Work, by_program: bool = False) -> tuple[int, int]:
    """How often it was by a command (or by the program that it shows), and by the traced program's own account."""
    words = [name, *WORDS[name](work), *(("--filter", work.only) if work.only else ()), "--json"]
    if by_program:
        words = ["-f", "json", "-e", program(name, work)]
    results = subprocess.PIPE
    tracing = [*TRACER, *words, "--backend", backend]
    if work.command:
        apart = join(["sh", "-c", 'exec "$@" 1>&2', "sh", *work.command])  # what it prints is no result
        done = subprocess.run(
            [*tracing, "-q", "-c", apart], stdout=results, stderr=subprocess.PIPE, text=True,
            timeout=PATIENCE_S * PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return total(done.stdout), work.told(done.stderr)
    with subprocess.Popen(
        [*tracing, "-p", str(work.pid), "--children", "--follow"], stdout=results, stderr=subprocess.PIPE, text=True
    ) as trace:
        assert trace.stderr is not None
        said = ""
        while "Attached" not in said:
            line = trace.stderr.readline()
            assert line, said
            said += line
        told = work.act()
        trace.send_signal(signal.SIGINT)
        out, err = trace.communicate(timeout=PATIENCE_S * PATIENCE)
    assert trace.returncode == 0, said + err
    return total(out), told


def total(lines: str) -> int:
    """The number of hits that results in JSON tell of."""
    events = 0
    for event in map(json.loads, lines.splitlines()):
        kind, data = event["type"], event["data"]
        if kind in ("value", "printf"):
            events += 1
        elif "@quantiles" in data:
            return int(data["@quantiles"]["count"])
        elif "@" in data:
            counts = data["@"]
            events += sum(counts.values()) if isinstance(counts, dict) else counts
    return events
