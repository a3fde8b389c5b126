"""The commands over events of the kernel, on both backends, beside what the programs themselves count."""

from __future__ import annotations

import json
import re

import pytest

from tests.harness.cli import tracer

COPY = "dd if=/dev/zero of=/dev/null bs=300 count=70 status=none"
WRITE = "tracepoint:syscalls:sys_enter_write"

pytestmark = pytest.mark.parametrize("backend", ["bcc", "ftrace"])


def asked(backend: str, *words: str, command: str = COPY) -> str:
    done = tracer(*words, "--backend", backend, "-q", "-c", command)
    assert done.status == 0, done.err
    return done.text


def test_how_often_and_how_large(backend: str) -> None:
    assert asked(backend, "count", WRITE, "--by", "args.fd, args.count") == "@[1, 300]: 70\n"
    assert "@[tracepoint:syscalls:sys_enter_write]: 70\n" in asked(backend, "count", "tracepoint:syscalls:sys_enter_w*")
    shown = asked(backend, "hist", "tracepoint:syscalls:sys_exit_write", "args.ret")
    assert re.search(r"^\[256, 512\) +70 \|@+\|$", shown, re.M) and ".count = 70, " in shown


def test_each_event_with_its_fields(backend: str) -> None:
    lines = asked(backend, "args", WRITE, "--filter", "args.count == 300").splitlines()
    wanted = r"\{ \.time = [\d:.]+, \.comm = dd, \.pid = \d+, \.tid = \d+, \.probe = tracepoint:\w+:sys_enter_write, "
    wanted += r"\.args = \{ (\.__syscall_nr = 1, )?\.fd = 1, \.buf = 0x[0-9a-f]+, \.count = 300 \} \}"
    assert len(lines) == 70 and all(re.fullmatch(wanted, line) for line in lines), lines[0]
    lines = asked(backend, "trace", WRITE, "%d bytes", "args.count").splitlines()
    assert len(lines) == 70
    assert re.fullmatch(r"[\d:]{8} \d+ +dd +tracepoint:syscalls:sys_enter_write 300 bytes", lines[0])


def test_from_where(backend: str) -> None:
    out = asked(backend, "stacks", "tracepoint:raw_syscalls:sys_enter", "--filter", "args.id == 1", "--kernel",
                "--stacks", "folded")
    stacks = [line.rpartition(" ") for line in out.splitlines()]
    assert sum(int(count) for _, _, count in stacks) == 70
    assert all("write;" in stack and "do_syscall_64_[k]" in stack for stack, _, _ in stacks), out


def test_how_long_between_two(backend: str) -> None:
    ends = [f"tracepoint:syscalls:sys_{end}_write" for end in ("enter", "exit")]
    done = asked(backend, "latency", "span:" + "..".join(ends), "--json")
    maps = [json.loads(line)["data"] for line in done.splitlines()]
    (quantiles,) = [found["@quantiles"] for found in maps if "@quantiles" in found]
    assert quantiles["count"] == 70


def test_a_live_table(backend: str) -> None:
    rows = asked(backend, "top", "tracepoint:syscalls:sys_enter_*w*", "-i", "1s")
    assert re.search(r" 70  tracepoint:syscalls:sys_enter_write$", rows, re.M), rows
