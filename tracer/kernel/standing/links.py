"""BPF links, and programs at perf events, as bpf(2) tells them (`struct bpf_link_info` in linux/bpf.h)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tracer.dataclass import dataclass
from tracer.kernel.bpf import bpf
from tracer.kernel.standing import Holder, Standing

_OBJECT_INFO, _PROGRAM_BY_ID, _TASK_FD_QUERY, _LINK_BY_ID, _NEXT_LINK = 15, 13, 20, 30, 31
_PERF_EVENT, _KPROBE_MULTI, _UPROBE_MULTI = 7, 8, 12  # enum bpf_link_type
_IN_FILES = {1: "uprobe", 2: "uretprobe"}  # enum bpf_perf_event_type
_KINDS = {**_IN_FILES, 3: "kprobe", 4: "kretprobe"}
_QUERIED_IN_FILES = {4: "uprobe", 5: "uretprobe"}  # enum bpf_task_fd_type
_QUERIED = {**_QUERIED_IN_FILES, 2: "kprobe", 3: "kretprobe"}
_RETURN = 1  # BPF_F_UPROBE_MULTI_RETURN, BPF_F_KPROBE_MULTI_RETURN
_PATH, _OFFSETS = 4096, 1 << 16


@dataclass(frozen=True, slots=True)
class Program:
    """A BPF program. `runs` and `missed`: None where the kernel does not count them."""

    number: int
    name: str
    runs: int | None
    missed: int | None

    def __str__(self) -> str:
        return f"BPF program {self.number}" + (f" ({self.name})" if self.name else "")


def links(holders: dict[int, tuple[Holder, ...]]) -> Iterator[Standing]:
    """The probes of links; `holders` by the number of the link. Raises `OSError` where bpf(2) is not allowed."""
    for number in _numbers():
        with suppress(OSError):  # it has gone
            fd = bpf(_LINK_BY_ID, struct.pack("=IIII", number, 0, 0, 0))
            try:
                described = _described(fd, holders.get(number, ()))
            finally:
                os.close(fd)
            if described is not None:
                yield described


def queried(pid: int, fd: int, holder: Holder) -> Standing | None:
    """The probe of a perf event of a process that runs a BPF program; None where it runs none, or is no probe."""
    text = ctypes.create_string_buffer(_PATH)
    attribute = bytearray(struct.pack("=IIIIQIIQQ", pid, fd, 0, len(text), ctypes.addressof(text), 0, 0, 0, 0))
    try:
        _fill(_TASK_FD_QUERY, attribute)
    except OSError:
        return None
    *_, program, kind, offset, _ = struct.unpack("=IIIIQIIQQ", attribute)
    if kind not in _QUERIED:
        return None
    name = text.value.decode("utf-8", "surrogateescape")
    place = f"{name}:{offset:#x}" if kind in _QUERIED_IN_FILES else f"{name}+{offset:#x}"
    loaded = _program(program)
    return Standing(_QUERIED[kind], place, 1, str(loaded), loaded.runs, loaded.missed, (holder,))


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        attribute = bytearray(struct.pack("=IIII", number, 0, 0, 0))
        try:
            _fill(_NEXT_LINK, attribute)
        except FileNotFoundError:
            return
        number = struct.unpack_from("=I", attribute, 4)[0]
        yield number


def _fill(command: int, attribute: bytearray) -> None:
    """Runs a command that writes into its attribute."""
    buffer = (ctypes.c_char * len(attribute)).from_buffer(attribute)
    from tracer.kernel.syscall import call, number_of

    call(number_of("bpf"), ctypes.c_int(command), buffer, ctypes.c_uint(len(attribute)))


def _info(fd: int, size: int, prepare: Callable[[bytearray], None] = lambda info: None) -> bytes:
    info = bytearray(size)
    prepare(info)
    buffer = (ctypes.c_char * size).from_buffer(info)
    _fill(_OBJECT_INFO, bytearray(struct.pack("=IIQ", fd, size, ctypes.addressof(buffer))))
    return bytes(info)


def _described(fd: int, holders: Sequence[Holder]) -> Standing | None:
    kind, _, number = struct.unpack_from("=III", _info(fd, 64))
    path = ctypes.create_string_buffer(_PATH)
    if kind == _UPROBE_MULTI:
        info = _info(fd, 64)
        count = struct.unpack_from("=I", info, 16 + 36)[0]
        offsets = (ctypes.c_uint64 * max(count, 1))()

        def room(info: bytearray) -> None:
            struct.pack_into("=QQQQII", info, 16, ctypes.addressof(path), ctypes.addressof(offsets), 0, 0, _PATH, count)

        _, _, _, _, _, count, flags, _ = struct.unpack_from("=QQQQIIII", _info(fd, 64, room), 16)
        name = "uretprobe" if flags & _RETURN else "uprobe"
        return _standing(name, f"{_text(path)}:{offsets[0]:#x}", count, number, holders)
    if kind == _KPROBE_MULTI:
        _, count, flags, missed = struct.unpack_from("=QIIQ", _info(fd, 64), 16)
        name = "kretprobe" if flags & _RETURN else "kprobe"
        return _standing(name, "", count, number, holders, missed)
    if kind != _PERF_EVENT:
        return None
    type = struct.unpack_from("=I", _info(fd, 64), 16)[0]
    if type not in _KINDS:
        return None

    def name_room(info: bytearray) -> None:
        struct.pack_into("=QI", info, 24, ctypes.addressof(path), _PATH)

    info = _info(fd, 80, name_room)
    offset = struct.unpack_from("=I", info, 36)[0]
    if type in _IN_FILES:
        return _standing(_KINDS[type], f"{_text(path)}:{offset:#x}", 1, number, holders)
    missed = struct.unpack_from("=Q", info, 48)[0]
    return _standing(_KINDS[type], f"{_text(path)}+{offset:#x}", 1, number, holders, missed)


def _standing(
    kind: str, place: str, count: int, program: int, holders: Sequence[Holder], missed: int | None = None
) -> Standing:
    loaded = _program(program)
    misses = loaded.missed if missed is None else missed
    return Standing(kind, place, count, str(loaded), loaded.runs, misses, tuple(holders))


def _text(buffer: ctypes.Array[ctypes.c_char]) -> str:
    return buffer.value.decode("utf-8", "surrogateescape")


def _program(number: int) -> Program:
    """Asks the kernel about a program. It counts runs where kernel.bpf_stats_enabled is set, and else none."""
    try:
        fd = bpf(_PROGRAM_BY_ID, struct.pack("=IIII", number, 0, 0, 0))
    except OSError:
        return Program(number, "", None, None)
    try:
        info = _info(fd, 224)
    finally:
        os.close(fd)
    name = info[64:80].split(b"\0")[0].decode(errors="replace")
    _, runs, missed = struct.unpack_from("=QQQ", info, 192)
    return Program(number, name, runs if counts_runs() else None, missed)


def counts_runs() -> bool:
    """Whether the kernel counts the runs of BPF programs now."""
    try:
        with open("/proc/sys/kernel/bpf_stats_enabled") as file:
            return file.read().strip() != "0"
    except OSError:
        return False
