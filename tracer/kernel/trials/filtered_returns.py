"""Return probes in sandboxed programs, which Linux 6.11 to 6.13 end.

From 6.11 on x86-64's return probes come back into the kernel by a system call of their own, uretprobe(2). The seccomp
filters of systemd's services and others did not know it, and ended them (github.com/systemd/systemd/issues/34615).
Linux 6.14 lets that call pass by all filters, as newer 6.12 do (tried on 6.12.117). So it is tried: a thread of ours
forbids itself the call, and returns from a probed function.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading
from functools import lru_cache

_URETPROBE = 335
_FROM, _FIXED = (6, 11), (6, 14)
"""The first release with the call, and the first of which every kernel lets it pass."""

_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # prctl(2)
_ALLOW, _FAIL = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with EPERM
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # classic BPF: the word at k, a jump over jt or jf instructions, the end

# push %rbx; call leaf; mov $1,%eax; pop %rbx; ret
# leaf: lea failed(%rip),%rax; ret
# failed: xor %eax,%eax; pop %rbx; ret
_CODE = bytes.fromhex("53 e807000000 b801000000 5b c3  488d0501000000 c3  31c0 5b c3")
_LEAF = 13
"""A call that fails lets the kernel's trampoline return to the function's value, taken for an address."""


@lru_cache(maxsize=1)
def end_filtered_programs() -> bool:
    """Whether a return probe ends a program whose seccomp filter does not know of uretprobe(2); true too where that
    cannot be tried.
    """
    if platform.machine() != "x86_64" or not _FROM <= _release() < _FIXED:
        return False
    answer: list[bool] = []
    thread = threading.Thread(target=lambda: answer.append(_fails()))
    thread.start()
    thread.join()
    return answer != [False]


def _fails() -> bool:
    """Whether a return probe ends this thread, once its filter forbids the call; it cannot make it any more then."""
    from tracer.kernel.trials.scratch import Scratch

    with Scratch(_CODE) as scratch:
        scratch.probe(_LEAF, returns=True)
        function = ctypes.CFUNCTYPE(ctypes.c_int)(scratch.address)
        return _forbid() and function() != 1


def _forbid() -> bool:
    """Lets uretprobe(2) fail in this thread. False where the kernel has no filters."""
    steps = (_LOAD, 0, 0, 0), (_IF_EQUAL, 0, 1, _URETPROBE), (_RETURN, 0, 0, _FAIL), (_RETURN, 0, 0, _ALLOW)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.prctl(_SECCOMP, _FILTER, program, 0, 0) == 0)


def _release() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()) or 0)
