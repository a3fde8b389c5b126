"""What makes each tool of bpftrace speak, and what of its output must be the same."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

PYTHON = sys.executable

_TIME = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?|\b\d+\.\d+\b")
_BUCKET = re.compile(r"^[\[(].*[\])]\s+(\d+) \|", re.MULTILINE)
_VALUE = re.compile(r"^@\w*(\[.*\])?: (\d+)$", re.MULTILINE)
_SHARE = 0.2
"""How far totals may lie apart: the tools begin and end one after the other."""

_OF_CLOCKS = 0.6
"""How far those may that a clock counts: bpftrace is there some tenths of a second before or after."""


def _numbers(printed: str) -> list[int]:
    return [*map(int, _BUCKET.findall(printed)), *(int(value) for _, value in _VALUE.findall(printed))]


@dataclass(frozen=True)
class Judge:
    """Compares two outputs: "" where they are the same; what differs."""

    compare: Callable[[str, str], str]


def lines(about: str, *without: str) -> Judge:
    """The lines in which that stands, with times left out, and what else differs from tracer to tracer."""

    def wanted(printed: str) -> Counter[str]:
        found = []
        for line in printed.splitlines():
            if re.search(about, line):
                for pattern in (_TIME.pattern, *without):
                    line = re.sub(pattern, "-", line)
                found.append(" ".join(line.split()))
        return Counter(found)

    def compare(theirs: str, ours: str) -> str:
        expected, seen = wanted(theirs), wanted(ours)
        if not expected:
            return "bpftrace printed nothing of it"
        missing, more = sum((expected - seen).values()), sum((seen - expected).values())
        return f"{missing} of {expected.total()} lines missing, {more} others" if missing or more else ""

    return Judge(compare)


def totals(share: float = _SHARE) -> Judge:
    """How much all histograms and counts hold together."""

    def compare(theirs: str, ours: str) -> str:
        expected, seen = sum(_numbers(theirs)), sum(_numbers(ours))
        if not expected:
            return "bpftrace counted nothing"
        return f"{seen} in place of {expected}" if abs(seen - expected) > max(3, share * expected) else ""

    return Judge(compare)


def rates() -> Judge:
    """Values each second: about the same of most seconds."""

    def compare(theirs: str, ours: str) -> str:
        expected, seen = _numbers(theirs), _numbers(ours)
        most, theirs_most = max(seen, default=0), max(expected, default=0)
        return "" if abs(most - theirs_most) <= max(3, _SHARE * theirs_most) else f"{most} in place of {theirs_most}"

    return Judge(compare)


@dataclass(frozen=True)
class Tool:
    """`load`: the command that makes events; `judge`: what must be the same."""

    load: str
    judge: Judge


WRITTEN = "/var/tmp/tracer-peers"
_WRITES = f"dd if=/dev/zero of={WRITTEN} bs=16k count=200 oflag=direct status=none"
_PARTS = r"\bacts\b"

TOOLS = {
    "bashreadline": Tool(
        f"{PYTHON} -c \"import pty,os; os.environ['PS1']=''; i=iter([b'echo one two\\n', b'exit\\n']);"
        " pty.spawn(['bash','--norc','-i'], stdin_read=lambda fd: next(i, b''))\"", lines("echo one two"),
    ),
    "biolatency": Tool(_WRITES, totals()),
    "biosnoop": Tool(_WRITES, lines(r" dd ", r"^\d+", r"\d+$")),
    "biostacks": Tool(_WRITES, totals()),
    "bitesize": Tool(_WRITES, totals()),
    "cpuwalk": Tool("ACTS work work", totals(_OF_CLOCKS)),
    "execsnoop": Tool("ACTS exec; ACTS exec", lines("true one two", r"^\S+ +\d+ +\d+")),
    "gethostlatency": Tool(f"{PYTHON} -c \"import socket; socket.getaddrinfo('localhost', 80)\"", lines("localhost")),
    "killsnoop": Tool("ACTS kill kill", lines(_PARTS)),
    "loads": Tool("ACTS work", lines("load averages")),
    "naptime": Tool("ACTS sleep; ACTS sleep", lines(_PARTS)),
    "opensnoop": Tool("ACTS read miss read", lines(_PARTS)),
    "pidpersec": Tool("for i in 1 2 3 4 5 6 7 8 9 10; do ACTS fork fork; done", rates()),
    "runqlat": Tool("ACTS work sleep fork", totals()),
    "runqlen": Tool("ACTS work", totals(_OF_CLOCKS)),
    "setuids": Tool(f"{PYTHON} -c 'import os; os.setuid(0); os.setresuid(0, 0, 0)'", lines("setuid|setresuid")),
    "statsnoop": Tool("stat /no/such/file; stat /etc/hostname", lines(r"\bstat\b")),
    "syncsnoop": Tool("sync -d /etc/hostname; sync", lines(r"\bsync\b")),
    "syscount": Tool("for i in 1 2 3 4 5 6 7 8 9; do ACTS write; done", lines(r"@process\[acts\]|@syscall\[9[0-9]+\]")),
    "tcpdrop": Tool(
        # What a connection has sent when its listener is closed is dropped.
        f"{PYTHON} -c \"import socket; from socket import create_server as s, AF_INET6 as six, create_connection as c\n"
        "for a in s(('127.0.0.1', 0)), s(('::1', 0), family=six): c(a.getsockname()[:2]).send(b'x'); a.close()\"",
        lines(r"127\.0\.0\.1|::1|tcp_disconnect"),
    ),
    "threadsnoop": Tool(
        "THREADS 3 1 </dev/null", lines("threads"),
    ),
    "writeback": Tool(
        f"dd if=/dev/zero of={WRITTEN} bs=1M count=8 status=none; sync", lines("sync", r"\d+$")
    ),
}  # fmt: skip
"""By the name of the file, without .bt. What is not here needs probes that no event of this kernel stands for."""
