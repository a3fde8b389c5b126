"""bpf(2) for maps and programs, and nothing above it: one function per command, descriptors as ints. What a program
runs at stands in `links`.

Attributes are packed as linux/bpf.h lays them out; zeros behind the fields that we know are what the kernel asks of
callers older or newer than itself. Failures are `OSError` with the kernel's errno, and for programs `ProgramRefused`
with the verifier's log, which is asked for only after a first refusal since writing it is slow.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from enum import IntEnum

from tracer.kernel.syscall import call

_NUMBERS = {"x86_64": (321, 298), "aarch64": (280, 241)}
"""Syscall numbers of bpf and perf_event_open (asm/unistd_64.h, asm-generic/unistd.h)."""
BPF, PERF_EVENT_OPEN = 0, 1

_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _MAP_NEXT = 0, 1, 2, 3, 4
_PROG_LOAD, _PROG_RUN, _MAP_LOOKUP_BATCH, _MAP_UPDATE_BATCH, _MAP_DELETE_BATCH = 5, 10, 24, 26, 27
_INFO_BY_FD, _ENABLE_STATS = 15, 32
_PROG_INFO_SIZE = 208  # struct bpf_prog_info up to run_time_ns and run_cnt (Linux 5.1)

_PROG_TYPE_SOCKET_FILTER, _PROG_TYPE_KPROBE, _PROG_TYPE_TRACEPOINT, _PROG_TYPE_SYSCALL = 1, 2, 5, 31
_F_SLEEPABLE = 1 << 4
ATTACH_UPROBE_MULTI = 48

UPDATE_ANY, UPDATE_NEW, UPDATE_EXISTING = 0, 1, 2
F_NO_PREALLOC, F_MMAPABLE = 1, 1 << 10


class MapType(IntEnum):
    """The kinds of map that we use (enum bpf_map_type)."""

    HASH = 1
    ARRAY = 2
    PERCPU_HASH = 5
    PERCPU_ARRAY = 6
    RINGBUF = 27


class ProgramRefused(OSError):
    """The kernel did not take a program; `log` is the verifier's, often long."""

    def __init__(self, number: int, log: str) -> None:
        super().__init__(number, os.strerror(number))
        self.log = log


def address(buffer: bytes | bytearray | ctypes.Array[ctypes.c_char] | None) -> int:
    """Where a buffer lies; the caller keeps it alive."""
    if buffer is None:
        return 0
    if isinstance(buffer, bytes):
        return ctypes.cast(ctypes.c_char_p(buffer), ctypes.c_void_p).value or 0
    if isinstance(buffer, bytearray):
        return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
    return ctypes.addressof(buffer)


def number_of(which: int) -> int:
    """The system call's number: of `BPF` or `PERF_EVENT_OPEN`. Raises `OSError`."""
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return numbers[which]


def bpf(command: int, attribute: bytes) -> int:
    """Runs a command. Raises `OSError`."""
    buffer = ctypes.create_string_buffer(attribute, len(attribute))
    return call(number_of(BPF), ctypes.c_int(command), buffer, ctypes.c_uint(len(attribute)))


def map_create(
    kind: MapType, key_size: int, value_size: int, max_entries: int, flags: int = 0, name: str = "tracer"
) -> int:
    """A new map's descriptor (closed on exec, as all BPF descriptors are)."""
    return bpf(
        _MAP_CREATE,
        struct.pack("=IIIIIII16s", kind, key_size, value_size, max_entries, flags, 0, 0, name.encode()[:15]),
    )


def map_lookup(fd: int, key: bytes, size: int) -> bytes | None:
    """The value of a key (`size` bytes: for per-CPU maps eight-byte slots of all possible CPUs), None where absent."""
    value = ctypes.create_string_buffer(size)
    try:
        bpf(_MAP_LOOKUP, struct.pack("=I4xQQQ", fd, address(key), ctypes.addressof(value), 0))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return value.raw


def map_update(fd: int, key: bytes, value: bytes, flags: int = UPDATE_ANY) -> None:
    """Writes one element."""
    bpf(_MAP_UPDATE, struct.pack("=I4xQQQ", fd, address(key), address(value), flags))


def array_fill(fd: int, values: Sequence[bytes]) -> None:
    """Writes the elements of an array, all of its value size, in one call (BPF_MAP_UPDATE_BATCH, Linux 5.6), or one by
    one where the kernel cannot.
    """
    keys = struct.pack(f"={len(values)}I", *range(len(values)))
    joined = b"".join(values)
    try:
        bpf(
            _MAP_UPDATE_BATCH,
            struct.pack("=QQQQIIQQ", 0, 0, address(keys), address(joined), len(values), fd, 0, 0),
        )
    except OSError:
        for index, value in enumerate(values):
            map_update(fd, keys[4 * index : 4 * index + 4], value)


def map_delete(fd: int, key: bytes) -> bool:
    """Deletes one element; False where there was none."""
    try:
        bpf(_MAP_DELETE, struct.pack("=I4xQQQ", fd, address(key), 0, 0))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def map_delete_many(fd: int, keys: Sequence[bytes]) -> None:
    """Deletes elements in one call (BPF_MAP_DELETE_BATCH, Linux 5.6), or one by one where the kernel cannot, or where
    one of them is not there.
    """
    if not keys:
        return
    joined = b"".join(keys)
    try:
        bpf(_MAP_DELETE_BATCH, struct.pack("=QQQQIIQQ", 0, 0, address(joined), 0, len(keys), fd, 0, 0))
    except OSError:
        for key in keys:
            map_delete(fd, key)


def map_keys(fd: int, key_size: int) -> list[bytes]:
    """All keys, one call each: for kernels without batches. A key deleted meanwhile starts the walk anew, so that keys
    may come twice; they are returned once.
    """
    keys: dict[bytes, None] = {}
    previous: bytes | None = None
    following = ctypes.create_string_buffer(key_size)
    while True:
        try:
            bpf(_MAP_NEXT, struct.pack("=I4xQQQ", fd, address(previous), ctypes.addressof(following), 0))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return list(keys)
            raise
        previous = following.raw
        if previous in keys and len(keys) > 1 << 22:
            return list(keys)
        keys[previous] = None


def map_batch(fd: int, key_size: int, value_size: int, chunk: int) -> list[tuple[bytes, bytes]] | None:
    """All elements in a few calls (BPF_MAP_LOOKUP_BATCH, Linux 5.6), or None where the kernel has no batches for it.

    `chunk` elements at a time at least; more where a hash bucket holds more (the kernel answers ENOSPC).
    """
    found: dict[bytes, bytes] = {}
    cursor = ctypes.create_string_buffer(max(key_size, 8))
    following = ctypes.create_string_buffer(max(key_size, 8))
    first = True
    while True:
        keys = ctypes.create_string_buffer(chunk * key_size)
        values = ctypes.create_string_buffer(chunk * value_size)
        attribute = ctypes.create_string_buffer(
            struct.pack(
                "=QQQQIIQQ",
                0 if first else ctypes.addressof(cursor),
                ctypes.addressof(following),
                ctypes.addressof(keys),
                ctypes.addressof(values),
                chunk,
                fd,
                0,
                0,
            ),
            56,
        )
        done = False
        try:
            call(number_of(BPF), ctypes.c_int(_MAP_LOOKUP_BATCH), attribute, ctypes.c_uint(56))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                chunk *= 2
                continue
            if error.errno != errno.ENOENT:
                if first and error.errno in (errno.EINVAL, errno.ENOTSUP, 524):
                    return None
                raise
            done = True
        count = struct.unpack_from("=I", attribute.raw, 32)[0]
        key_bytes, value_bytes = keys.raw, values.raw
        for index in range(count):
            key = key_bytes[index * key_size : (index + 1) * key_size]
            found[key] = value_bytes[index * value_size : (index + 1) * value_size]
        if done:
            return list(found.items())
        first = False
        cursor, following = following, cursor


def program_load(
    code: bytes, name: str, *, sleepable: bool = False, multi: bool = False, kind: int = _PROG_TYPE_KPROBE
) -> int:
    """Loads bytecode and returns the program's descriptor.

    `sleepable` (Linux 6.0) lets it wait for pages; `multi` declares that it will be attached by `link_uprobes` (6.6).
    """
    license_text = b"GPL\0"

    def load(level: int, log: ctypes.Array[ctypes.c_char] | None) -> int:
        return bpf(
            _PROG_LOAD,
            struct.pack(
                "=IIQQIIQII16sII",
                kind,
                len(code) // 8,
                address(code),
                address(license_text),
                level,
                len(log) if log is not None else 0,
                address(log),
                0,
                _F_SLEEPABLE if sleepable else 0,
                name.encode()[:15],
                0,
                ATTACH_UPROBE_MULTI if multi else 0,
            ),
        )

    try:
        return load(0, None)
    except OSError as error:
        number = error.errno or errno.EINVAL
    size = 1 << 20
    while True:
        log = ctypes.create_string_buffer(size)
        try:
            return load(1, log)
        except OSError as error:
            if error.errno == errno.ENOSPC and size < 1 << 26:
                size *= 8
                continue
            raise ProgramRefused(number, log.value.decode("utf-8", "replace")) from None


def program_run(fd: int, data: bytes) -> int:
    """Runs a socket filter once over `data` (at least 14 bytes) and returns what it returns (Linux 4.12)."""
    attribute = ctypes.create_string_buffer(
        struct.pack("=IIIIQQII", fd, 0, len(data), 0, address(data), 0, 0, 0), 48
    )
    call(number_of(BPF), ctypes.c_int(_PROG_RUN), attribute, ctypes.c_uint(48))
    return int(struct.unpack_from("=I", attribute.raw, 4)[0])


def enable_stats() -> int:
    """Lets the kernel count and time the runs of all programs until the descriptor is closed (Linux 5.8)."""
    return bpf(_ENABLE_STATS, struct.pack("=I4x", 0))


def program_runs(fd: int) -> tuple[int, int]:
    """How often a program ran while statistics were on, and the nanoseconds that it took."""
    info = ctypes.create_string_buffer(_PROG_INFO_SIZE)
    bpf(_INFO_BY_FD, struct.pack("=IIQ", fd, _PROG_INFO_SIZE, ctypes.addressof(info)))
    elapsed, runs = struct.unpack_from("=QQ", info.raw, _PROG_INFO_SIZE - 16)
    return int(runs), int(elapsed)


def possible_cpus() -> int:
    """How many slots a per-CPU value has: the highest possible CPU plus one."""
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
        return max(int(part.split("-")[-1]) for part in file.read().strip().split(",")) + 1


SOCKET_FILTER, TRACEPOINT, SYSCALL = _PROG_TYPE_SOCKET_FILTER, _PROG_TYPE_TRACEPOINT, _PROG_TYPE_SYSCALL
