"""System calls that take a structure and open a descriptor, as values: so that another process can make them (see
`workers.watcher`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from tracer.dataclass import dataclass

_ATTEMPTS = 32
"""The kernel asks to try again where a signal interrupted it (a program's verification: EAGAIN). It may also mean that,
for as long as one likes.
"""

_NUMBERS = {
    "bpf": {"x86_64": 321, "aarch64": 280},
    "perf_event_open": {"x86_64": 298, "aarch64": 241},
}
"""By machine: asm/unistd_64.h, asm-generic/unistd.h."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


@dataclass(frozen=True, slots=True)
class Call:
    """A system call: its number, the arguments before and after the structure, and that. Into it go, each at an offset,
    addresses of further bytes (`pointers`), `descriptors`, and addresses of the names of descriptors (`paths`).
    """

    number: int
    structure: bytes
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    pointers: tuple[tuple[int, bytes], ...] = ()
    descriptors: tuple[tuple[int, int], ...] = ()
    paths: tuple[tuple[int, int], ...] = ()

    def make(self) -> int:
        """Makes it, here. Raises `OSError`."""
        memory = ctypes.create_string_buffer(self.structure, len(self.structure))
        for offset, descriptor in self.descriptors:
            struct.pack_into("=I", memory, offset, descriptor)
        # Not the file's name: another file may have it by now.
        named = [(offset, b"/proc/self/fd/%d\0" % descriptor) for offset, descriptor in self.paths]
        alive = [(offset, ctypes.create_string_buffer(data, len(data))) for offset, data in (*self.pointers, *named)]
        for offset, buffer in alive:
            struct.pack_into("=Q", memory, offset, ctypes.addressof(buffer))
        return call(self.number, *map(ctypes.c_long, self.before), memory, *map(ctypes.c_long, self.after))


def number_of(name: str) -> int:
    """The number of a system call. Raises `OSError` where it is not known for this machine."""
    machine = os.uname().machine
    if machine not in _NUMBERS[name]:
        raise OSError(errno.ENOSYS, f"{name}: unknown system call number on {machine}")
    return _NUMBERS[name][machine]


def call(number: int, *arguments: object) -> int:
    """Makes a system call, again where the kernel asks for it, but not without end. Raises `OSError`."""
    code = 0
    for _ in range(_ATTEMPTS):
        result = int(_libc.syscall(ctypes.c_long(number), *arguments))
        if result >= 0:
            return result
        code = ctypes.get_errno()
        if code not in (errno.EINTR, errno.EAGAIN):
            break
    raise _failed(number, code)


def _failed(number: int, code: int) -> OSError:
    """Named, for `failed_calls`. (What raises it must not hold it: that circle would keep all frames up to the one that
    catches it, with megabytes of buffers.)
    """
    error = OSError(code, os.strerror(code))  # of the subclass for that number
    names = (name for name, numbers in _NUMBERS.items() if number in numbers.values())
    error.__dict__["call"] = next(names, f"system call {number}")
    return error
