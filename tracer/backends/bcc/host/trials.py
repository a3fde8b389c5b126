"""Trials of what this kernel's BPF can do: each question is one small program or map, thrown away again."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable
from functools import lru_cache

from tracer.backends.bcc.host.callbacks import TAG, for_element, for_round, joined
from tracer.backends.bcc.host.refused import LONGEST_OLD_KEY
from tracer.host.maps import mappings
from tracer.kernel import bpf
from tracer.kernel.bpf import MapType
from tracer.kernel.disabled import is_disabled
from tracer.opening import opened

_EXIT = bytes.fromhex("b700000000000000" "9500000000000000")
"""r0 = 0; exit."""

# u64 seen in an array, one more: r1 = 0; *(u32 *)(fp - 4) = r1; r2 = fp; r2 += -4; r1 = map ll; call lookup;
# if r0 == 0 goto +2; r1 = 1; lock *(u64 *)r0 += r1; r0 = 0; exit. The descriptor goes into the map instruction.
_COUNT_HEAD = bytes.fromhex("b701000000000000" "631afcff00000000" "bfa2000000000000" "07020000fcffffff")
_COUNT_TAIL = bytes.fromhex(
    "8500000001000000" "1500020000000000" "b701000001000000" "db10000000000000" "b700000000000000" "9500000000000000"
)

# The same with bpf_copy_from_user(fp - 8, 1, 0): r1 = fp; r1 += -8; r2 = 1; r3 = 0; call 148; r0 = 0; exit.
_WAIT = bytes.fromhex(
    "bfa1000000000000" "07010000f8ffffff" "b702000001000000" "b703000000000000" "8500000094000000"
    "b700000000000000" "9500000000000000"
)

# The same with bpf_probe_read_kernel(fp - 8, 1, 0), helper 113.
_COPY = _WAIT[:32] + bytes.fromhex("8500000071000000") + _WAIT[40:]

# u64 on the stack, one more, and what it was: r1 = 1; *(u64 *)(fp - 8) = r1; r1 = fetch_add(fp - 8, r1); r0 = 0; exit.
_ADD_AND_READ = bytes.fromhex(
    "b701000001000000" "7b1af8ff00000000" "db1af8ff01000000" "b700000000000000" "9500000000000000"
)

# Looks up key 0 of a hash: *(u64 *)(fp - 8) = 0; r2 = fp; r2 += -8; r1 = map ll; call lookup; r0 = 0; exit.
_LOOK_HEAD = bytes.fromhex("b701000000000000" "7b1af8ff00000000" "bfa2000000000000" "07020000f8ffffff")
_LOOK_TAIL = bytes.fromhex("8500000001000000" "b700000000000000" "9500000000000000")

# Walks a hash: r1 = 0; *(u64 *)(fp - 8) = r1; *(u64 *)(fp - 16) = r1; r3 = fp; r3 += -16; r4 = 0; r1 = map ll;
# r2 = function ll; call 164; r0 = 0; exit.
_WALK_HEAD = bytes.fromhex(
    "b701000000000000" "7b1af8ff00000000" "7b1af0ff00000000" "bfa3000000000000" "07030000f0ffffff" "b704000000000000"
)
_WALK_TAIL = bytes.fromhex("85000000a4000000" "b700000000000000" "9500000000000000")

# One round: r1 = 0; *(u64 *)(fp - 8) = r1; r1 = 1; r3 = fp; r3 += -8; r4 = 0; r2 = function ll; call 181; r0 = 0; exit.
_REPEAT_HEAD = bytes.fromhex(
    "b701000000000000" "7b1af8ff00000000" "b701000001000000" "bfa3000000000000" "07030000f8ffffff" "b704000000000000"
)
_REPEAT_TAIL = bytes.fromhex("85000000b5000000" "b700000000000000" "9500000000000000")


# Finds a mapping: *(u64 *)(fp - 8) = 0; call 158 (the current task); r1 = r0; r2 = 0; r3 = function ll;
# r4 = fp; r4 += -8; r5 = 0; call 180; r0 = 0; exit.
_FIND_HEAD = bytes.fromhex(
    "b701000000000000" "7b1af8ff00000000" "850000009e000000" "bf01000000000000" "b702000000000000"
)
_FIND_TAIL = bytes.fromhex(
    "bfa4000000000000" "07040000f8ffffff" "b705000000000000" "85000000b4000000" "b700000000000000" "9500000000000000"
)

# The registers of what the current task runs: call 158; r1 = r0; call 175; r0 = *(u64 *)(r0 + 0); r0 = 0; exit.
_REGISTERS = bytes.fromhex(
    "850000009e000000" "bf01000000000000" "85000000af000000" "7900000000000000" "b700000000000000" "9500000000000000"
)

_NOBODY = 0xFFFF_FFFF
"""-1 as the kernel's pid_t."""


def bpf_error() -> int:
    """0 where programs of our type can be loaded, else the errno: ENOSYS without bpf(), EPERM without the right."""
    if is_disabled("bpf"):
        return errno.ENOSYS
    try:
        os.close(bpf.program_load(_EXIT, "tracer_try"))
    except OSError as error:
        return error.errno or errno.EINVAL
    return 0


def has(feature: str) -> bool:
    """Whether this kernel has one of the features that are tried with one program or map, a key of `_TRIALS`."""
    return not is_disabled(feature) and _takes(feature)


@lru_cache(maxsize=16)
def _takes(feature: str) -> bool:
    try:
        os.close(_TRIALS[feature]())
    except OSError:
        return False
    return True


def _look_late() -> int:
    """A program that looks into a hash that is not preallocated.

    Before Linux 6.1 the kernel warns in its log when a program that adds to such a hash is loaded, once (5.10 does),
    which kernel.panic_on_warn makes a panic. So it is asked by a program of another type, which kernels refuse without
    a warning: 5.10 and others before 5.14 do not know the type, those before 6.1 take no such map in one that sleeps.
    """
    hash = bpf.map_create(MapType.HASH, 8, 8, 1, bpf.F_NO_PREALLOC)
    try:
        code = _LOOK_HEAD + struct.pack("=BBhiBBhi", 0x18, 0x11, 0, hash, 0, 0, 0, 0) + _LOOK_TAIL
        return bpf.program_load(code, "tracer_try", sleepable=True, kind=bpf.SYSCALL)
    finally:
        os.close(hash)


def _walk() -> int:
    """A program that walks a hash and does nothing with what is in it (bpf_for_each_map_elem, Linux 5.13)."""
    hash = bpf.map_create(MapType.HASH, 8, 8, 1)
    try:
        loads = struct.pack("=BBhiBBhiBBhiiI", 0x18, 0x11, 0, hash, 0, 0, 0, 0, 0x18, 2, 0, 0, 0, TAG)
        code, functions = joined(_WALK_HEAD + loads + _WALK_TAIL, {0: for_element(_EXIT)})
        return bpf.program_load(code, "tracer_try", functions=functions)
    finally:
        os.close(hash)


def _repeat() -> int:
    """A program with a loop of one round, of which the kernel calls back a function (bpf_loop, Linux 5.17)."""
    load = struct.pack("=BBhiiI", 0x18, 2, 0, 0, 0, TAG)
    code, functions = joined(_REPEAT_HEAD + load + _REPEAT_TAIL, {0: for_round(_EXIT)})
    return bpf.program_load(code, "tracer_try", functions=functions)


def _find() -> int:
    """A program that finds the mapping of an address and does nothing with it (bpf_find_vma, Linux 5.17)."""
    load = struct.pack("=BBhiiI", 0x18, 3, 0, 0, 0, TAG)
    code, functions = joined(_FIND_HEAD + load + _FIND_TAIL, {0: _EXIT})
    return bpf.program_load(code, "tracer_try", functions=functions)


_TRIALS: dict[str, Callable[[], int]] = {
    "ring": lambda: bpf.map_create(MapType.RINGBUF, 0, 0, os.sysconf("SC_PAGESIZE")),
    "sleepable": lambda: bpf.program_load(_WAIT, "tracer_try", sleepable=True),
    "kernel_reads": lambda: bpf.program_load(_COPY, "tracer_try"),
    "atomics": lambda: bpf.program_load(_ADD_AND_READ, "tracer_try"),
    "long_keys": lambda: bpf.map_create(MapType.HASH, LONGEST_OLD_KEY + 8, 8, 1, bpf.F_NO_PREALLOC),
    "late_allocation": _look_late,
    "walks": _walk,
    "repeats": _repeat,
    "mappings": _find,
    "user_registers": lambda: bpf.program_load(_REGISTERS, "tracer_try"),
}
"""What to give the kernel, by the name in `disabled`, which says what each is."""


@lru_cache(maxsize=2)
def has_multi(one_process: bool) -> bool:
    """Whether one link takes many sites (Linux 6.6), for one process or for all.

    Kernels 6.6 to 6.9 compared the task and not its memory (fixed by 46ba0e49b642), so that a link for one process saw
    one thread of it. A trial of that takes some 35 ms, for the kernel waits when a link is closed. Nearly always it can
    be spared: the kernel has the mend that refuses process -1 since then too.
    """
    if is_disabled("uprobe_multi") or _link_to_a_directory(None) != errno.EBADF:
        return False
    return not one_process or _link_to_a_directory(_NOBODY) == errno.EINVAL or _sees_other_threads()


def _link_to_a_directory(pid: int | None) -> int:
    """The errno of a link that nothing can come of: EBADF where the kernel looks at the file, EINVAL before that."""
    try:
        program = bpf.program_load(_EXIT, "tracer_try", multi=True)
    except OSError as error:
        return error.errno or errno.EINVAL
    directory = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.close(bpf.link_uprobes(program, directory, [0], None, pid=pid, returns=False).make())
    except OSError as error:
        return error.errno or errno.EINVAL
    finally:
        os.close(directory)
        os.close(program)
    return 0


def _sees_other_threads() -> bool:
    """A trial with a link for this process to a function of libc, which a second thread calls."""
    place = _trial_place()
    if place is None:
        return False
    path, offset, call = place
    descriptors: list[int] = []
    try:
        counter = bpf.map_create(MapType.ARRAY, 4, 8, 1)
        descriptors.append(counter)
        code = _COUNT_HEAD + struct.pack("=BBhiBBhi", 0x18, 0x11, 0, counter, 0, 0, 0, 0) + _COUNT_TAIL
        program = bpf.program_load(code, "tracer_try", multi=True)
        descriptors.append(program)
        file = opened(path)
        descriptors.append(file)
        descriptors.append(bpf.link_uprobes(program, file, [offset], None, pid=os.getpid(), returns=False).make())
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return bpf.map_lookup(counter, b"\0" * 4, 8) not in (None, b"\0" * 8)
    except OSError:
        return False
    finally:
        for descriptor in reversed(descriptors):
            os.close(descriptor)


def _trial_place() -> tuple[bytes, int, Callable[[], object]] | None:
    """A function of libc that hardly anybody calls: file, offset there, and how to call it."""
    try:
        function = ctypes.CDLL(None).a64l
    except AttributeError:
        return None
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    for mapping in mappings(os.getpid()):
        if mapping.start <= address < mapping.end and mapping.path.startswith("/"):
            return os.fsencode(mapping.path), address - mapping.start + mapping.offset, lambda: function(b"a")
    return None


def counts_semaphores() -> bool:
    """Whether attaching to a site raises its semaphore (ref_ctr_offset, Linux 4.20); links always could."""
    if is_disabled("ref_ctr"):
        return False
    return os.path.exists("/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset") or has_multi(False)
