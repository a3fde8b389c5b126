"""Read leases (fcntl(2), F_SETLEASE): a process that opens a file for writing waits until the lease on it is returned.

A probe belongs to a place in a file, whatever instruction is there later, so a file must not be written while it is
probed. How the kernel behaves (Linux 6.18 and 6.1):

- ext4, tmpfs, overlayfs and read-only bind mounts give leases. There is none on a file that is open for writing
  (EAGAIN), on another user's without CAP_LEASE (EACCES), and where the file system has none (EINVAL).
- Any open for writing asks for it back, though nothing may be written (O_RDWR, touch(1)), and so does truncate(2).
  Until then it waits, but with O_NONBLOCK (touch, truncate(1)) it fails with EAGAIN; touch then does without.
- Renaming over the file, unlinking it (ld, install, tar, dpkg), chmod(2) and chown(2) do not ask: what maps the old
  file keeps it. Nor does running it. To open a file that runs for writing fails by itself (ETXTBSY).
- On overlayfs who writes through the overlay asks, also where the lease is on the file of the upper layer. Who writes
  to the upper layer itself does not ask for a lease on the overlay's file.
- Each tracer has its own lease, and the writer waits for all. A lease goes with the last descriptor of its open file:
  where another process has one (`descriptors`), killing the tracer does not give it back. One that is not given back
  ends after 45 s (/proc/sys/fs/lease-break-time).
- The signal can be any (F_SETSIG), and can be for one thread alone (F_SETOWN_EX), where it waits even if it is blocked.
  SIGCONT goes on with a tracer that was stopped (SIGSTOP, Ctrl-Z), whichever thread it is for.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import signal
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress

from tracer.opening import opened

_F_SETOWN_EX, _OWNER_THREAD = 15, 0  # linux/fcntl.h
_PATIENCE_S = 3.0
"""For a thread to begin, and to end: it does neither where memory is wanting."""
MOST = 256
"""The most files with a lease: they are checked one by one when the signal has come."""

_REASONS = {
    errno.EAGAIN: "it is open for writing",
    errno.EINVAL: "its file system gives none",
    errno.EACCES: "it is another user's, and CAP_LEASE is missing",
}


class Leases:
    """Leases on files from `take` to `release`, in any thread. `wanted` is the first file that somebody is about to
    write; when there is one `tell` is called, in the thread that waits for the signal. `refused` are files without a
    lease, and why.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        self.wanted: str | None = None
        self.refused: dict[str, str] = {}
        self._tell = tell
        self._files: dict[int, str] = {}
        self._thread = self._number = 0
        self._released = False
        self._ended = _thread.allocate_lock()
        self._looking = _thread.allocate_lock()

    def take(self, paths: Iterable[str]) -> None:
        """Takes a lease on each file, where the kernel gives one; can be called again."""
        try:
            owner = struct.pack("ii", _OWNER_THREAD, self._watched())
        except (RuntimeError, MemoryError) as error:
            self.refused.update(dict.fromkeys(paths, str(error) or "no thread can be started"))
            return
        for path in paths:
            try:
                if len(self._files) == MOST:
                    raise OSError(0, f"{MOST} files have one")
                descriptor = opened(path)
                try:
                    fcntl.fcntl(descriptor, _F_SETOWN_EX, owner)
                    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGCONT)
                    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                except OSError:
                    os.close(descriptor)
                    raise
            except OSError as error:
                self.refused[path] = _REASONS.get(error.errno or 0, error.strerror or "")
            else:
                self._files[descriptor] = path
        self._look()  # the signal may have come before the file was in the table

    def release(self) -> None:
        """Gives all back: who waits goes on."""
        if self._thread:
            self._released = True
            with suppress(OSError):  # it has ended
                signal.pthread_kill(self._thread, signal.SIGCONT)
            self._thread = 0
            self._ended.acquire(timeout=_PATIENCE_S)
        files, self._files = self._files, {}
        for descriptor in files:
            with suppress(OSError):  # the kernel has waited long enough
                # Not by closing alone: a process that was forked may have the file open.
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            os.close(descriptor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """A lease lasts until all copies of its descriptor are closed, or it is released."""
        return tuple(self._files)

    def replaced(self) -> list[str]:
        """The files of which another has the name by now."""
        paths = []
        for descriptor, path in self._files.items():
            with suppress(OSError):  # there is none of that name
                if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    paths.append(path)
        return paths

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def _watched(self) -> int:
        """Starts the thread that waits for the signal, unless it runs; its number for the kernel."""
        if self._thread:
            return self._number
        numbered = _thread.allocate_lock()
        numbered.acquire()
        numbers: list[int] = []

        def watch() -> None:
            try:
                try:
                    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCONT,))
                    numbers.append(_thread.get_native_id())
                finally:
                    numbered.release()
                while not self._released:
                    signal.sigwait((signal.SIGCONT,))
                    self._look()
            except (OSError, MemoryError):
                pass  # who starts it, or waits for its end, does without it
            finally:
                self._ended.release()

        self._ended.acquire()
        self._thread = _thread.start_new_thread(watch, ())
        if not numbered.acquire(timeout=_PATIENCE_S) or not numbers:
            self._thread = 0
            raise RuntimeError("no thread can wait for its signal")
        self._number = numbers[0]
        return self._number

    def _look(self) -> None:
        with self._looking:
            for descriptor, path in list(self._files.items()):
                self._check(descriptor, path)

    def _check(self, descriptor: int, path: str) -> None:
        if self.wanted is None and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) != fcntl.F_RDLCK:
            self.wanted = path
            self._tell()
