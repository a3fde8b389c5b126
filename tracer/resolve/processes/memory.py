"""The memory of other processes, read and written without waiting for pages that may never come.

/proc/PID/mem waits for a page that is not in memory, however long; so does process_vm_readv(2). So the page is looked
up in /proc/PID/pagemap first. If it is not there, it is waited for only in a process in which the kernel itself brings
all pages.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct

from tracer.resolve.processes.stat import directory

_ENTRY = struct.Struct("=Q")
_PRESENT, _WRITES_ARE_SERVED = 1 << 63, 1 << 57
_MOST_S = 1.0


def open_memory(pid: int, write: bool = False) -> int:
    """A descriptor of a process's memory, as it is now: after an exec it reads nothing. Raises `OSError`."""
    return os.open(f"{directory(pid)}/mem", (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)


def read(memory: int, size: int, address: int) -> bytes:
    """As many bytes as are there. Raises `OSError`: EAGAIN where a page may never come."""
    _check(memory, size, address, _PRESENT)
    return os.pread(memory, size, address)


def write(memory: int, data: bytes, address: int) -> None:
    """Writes them. Raises `OSError`: EAGAIN where a page may never come, or a userfaultfd is asked about writes."""
    _check(memory, len(data), address, _PRESENT | _WRITES_ARE_SERVED)
    os.pwrite(memory, data, address)


def _check(memory: int, size: int, address: int, asked: int) -> None:
    home = os.path.dirname(os.readlink(f"/proc/self/fd/{memory}"))
    first, last = address // mmap.PAGESIZE, (address + max(size, 1) - 1) // mmap.PAGESIZE
    try:
        pagemap = os.open(f"{home}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # it has ended, and reads nothing
    try:
        entries = os.pread(pagemap, _ENTRY.size * (last - first + 1), _ENTRY.size * first)
    except (OSError, OverflowError):
        return  # no address of a process
    finally:
        os.close(pagemap)
    if len(entries) % _ENTRY.size == 0 and all(each & asked == _PRESENT for (each,) in _ENTRY.iter_unpack(entries)):
        return
    from tracer.resolve.processes.unserved import unserved_at

    if unserved_at(home, _MOST_S).what is not None:
        raise OSError(errno.EAGAIN, "its page has to come from another process or machine")
