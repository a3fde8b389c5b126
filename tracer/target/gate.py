"""The few instructions in which the child of `-c` waits and execs.

The probes of a trace may be anywhere: in libc, in Python, in what they load. What our child runs there while it waits
would count as the command's. So it waits in code of its own, in memory that holds no file that anybody can probe, and
calls nothing but the kernel: it gives back the interpreter's memory, says that it is there, reads the order to go, and
execs.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
from _thread import get_ident
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

# void gate(int go, int report, const char *path, char *const argv[], char *const envp[], const struct range *given):
# madvise(address, size, MADV_DONTNEED) for each range given, to one at 0; write(report, …, 1); read(go, …, 1), and
# exit_group(0) at its end; execve(path, argv, envp); where one of them fails write(report, &result, 8) and
# exit_group(127). The tests have the source.
_CODE = {
    "x86_64": "5589fb4189f44989d54989ce4d89c7498b394885ff7416498b7108ba04000000b81c0000000f054983c110ebe2b80100"
    "00004489e74889e6ba010000000f054885c0782731c089df4889e6ba010000000f0531ff4885c0742d7810b83b000000"
    "4c89ef4c89f64c89fa0f0548890424b8010000004489e74889e6ba080000000f05bf7f000000b8e70000000f05",
    "aarch64": "f303002af403012af50302aaf60303aaf70304aaff4300d1a004c1a8a00000b4820080d2281d80d2010000d4fbffff17"
    "080880d2e003142ae1030091220080d2010000d4a001f8b7e80780d2e003132ae1030091220080d2010000d4c00100b4"
    "c000f8b7a81b80d2e00315aae10316aae20317aa010000d4e00300f9080880d2e003142ae1030091020180d2010000d4"
    "e00f80d2c80b80d2010000d4",
}
_NOEXEC_SEAL = 8  # MFD_NOEXEC_SEAL of linux/memfd.h (6.3): no program, which vm.memfd_noexec may demand
_READ, _EXEC, _PRIVATE = 1, 4, 2
_LEAST, _MOST_RANGES = 1 << 16, 256
"""Smaller parts of memory are not worth a call."""


class Gate:
    """The code, mapped. It is no writable memory that becomes executable, which hardened systems forbid."""

    def __init__(self) -> None:
        """Raises `OSError` where this processor has no such code here, or the kernel gives no memory for it."""
        code = _CODE.get(platform.machine())
        if code is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        file = _memory_file()
        try:
            os.write(file, bytes.fromhex(code))
            libc = ctypes.CDLL(None, use_errno=True)
            libc.mmap.restype = ctypes.c_void_p
            place = libc.mmap(None, ctypes.c_size_t(4096), _READ | _EXEC, _PRIVATE, file, ctypes.c_long(0))
        finally:
            os.close(file)
        if place == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._run = ctypes.CFUNCTYPE(
            None, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
        )(place)

    def wait_and_exec(self, go: int, report: int, path: str, argv: Sequence[str]) -> None:
        """Never returns. `report` gets a byte when this waits, and the negative error number, as eight bytes, where a
        call fails; a byte from `go` says that it may exec, the end of `go` that it may leave.
        """
        words, environment = [*map(os.fsencode, argv)], [key + b"=" + value for key, value in os.environb.items()]
        block = _Block([os.fsencode(path), *words, *environment], 2 * _MOST_RANGES + len(words) + len(environment) + 3)
        places = iter(block.texts)
        path_address = next(places)
        vectors = [block.numbers([*islice(places, len(texts)), 0]) for texts in (words, environment)]
        self._run(go, report, path_address, *vectors, block.numbers([*_given_back(), 0]))


class _Block:
    """Memory that is no part of the interpreter's: what the code reads when that has given back its own."""

    def __init__(self, texts: Sequence[bytes], numbers: int) -> None:
        """Makes a gate with these texts, each ended by a NUL and at its address of `texts`, and room for so many
        numbers.
        """
        size = 8 * numbers
        self._map = mmap.mmap(-1, size + sum(map(len, texts)) + len(texts))  # a shared mapping merges with no other
        self._start = self._end = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.texts: list[int] = []
        for text in texts:
            self.texts.append(self._start + size)
            self._map[size : size + len(text)] = text
            size += len(text) + 1

    def numbers(self, numbers: Sequence[int]) -> int:
        """Writes them down, and returns where."""
        place, words = self._end, struct.pack(f"={len(numbers)}Q", *numbers)
        self._map[place - self._start : place - self._start + len(words)] = words
        self._end += len(words)
        return place


def _given_back() -> list[int]:
    """The memory of the interpreter, which a process that only waits and execs needs no more: address and size of each
    part. As long as it has it, it keeps a copy of all that the tracer changes meanwhile. What holds our stack stays.
    """
    ranges: list[int] = []
    thread_address = get_ident()  # the address of the thread's descriptor, which lies above its stack
    with suppress(OSError), open("/proc/self/maps", "rb") as file:
        for line in file:
            where, access, _, _, inode, *name = line.split(None, 5)
            begin, end = (int(bound, 16) for bound in where.split(b"-"))
            is_heap = inode == b"0" and access == b"rw-p" and (not name or name[0].rstrip() == b"[heap]")
            holds_stack = begin <= thread_address < end
            if is_heap and not holds_stack and end - begin >= _LEAST and len(ranges) < 2 * _MOST_RANGES:
                ranges += [begin, end - begin]
    return ranges


def _memory_file() -> int:
    try:
        return os.memfd_create("tracer", os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError:
        return os.memfd_create("tracer", os.MFD_CLOEXEC)
