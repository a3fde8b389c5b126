"""scripts/attack/commands [--calls N] [--pairs N] [--write]: do the commands for the usual questions count right?

Six programs do something so many times, and say themselves how often. Each command counts that on each backend, and so
does the program of the language that it shows, in a run of its own. All numbers must be the same. With BPFTRACE=path
bpftrace counts too. Then it is measured how much more CPU a short trace takes by a command than by its program.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import join

from scripts.attack.command import write
from tests.harness.cli import TRACER
from tests.harness.real_programs import WORDS, Work, commands, counted, postgres, program, redis

_BACKENDS = ("bcc", "ftrace")


@contextmanager
def _works(calls: int) -> Iterator[list[Work]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with redis(calls, folder) as server, postgres(calls) as database:
            yield [*commands(calls, folder), server, database]


def _by_bpftrace(bpftrace: str, work: Work) -> str:
    """Its count; "" where it cannot be asked: it does not follow what a server starts."""
    if not work.command and work.program != "Redis":
        return ""
    text = f"uprobe:{work.probe} {f'/{work.only}/' if work.only else ''} {{ @ = count(); }}"
    asked = [bpftrace, "-f", "json", "-e", text]
    if work.command:
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:  # its -c knows no quotes
            script.write(f"exec {join(work.command)} 1>&2\n")
            script.flush()
            out = subprocess.run([*asked, "-c", f"/bin/sh {script.name}"], capture_output=True, text=True).stdout
    else:
        with subprocess.Popen([*asked, "-p", str(work.pid)], stdout=subprocess.PIPE, text=True) as trace:
            assert trace.stdout is not None
            head = trace.stdout.readline()  # so many probes are attached
            time.sleep(1)
            work.act()
            trace.send_signal(signal.SIGINT)
            out = head + trace.communicate()[0]
    maps = [event["data"] for event in map(json.loads, filter(None, out.splitlines())) if event["type"] == "map"]
    return str(maps[-1].get("@", "")) if maps else "0"


def _row(backend: str, work: Work, bpftrace: str) -> tuple[str, int]:
    """A row of the table, and how many numbers in it are wrong."""
    cells, wrong, told = list[str](), 0, 0
    for name in WORDS:
        numbers = []
        for by_program in (False, True):
            number, told = counted(backend, name, work, by_program)
            wrong += number != told
            numbers.append(number if number == told else -1)
            if number != told:
                print(f"{work.program}, {backend}, {name}: {number}, not {told}", file=sys.stderr)
        cells.append(str(told) if numbers == [told, told] else "wrong")
    if bpftrace and int(bpftrace) != told:
        print(f"{work.program}: bpftrace counts {bpftrace}, not {told}", file=sys.stderr)
        wrong += 1
    head = [work.program, f"`{Path(work.probe.partition(':')[0]).name}:{work.probe.partition(':')[2]}`", backend]
    return f"| {' | '.join([*head, str(told), bpftrace or '', *cells])} |", wrong


def _cpu_ms(words: list[str]) -> float:
    """The CPU that a short trace takes, all its processes together."""
    trace = subprocess.Popen([*TRACER, *words, "-d", "10ms"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(trace.pid, 0)
    trace.returncode = os.waitstatus_to_exitcode(status)
    assert trace.returncode == 0, words
    return 1000 * (used.ru_utime + used.ru_stime)


def _start(backend: str, name: str, pairs: int) -> str:
    """A row: what a short trace by the program of a command takes, and how much more by the command; medians of pairs,
    which take turns.
    """
    work = Work("", "libc:labs", "arg0")
    text = program(name, work)
    both = [name, *WORDS[name](work), "--backend", backend], ["-e", text, "--backend", backend]
    taken = []
    for number in range(pairs):
        ms = {which: _cpu_ms(both[which]) for which in ((0, 1) if number % 2 else (1, 0))}
        taken.append((ms[1], ms[0] - ms[1], ms[0] / ms[1]))
    usual, more, ratio = map(statistics.median, zip(*taken, strict=True))
    return f"| `{name}` | {backend} | {usual:.0f} | {more:+.0f} | {ratio:.2f} |"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="commands", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=500, help="of each program (default 500)")
    parser.add_argument("--pairs", type=int, default=11, help="of starts, of each command (default 11)")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/commands.md")
    options = parser.parse_args()
    wrong = 0
    names = " | ".join(f"`{name}`" for name in WORDS)
    rows = [f"| program | function | backend | by itself | bpftrace | {names} |", "| --- " * (5 + len(WORDS)) + "|"]
    bpftrace = os.environ.get("BPFTRACE", "")
    with _works(options.calls) as works:
        for work in [work for work in works if options.only in work.program]:
            peer = _by_bpftrace(bpftrace, work) if bpftrace else ""
            for backend in _BACKENDS:
                row, of_row = _row(backend, work, peer)
                wrong += of_row
                rows.append(row)
                print(row, flush=True)
    starts = [
        "| command | backend | CPU of its program, ms | of the command, ms more | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in WORDS if options.pairs else ():
        for backend in _BACKENDS:
            starts.append(_start(backend, name, options.pairs))
            print(starts[-1], flush=True)
    if options.write:
        write("commands", "\n".join(rows), "commands")
        write("starts", "\n".join(starts), "commands")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
