"""without_bpf.py COMMAND…: runs COMMAND on a kernel that knows no bpf(), as far as it can tell.

A seccomp filter (seccomp(2)) answers bpf(2) with ENOSYS, for the command and all it starts. x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22
_SECCOMP_MODE_FILTER = 2
_RET_ERRNO, _RET_ALLOW = 0x0005_0000, 0x7FFF_0000
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_OFFSET_NR, _OFFSET_ARCH = 0, 4  # in struct seccomp_data
_AUDIT_ARCH_X86_64 = 0xC000_003E
_NR_BPF = 321

FILTER = (
    # code, jumps if true and if false, operand
    (_LOAD_WORD, 0, 0, _OFFSET_ARCH),
    (_JUMP_IF_EQUAL, 0, 3, _AUDIT_ARCH_X86_64),
    (_LOAD_WORD, 0, 0, _OFFSET_NR),
    (_JUMP_IF_EQUAL, 0, 1, _NR_BPF),
    (_RETURN, 0, 0, _RET_ERRNO | errno.ENOSYS),
    (_RETURN, 0, 0, _RET_ALLOW),
)


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def forbid_bpf() -> None:
    """From here on bpf() is answered with ENOSYS, in this process and its children."""
    libc = ctypes.CDLL(None, use_errno=True)
    text = b"".join(struct.pack("=HBBI", *instruction) for instruction in FILTER)
    program = _SockFprog(len(FILTER), text)
    for call in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl failed")


if __name__ == "__main__":
    forbid_bpf()
    os.execvp(sys.argv[1], sys.argv[1:])
