"""Holds a child between its exec and the first instruction of the new program.

Nothing but ptrace can. It is used for the moment alone, and only where something has to be written into the program's
memory before it runs. With PTRACE_SEIZE the child goes on if this process ends meanwhile, and programs that set the
user id keep it, as the one who traces them is root. All calls come from one thread, as ptrace wants it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

_CONT, _DETACH, _SEIZE, _LISTEN = 7, 17, 0x4206, 0x4208
_TRACE_EXEC = 0x10
_EVENT_EXEC, _EVENT_STOP = 4, 128
_WALL = 0x40000000


class ExecStop:
    """The child stops at its next exec."""

    def __init__(self, pid: int) -> None:
        """Raises `OSError` where that is forbidden, or another debugger has it."""
        self._pid = pid
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.restype = ctypes.c_long
        self._libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._call(_SEIZE, _TRACE_EXEC)

    def wait(self) -> int | None:
        """Returns when it has stopped there, or else its status when it has ended without."""
        while True:
            _, status = os.waitpid(self._pid, _WALL)
            if not os.WIFSTOPPED(status):
                return status
            event, number = status >> 16, os.WSTOPSIG(status)
            if event == _EVENT_EXEC:
                return None
            with suppress(ProcessLookupError):  # it was killed meanwhile, which the next wait tells
                if event == _EVENT_STOP and number != signal.SIGTRAP:
                    self._call(_LISTEN, 0)  # it is stopped, as by SIGSTOP, until SIGCONT
                else:
                    self._call(_CONT, 0 if event else number)

    def release(self) -> None:
        """Lets it go on. Raises `OSError` where it was killed meanwhile, or stays stopped."""
        self._call(_DETACH, 0)

    def _call(self, request: int, data: int) -> None:
        if self._libc.ptrace(request, self._pid, None, data) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
