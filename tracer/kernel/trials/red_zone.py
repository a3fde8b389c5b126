"""Five-byte nops, which Linux makes into calls from 6.18 on: faster where a trap is slow, but not harmless.

A probe on such a nop (`nopl 0(%rax,%rax,1)`) is a breakpoint at its first hit; then the kernel writes a call of a
trampoline over it, and the call writes a return address below the stack pointer. The ABI lets a function that calls
nothing keep data there, in the 128 bytes of the red zone (System V ABI for x86-64, 3.2.2): of a hundred thousand calls
of such a function 99,999 went wrong (tried on 6.18). So a USDT site `nop; nop5` is probed at its first nop, which every
hit passes as well; here the two cost the same, 0.41 us. Where somebody names a five-byte nop itself, in a function that
may have data there, the probe is refused if the kernel does such a thing.
"""

from __future__ import annotations

import ctypes
import errno
import platform
from functools import lru_cache

_UPROBE_CALL = 336
"""The system call of the trampoline (x86-64); a kernel without it rewrites nothing."""

# mov %rdi,-8(%rsp); nopl 0(%rax,%rax,1); mov -8(%rsp),%rax; ret
_LEAF = bytes.fromhex("48897c24f8" "0f1f440000" "488b4424f8" "c3")
_NOP = 5


@lru_cache(maxsize=1)
def spoils_red_zone() -> bool:
    """Whether a probe on a five-byte nop changes what lies below the stack pointer: by one in a function of our own.
    True where that cannot be tried.
    """
    if platform.machine() != "x86_64" or not has_trampolines():
        return False
    from tracer.kernel.trials.scratch import Scratch  # such a nop is seldom probed

    try:
        with Scratch(_LEAF) as scratch:
            scratch.probe(_NOP)
            leaf = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(scratch.address)
            # The first call is trapped and makes the nop a call; then it is one.
            return any(leaf(number) != number for number in range(1, 4))
    except OSError:
        return True


def has_trampolines() -> bool:
    """Made outside of a trampoline the call does nothing: ENXIO on 6.18, EPROTO on 7.2, ENOSYS before."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(_UPROBE_CALL) == 0 or ctypes.get_errno() != errno.ENOSYS
