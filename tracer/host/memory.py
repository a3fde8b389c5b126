"""The memory of other processes, read and written without waiting for pages that may never come.

/proc/PID/mem waits for a page that is not in memory, however long; so does process_vm_readv(2). So the page is looked
up in /proc/PID/pagemap first. If it is not there, it is waited for only in a process in which the kernel itself brings
all pages.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tracer.host.stat import directory

_ENTRY = struct.Struct("=Q")
_PRESENT, _WRITES_ARE_SERVED = 1 << 63, 1 << 57
_MOST_S = 1.0
_LONGEST = 8 << 20
_OF_MEMORY = re.compile(rb"/proc/(\d+)(?:/task/\d+)?/(cmdline|environ)")


def open_memory(pid: int, write: bool = False) -> int:
    """A descriptor of a process's memory, as it is now: after an exec it reads nothing. Raises `OSError`."""
    return os.open(f"{directory(pid)}/mem", (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)


def open_pages(memory: int) -> int:
    """Opens the file that `read` and `write` look into first: who reads often opens it once. Raises `OSError`."""
    return os.open(f"{_home(memory)}/pagemap", os.O_RDONLY | os.O_CLOEXEC)


def read(memory: int, size: int, address: int, pages: int | None = None) -> bytes:
    """Reads as many bytes as are there. Raises `OSError`: EAGAIN where a page may never come."""
    _check(memory, size, address, _PRESENT, pages)
    return os.pread(memory, size, address)


def write(memory: int, data: bytes, address: int, pages: int | None = None) -> None:
    """Writes them. Raises `OSError`: EAGAIN where a page may never come, or a userfaultfd is asked about writes."""
    _check(memory, len(data), address, _PRESENT | _WRITES_ARE_SERVED, pages)
    os.pwrite(memory, data, address)


def words_of(pid: int) -> bytes:
    """The words of its command line, each with a NUL after it, or the title that it has written there. Raises
    `OSError`, as `read` does: /proc/PID/cmdline would wait.
    """
    begin, end, next_begin, next_end = _text_areas(pid)
    with _opened(pid) as memory:
        text = read(memory, min(end - begin, _LONGEST), begin)
        if text[-1:] in (b"\0", b"") or next_begin != end:
            return text
        # A title that is longer than the words were goes on over the environment.
        rest = read(memory, min(next_end - next_begin, mmap.PAGESIZE), next_begin)
    return (text + rest).partition(b"\0")[0] + b"\0"


def environment_of(pid: int) -> bytes:
    """The variables that it began with, as far as it has not written there; see `words_of`."""
    _, _, begin, end = _text_areas(pid)
    with _opened(pid) as memory:
        return read(memory, min(end - begin, _LONGEST), begin)


def content_of(path: bytes) -> bytes | None:
    """The content of one of these files of /proc; None of every other file. Raises `OSError`, as `read` does."""
    of_process = _OF_MEMORY.fullmatch(os.path.realpath(path))
    if of_process is None:
        return None
    return (words_of if of_process[2] == b"cmdline" else environment_of)(int(of_process[1]))


def _text_areas(pid: int) -> tuple[int, int, int, int]:
    with open(f"{directory(pid)}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    arguments, after, environment, end = map(int, fields[45:49])  # arg_start and the three that follow it in proc(5)
    return arguments, max(after, arguments), environment, max(end, environment)


@contextmanager
def _opened(pid: int) -> Iterator[int]:
    memory = open_memory(pid)
    try:
        yield memory
    finally:
        os.close(memory)


def _home(memory: int) -> str:
    return os.path.dirname(os.readlink(f"/proc/self/fd/{memory}"))


def _check(memory: int, size: int, address: int, asked: int, pages: int | None) -> None:
    first, last = address // mmap.PAGESIZE, (address + max(size, 1) - 1) // mmap.PAGESIZE
    try:
        pagemap = open_pages(memory) if pages is None else pages
    except OSError:
        return  # it has ended, and reads nothing
    try:
        entries = os.pread(pagemap, _ENTRY.size * (last - first + 1), _ENTRY.size * first)
    except (OSError, OverflowError):
        return  # no address of a process
    finally:
        if pages is None:
            os.close(pagemap)
    if len(entries) % _ENTRY.size == 0 and all(entry & asked == _PRESENT for (entry,) in _ENTRY.iter_unpack(entries)):
        return
    from tracer.host.unserved import unserved_at

    if unserved_at(_home(memory), _MOST_S).what is not None:
        raise OSError(errno.EAGAIN, "its page has to come from another process or machine")
