"""The few instructions in which the child of `-c` waits and execs.

The probes of a trace may be anywhere: in libc, in Python, in what they load. What our child runs there while it waits
would count as the command's. So it waits in code of its own, in memory that holds no file that anybody can probe, and
calls nothing but the kernel: it says that it is there, reads the order to go, and execs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections.abc import Iterable, Sequence

# void gate(int go, int report, const char *path, char *const argv[], char *const envp[]): write(report, …, 1);
# read(go, …, 1), and exit_group(0) at its end; execve(path, argv, envp); where one of them fails write(report, &result,
# 8) and exit_group(127). The tests have the source.
_CODE = {
    "x86_64": "5589fb4189f44989d54989ce4d89c7b8010000004489e74889e6ba010000000f054885c0782731c089df4889e6ba010000000f"
    "0531ff4885c0742d7810b83b0000004c89ef4c89f64c89fa0f0548890424b8010000004489e74889e6ba080000000f05bf7f000000b8e700"
    "00000f05",
    "aarch64": "f303002af403012af50302aaf60303aaf70304aaff4300d1080880d2e003142ae1030091220080d2010000d4a001f8b7e80780"
    "d2e003132ae1030091220080d2010000d4c00100b4c000f8b7a81b80d2e00315aae10316aae20317aa010000d4e00300f9080880d2e00314"
    "2ae1030091020180d2010000d4e00f80d2c80b80d2010000d4",
}
_NOEXEC_SEAL = 8  # MFD_NOEXEC_SEAL of linux/memfd.h (6.3): no program, which vm.memfd_noexec may demand
_READ, _EXEC, _PRIVATE = 1, 4, 2


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
            None, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p
        )(place)

    def wait_and_exec(self, go: int, report: int, path: str, argv: Sequence[str]) -> None:
        """Never returns. `report` gets a byte when this waits, and the negative error number, as eight bytes, where a
        call fails; a byte from `go` says that it may exec, the end of `go` that it may leave.
        """
        environment = [key + b"=" + value for key, value in os.environb.items()]
        self._run(go, report, os.fsencode(path), _pointers(map(os.fsencode, argv)), _pointers(environment))


def _pointers(words: Iterable[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    each = [*words, None]
    return (ctypes.c_char_p * len(each))(*each)


def _memory_file() -> int:
    try:
        return os.memfd_create("tracer", os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError:
        return os.memfd_create("tracer", os.MFD_CLOEXEC)
