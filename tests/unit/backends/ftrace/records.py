"""Writes what the kernel would: `format` files, and records of a ring."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tracer.backends.ftrace.samples.shape import Shape
from tracer.kernel import perf
from tracer.kernel.uprobe_events.events import EventFormat, Fetch
from tracer.kernel.uprobe_events.format import parse_format

IP = 8  # bytes of `__probe_ip`, which stands between the common fields and ours


def format_text(number: int, fetches: Sequence[Fetch]) -> str:
    """A `format` file as Linux 6.18 writes it."""
    lines = [
        "name: e0", f"ID: {number}", "format:",
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;",
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;", "",
        "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;",
    ]  # fmt: skip
    offset = 8 + IP
    for index, fetch in enumerate(fetches):
        if fetch.is_string:
            size, signed, declared = 4, 1, "__data_loc char[]"
        else:
            size, signed, declared = int(fetch.type[1:]) // 8, int(fetch.type[0] == "s"), fetch.type
        lines.append(f"\tfield:{declared} f{index};\toffset:{offset};\tsize:{size};\tsigned:{signed};")
        offset += size
    return "\n".join([*lines, "", 'print fmt: "(%lx)", REC->__probe_ip', ""])


def event_format(number: int, fetches: Sequence[Fetch]) -> EventFormat:
    return parse_format(format_text(number, fetches), fetches)


class Unread:
    """A string that the kernel could not read; `claimed` bytes stand in its descriptor all the same."""

    def __init__(self, claimed: int = 0) -> None:
        self.claimed = claimed


class Cut:
    """A string that took what room was left: `text` and a NUL."""

    def __init__(self, text: bytes) -> None:
        self.text = text


def sample(
    number: int,
    fetches: Sequence[Fetch],
    values: Sequence[int | bytes | Unread | Cut],
    shape: Shape,
    *,
    pid: int = 100,
    tid: int = 101,
    time: int = 5000,
    cpu: int = 0,
    chain: Sequence[int] = (),
) -> bytes:
    """A PERF_RECORD_SAMPLE with one value for each fetch."""
    format = event_format(number, fetches)
    size = max((field.offset + field.size for field in format.fields.values()), default=8 + IP)
    raw = bytearray(size)
    struct.pack_into("=HBBi", raw, 0, number, 0, 0, tid)
    for index, (fetch, value) in enumerate(zip(fetches, values, strict=True)):
        field = format.fields[f"f{index}"]
        if isinstance(value, int):
            raw[field.offset : field.offset + field.size] = value.to_bytes(
                field.size, "little", signed=field.signed and not fetch.is_string
            )
            continue
        stored, length = b"", 0
        if isinstance(value, Unread):
            length = value.claimed
        else:
            text = value.text if isinstance(value, Cut) else value
            stored = text + b"\0"
            length = len(stored)
        struct.pack_into("=I", raw, field.offset, length << 16 | len(raw))
        raw += stored
    # The raw data with its own length fills whole words (perf_event_open(2)).
    raw += bytes(-(len(raw) + 4) % 8)
    body = struct.pack("=IIQ", pid, tid, time)
    if shape.cpu:
        body += struct.pack("=II", cpu, 0)
    if shape.callchain:
        body += struct.pack(f"=Q{len(chain)}Q", len(chain), *chain)
    body += struct.pack("=I", len(raw)) + raw
    return struct.pack("=IHH", perf.RECORD_SAMPLE, 2, 8 + len(body)) + body


def fork(pid: int, parent: int, time: int) -> bytes:
    """A PERF_RECORD_FORK of a new process, or of a thread where both are the same; `sample_id` follows."""
    return struct.pack("=IHHIIIIQQ", perf.RECORD_FORK, 0, 40, pid, parent, pid + 1, parent, time, time)


def lost(count: int) -> bytes:
    """A PERF_RECORD_LOST."""
    return struct.pack("=IHHQQ", perf.RECORD_LOST, 0, 24, 1, count)
