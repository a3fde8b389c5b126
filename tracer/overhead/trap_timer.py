r"""What the kernel takes for a uprobe, by the instruction that it is on, measured on this machine: a process of its own
(see `kernel.workers.spawn`) that traps itself some thousand times.

Instructions that the kernel emulates cost 0.5 us, others it executes in a page of its own, single-stepped: 10 us
(Linux 6.18). Which are which differs from kernel to kernel, so each kind is tried. The code lies in a memory file; the
probe on it is of this process alone.

It reads one line of JSON, `{"kinds": [[INSTRUCTION, RETURNS], …], "sample_type": N}`, the instruction in hex digits,
and answers with one: the nanoseconds of CPU time for each kind, or why it cannot be measured. Or `{"rewrites":
INSTRUCTION}`, and the answer is whether the kernel makes it a call (see `kernel.trials.nop10`).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import select
import struct
import sys
import time
from contextlib import suppress

_ROUNDS = 5
_HITS = 200
_ROUND_NS = 4_000_000
"""CPU time of a round where that is more than `_HITS` hits."""

_FEW = 10
_BODY = 64
_RING = 1 << 20
_PMU = "/sys/bus/event_source/devices/uprobe/type"
_PERF_EVENT_OPEN = 298
_ENABLE = 0x2400
_MFD_CLOEXEC, _MFD_EXEC = 1, 0x10

# Executed on its own each must change nothing that the loop needs: what undoes it.
_UNDO = {"55": "5d"}


def loop_code(instruction: bytes, undo: bytes) -> bytes:
    """x86-64: a function of an int n that calls another n times; that one, at `_BODY`, is the instruction and `ret`."""
    head = b"\x53\x89\xfb"  # push %rbx; mov %edi,%ebx
    tail = b"\xff\xcb\x75\xf7\x5b\xc3"  # dec %ebx; jnz to the call; pop %rbx; ret
    call = b"\xe8" + struct.pack("<i", _BODY - len(head) - 5)
    return (head + call + tail).ljust(_BODY, b"\x90") + instruction + undo + b"\xc3"


def measure(instruction: str, returns: bool, sample_type: int) -> float:
    """Nanoseconds of CPU time for a hit. Raises `OSError` or `ValueError` where the kernel refuses it."""
    descriptors: list[int] = []
    place = 0
    try:
        code = loop_code(bytes.fromhex(instruction), bytes.fromhex(_UNDO.get(instruction, "")))
        file, start = code_file(code)
        descriptors.append(file)
        place = map_code(file)
        call = ctypes.CFUNCTYPE(None, ctypes.c_int)(place + start)
        untraced = _time(call, 4 * _HITS) / (4 * _HITS)
        event = probe(file, start + _BODY, returns, sample_type)
        descriptors.append(event)
        ring = mmap.mmap(event, mmap.PAGESIZE + _RING) if sample_type else None
        call(_FEW)  # the first hits find pages and optimise the place, where the kernel does
        hits = max(_HITS, min(int(_HITS * _ROUND_NS / max(_time(call, _HITS), 1)), 10 * _HITS))
        rounds = []
        for _ in range(_ROUNDS):
            if _nobody_waits():
                break
            if ring is not None:
                ring[1032:1040] = ring[1024:1032]  # all that is written is read
            rounds.append(_time(call, hits) / hits)
        return max(sorted(rounds)[len(rounds) // 2] - untraced, 0.0) if rounds else 0.0
    finally:
        unmap_code(place)
        for descriptor in descriptors:
            os.close(descriptor)


def rewrites(instruction: str) -> bool:
    """Whether the kernel has written something else than a breakpoint over such an instruction once it was hit, and
    counts its hits. Raises `OSError` where it takes no probe there.
    """
    before = bytes.fromhex(instruction)
    file, start = code_file(loop_code(before, b""))
    place = map_code(file)
    event = probe(file, start + _BODY)
    ctypes.CFUNCTYPE(None, ctypes.c_int)(place + start)(_FEW)
    there = ctypes.string_at(place + start + _BODY, 1)
    counted = struct.unpack("=Q", os.read(event, 8))[0]
    unmap_code(place)
    return counted == _FEW and there not in (before[:1], b"\xcc")


def _time(call: ctypes._FuncPointer, hits: int) -> int:
    start = time.thread_time_ns()
    call(hits)
    return time.thread_time_ns() - start


def code_file(code: bytes) -> tuple[int, int]:
    """A file in memory and where in it the code begins, somewhere else each time. Raises `OSError`.

    A probe that the kernel has leaked stays known by its inode's address and the offset, with its own instruction, and
    another file's inode may be there later: of lock prefixes at offset 0 one in twenty was let pass, and its breakpoint
    put in; of 900 at offsets of their own none was (Linux 6.18).
    """
    try:
        file = os.memfd_create("tracer_try", _MFD_CLOEXEC | _MFD_EXEC)
    except OSError:  # before Linux 6.3 the flag is unknown, and not needed
        file = os.memfd_create("tracer_try", _MFD_CLOEXEC)
    start = 1 + int.from_bytes(os.urandom(4), "little") % max(mmap.PAGESIZE - len(code) - 1, mmap.PAGESIZE // 2)
    os.pwrite(file, code.ljust(mmap.PAGESIZE - start, b"\0"), start)
    return file, start


def map_code(file: int) -> int:
    """The address of such a page in this process, to be executed. Raises `OSError`."""
    # By hand: a mapping that mmap.mmap cannot write to has no address for ctypes.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_size_t
    size, allowed = ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC
    at: int = libc.mmap(None, size, allowed, mmap.MAP_PRIVATE, file, ctypes.c_long(0))
    if at == ctypes.c_size_t(-1).value:
        raise _last_error("mmap")
    return at


def unmap_code(at: int) -> None:
    """The end of a mapping, 0 for none. Before the probe is closed: then there is no breakpoint to take out, which a
    process that is being killed could not do, and the kernel would keep the probe.
    """
    if at:
        ctypes.CDLL(None).munmap(ctypes.c_void_p(at), ctypes.c_size_t(mmap.PAGESIZE))


def probe(file: int, offset: int, returns: bool = False, sample_type: int = 0) -> int:
    """A perf event on an instruction of such a file, for this process: counting, or sampling into its ring.

    Raises `OSError`.
    """
    with open(_PMU, encoding="ascii") as number:
        kind = int(number.read())
    path = ctypes.create_string_buffer(f"/proc/self/fd/{file}".encode())
    head = struct.pack(
        "=IIQQQQQIIQQ",
        kind, 112, int(returns), 1 if sample_type else 0, sample_type, 0, 0, 1 << 30, 0, ctypes.addressof(path), offset,
    )  # fmt: skip
    attribute = ctypes.create_string_buffer(head.ljust(112, b"\0"), 112)
    who, anywhere, alone, close_on_exec = ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(-1), ctypes.c_ulong(8)
    libc = ctypes.CDLL(None, use_errno=True)
    event: int = libc.syscall(ctypes.c_long(_PERF_EVENT_OPEN), attribute, who, anywhere, alone, close_on_exec)
    if event < 0:
        raise _last_error("perf_event_open")
    fcntl.ioctl(event, _ENABLE, 0)
    return event


def _nobody_waits() -> bool:
    """Whether the tracer has closed its end: it does not kill this process, which could not take its probe out then."""
    poll = select.poll()
    poll.register(1, 0)
    return bool(poll.poll(0))


def _last_error(call: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{call}: {os.strerror(code)}")


def main() -> None:
    """Answers one request."""
    request = json.loads(sys.stdin.buffer.readline())
    if "rewrites" in request:
        try:
            found = rewrites(request["rewrites"])
        except OSError:
            found = False
        os.write(1, json.dumps(found).encode() + b"\n")
        return
    answer: list[float | str] = []
    for instruction, returns in request["kinds"]:
        if _nobody_waits():
            return
        try:
            if os.uname().machine != "x86_64":
                raise ValueError("this is not x86-64")
            answer.append(measure(instruction, returns, request["sample_type"]))
        except (OSError, ValueError) as error:
            answer.append(getattr(error, "strerror", None) or str(error))
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    os.closerange(3, 1 << 16)
    main()
