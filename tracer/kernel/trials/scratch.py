"""Test code with probes on it, in this process only: for trying what the kernel does with an instruction."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

from tracer.kernel import perf

_MFD_CLOEXEC, _MFD_EXEC = 1, 0x10


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


class Scratch:
    """A page with the code, mapped to be executed: `address` is where it begins. A context manager."""

    def __init__(self, code: bytes) -> None:
        """Raises `OSError`."""
        self._file, self._start = code_file(code)
        self._events: list[int] = []
        # By hand: a mapping that mmap.mmap cannot write to has no address for ctypes.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_size_t
        size, allowed = ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ | mmap.PROT_EXEC
        self._page: int = libc.mmap(None, size, allowed, mmap.MAP_PRIVATE, self._file, ctypes.c_long(0))
        if self._page == ctypes.c_size_t(-1).value:
            os.close(self._file)
            raise OSError(ctypes.get_errno(), f"mmap: {os.strerror(ctypes.get_errno() or errno.EPERM)}")
        self.address = self._page + self._start

    def probe(self, offset: int, returns: bool = False, sample_type: int = 0) -> int:
        """A perf event on the instruction `at` bytes behind the start: counting, or sampling. Raises `OSError`."""
        call = perf.uprobe_call(self._file, self._start + offset, pid=0, returns=returns, sample_type=sample_type)
        self._events.append(call.make())
        perf.enable(self._events[-1])
        return self._events[-1]

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *error: object) -> None:
        # Before the probe is closed: then there is no breakpoint to take out, which a process that is being killed
        # could not do, and the kernel would keep the probe.
        ctypes.CDLL(None).munmap(ctypes.c_void_p(self._page), ctypes.c_size_t(mmap.PAGESIZE))
        for descriptor in (*self._events, self._file):
            os.close(descriptor)
