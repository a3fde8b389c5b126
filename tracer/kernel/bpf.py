"""bpf(2) for maps, programs and links, and nothing above it: one function per command, descriptors as ints.

Attributes are packed as linux/bpf.h lays them out; zeros behind the fields that we know are what the kernel asks of
callers older or newer than itself. Failures are `OSError` with the kernel's errno, and for programs `ProgramRefused`
with the verifier's log, which is asked for only after a first refusal since writing it is slow.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Sequence
from enum import IntEnum

from tracer.kernel.syscall import Call, call, number_of

_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _MAP_DELETE, _MAP_NEXT = 0, 1, 2, 3, 4
_RAW_TRACEPOINT_OPEN, _BTF_LOAD = 17, 18
_PROG_LOAD, _MAP_LOOKUP_BATCH, _MAP_UPDATE_BATCH, _MAP_DELETE_BATCH, _LINK_CREATE = 5, 24, 26, 27, 28

_KPROBE, TRACEPOINT, PERF_EVENT, RAW_TRACEPOINT, SYSCALL = 2, 5, 7, 17, 31  # enum bpf_prog_type
_F_SLEEPABLE = 1 << 4
_LOG_INSTRUCTIONS, _LOG_STATES = 1, 4  # BPF_LOG_LEVEL1, BPF_LOG_STATS
_FUNCTION_INFO = 8  # bytes of struct bpf_func_info
_UPROBE_MULTI, _UPROBE_MULTI_RETURN = 48, 1
_OBJECT_INFO, _MISSES = 15, 208  # where struct bpf_prog_info has its recursion_misses
_PERF_EVENT = 41  # enum bpf_attach_type, as the one before

NOTHING = bytes.fromhex("b700000000000000" "9500000000000000")
"""A program that returns 0."""

UPDATE_ANY, UPDATE_NEW, UPDATE_EXISTING = 0, 1, 2
F_NO_PREALLOC, F_MMAPABLE = 1, 1 << 10


class MapType(IntEnum):
    """The kinds of map that we use (enum bpf_map_type)."""

    HASH = 1
    LRU_HASH = 9
    ARRAY = 2
    PERCPU_HASH = 5
    PERCPU_ARRAY = 6
    LRU_PERCPU_HASH = 10
    RINGBUF = 27


class ProgramRefused(OSError):
    """The kernel did not take a program; `log` is the verifier's, often long."""

    def __init__(self, number: int, log: str) -> None:
        super().__init__(number, os.strerror(number))
        self.log = log


def address(buffer: bytes | bytearray | ctypes.Array[ctypes.c_char] | None) -> int:
    """The address of a buffer, which the caller keeps alive."""
    if buffer is None:
        return 0
    if isinstance(buffer, bytes):
        return ctypes.cast(ctypes.c_char_p(buffer), ctypes.c_void_p).value or 0
    if isinstance(buffer, bytearray):
        return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
    return ctypes.addressof(buffer)


def bpf(command: int, attribute: bytes) -> int:
    """Runs a command. Raises `OSError`."""
    buffer = ctypes.create_string_buffer(attribute, len(attribute))
    return call(number_of("bpf"), ctypes.c_int(command), buffer, ctypes.c_uint(len(attribute)))


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
    """Reads all keys by one call each, for kernels without batches. A key deleted meanwhile starts the walk anew, so
    that keys may come twice; they are returned once.
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
    """Reads all elements in a few calls (BPF_MAP_LOOKUP_BATCH, Linux 5.6); None where the kernel has no batches for it.

    `chunk` elements at a time at least; more where a hash bucket holds more (the kernel answers ENOSPC).
    """
    items: dict[bytes, bytes] = {}
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
            call(number_of("bpf"), ctypes.c_int(_MAP_LOOKUP_BATCH), attribute, ctypes.c_uint(56))
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
            items[key] = value_bytes[index * value_size : (index + 1) * value_size]
        if done:
            return list(items.items())
        first = False
        cursor, following = following, cursor


def btf_load(types: bytes) -> int:
    """The descriptor of types of our own. Raises `OSError`."""
    return bpf(_BTF_LOAD, struct.pack("=QQIII", address(types), 0, len(types), 0, 0))


def program_load(
    code: bytes, name: str, *, sleepable: bool = False, multi: bool = False, kind: int = _KPROBE,
    functions: Sequence[int] = (), explained: bool = True,
) -> int:
    """Loads bytecode and returns the program's descriptor.

    `sleepable` (Linux 6.0) lets it wait for pages; `multi` declares that it will be attached by `link_uprobes` (6.6).
    `functions` is where each of its functions begins, its own first, where the kernel calls some of them back: it asks
    for their types then ("missing btf func_info"), and wants those that are called back to be static. A refusal has the
    kernel's words where it is to be `explained`.
    """
    license_text = b"GPL\0"
    types, starts = 0, b""
    if functions:
        from tracer.kernel import btf

        types = btf_load(btf.of_functions(len(functions)))
        types_of = enumerate(functions, btf.FIRST_FUNCTION)
        starts = b"".join([struct.pack("=II", instruction, type) for type, instruction in types_of])

    def load(level: int, log: ctypes.Array[ctypes.c_char] | None) -> int:
        return bpf(
            _PROG_LOAD,
            struct.pack(
                "=IIQQIIQII16sIIIIQI",
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
                _UPROBE_MULTI if multi else 0,
                types,
                _FUNCTION_INFO if functions else 0,
                address(starts) if functions else 0,
                len(functions),
            ),
        )

    try:
        return _loaded(load, explained)
    finally:
        if functions:
            os.close(types)


def _loaded(load: Callable[[int, ctypes.Array[ctypes.c_char] | None], int], explained: bool = True) -> int:
    """Loads without a log, and where the kernel refuses once more for its words: without those about each instruction
    where it gave up, after a million of them or with 8,192 branches still to follow. They take ten seconds to write and
    say nothing.
    """
    try:
        return load(0, None)
    except OSError as error:
        number = error.errno or errno.EINVAL
    if not explained:
        raise ProgramRefused(number, "")
    size, level = 1 << 20, _LOG_STATES if number in (errno.E2BIG, errno.EFAULT) else _LOG_INSTRUCTIONS
    while True:
        log = ctypes.create_string_buffer(size)
        try:
            return load(level, log)
        except OSError as error:
            if error.errno == errno.ENOSPC and size < 1 << 26:
                size *= 8
                continue
            raise ProgramRefused(number, log.value.decode("utf-8", "replace")) from None


def link_uprobes(
    program: int,
    file: int,
    offsets: Sequence[int],
    references: Sequence[int] | None,
    *,
    pid: int | None,
    returns: bool,
    cookies: Sequence[int] | None = None,
) -> Call:
    """One link for many sites of one file, both given by descriptors (Linux 6.6). `references` are semaphore offsets, 0
    for none; `cookies` tell the program at which site it runs.
    """
    flags = _UPROBE_MULTI_RETURN if returns else 0
    structure = struct.pack("=IIIIQQQQIIII", 0, 0, _UPROBE_MULTI, 0, 0, 0, 0, 0, len(offsets), flags, pid or 0, 0)
    given = ((24, offsets), (32, references), (40, cookies))
    arrays = [(field, values) for field, values in given if values is not None]
    return Call(
        number_of("bpf"),
        structure,
        before=(_LINK_CREATE,),
        after=(len(structure),),
        pointers=tuple((field, struct.pack(f"={len(values)}Q", *values)) for field, values in arrays),
        descriptors=((0, program),),
        paths=((16, file),),
    )


def program_misses(program: int) -> int:
    """Counts the hits at which the kernel did not run a program, since another was running on that CPU (Linux 5.12; 0
    before).
    """
    info = ctypes.create_string_buffer(_MISSES + 8)
    bpf(_OBJECT_INFO, struct.pack("=IIQ", program, len(info), ctypes.addressof(info)))
    misses: int = struct.unpack_from("=Q", info, _MISSES)[0]
    return misses


def link_event(program: int, event: int, cookie: int) -> Call:
    """A link of a program and a perf event, both by descriptors (Linux 5.15). `cookie` tells the program which."""
    structure = struct.pack("=IIIIQ", 0, 0, _PERF_EVENT, 0, cookie)
    return Call(
        number_of("bpf"), structure, before=(_LINK_CREATE,), after=(len(structure),),
        descriptors=((0, program), (4, event)),
    )  # fmt: skip


def raw_tracepoint(name: str, program: int) -> int:
    """Lets a program run at a tracepoint of the kernel while the descriptor that this returns is open (Linux 4.17).
    Raises `OSError`.
    """
    text = name.encode() + b"\0"
    return bpf(_RAW_TRACEPOINT_OPEN, struct.pack("=QI4x", address(text), program))


def possible_cpus() -> int:
    """The number of slots of a per-CPU value: the highest possible CPU plus one."""
    with open("/sys/devices/system/cpu/possible", encoding="utf-8") as file:
        return max(int(part.split("-")[-1]) for part in file.read().strip().split(",")) + 1
