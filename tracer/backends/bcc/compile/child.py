"""The compiling process: reads C on stdin, writes bytecode to a descriptor. Run by `compiler`, by its path, isolated.

LLVM's memory, what it says on stdout and stderr, and its way of aborting the whole process stay in here. Only the
binding's prototypes are loaded (`bcc.libbcc`), not the package, which takes ten times as long.

    python -I -S child.py BINDING-FOLDER KERNEL-TREE OUTPUT-DESCRIPTOR [CFLAG…]

Output: for each function u32 length of its name, the name, u32 length of its code, the code.
Exit status: 0, or `REFUSED` or `NO_ROOM`; any other is a failure, 1 that of Python or LLVM, who use it themselves.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import struct
import sys
import types
from contextlib import suppress

REFUSED = 3
"""libbcc does not take the text."""
NO_ROOM = 4
"""The output cannot be written."""

_NEW_MOUNTS, _BIND, _RECURSIVE, _SLAVE = 0x20000, 0x1000, 0x4000, 0x80000  # linux/sched.h, linux/mount.h


def hide_kernel_symbols() -> None:
    """An empty /proc/kallsyms for this process alone.

    libbcc reads all of it to learn whether the kernel has bpf_probe_read_kernel, which nothing in our programs depends
    on: 120,000 lines in 250 ms, more than the compilation itself takes. Where this is not permitted (no root, a
    container) it still does. The mounts of others stay as they are: nothing is mounted before ours are slaves of
    theirs; what others unmount meanwhile goes here too, and is not kept busy.
    """
    libc = ctypes.CDLL(None)
    libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_void_p]
    if libc.unshare(_NEW_MOUNTS) == 0 and libc.mount(None, b"/", None, _RECURSIVE | _SLAVE, None) == 0:
        libc.mount(b"/dev/null", b"/proc/kallsyms", None, _BIND, None)


def main(folder: str, kernel: str, output: int, flags: list[str]) -> int:
    """The exit status."""
    hide_kernel_symbols()
    os.environ["BCC_KERNEL_SOURCE"] = kernel
    package = types.ModuleType("bcc")
    package.__path__ = [folder]
    sys.modules["bcc"] = package
    lib = importlib.import_module("bcc.libbcc").lib
    text = sys.stdin.buffer.read()
    options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    module = lib.bpf_module_create_c_from_string(text, 0, options, len(flags), False, None)
    if not module:
        return REFUSED
    answer = bytearray()
    for index in range(lib.bpf_num_functions(module)):
        name = lib.bpf_function_name(module, index)
        code = ctypes.string_at(lib.bpf_function_start(module, name), lib.bpf_function_size(module, name))
        answer += struct.pack("=I", len(name)) + name + struct.pack("=I", len(code)) + code
    try:
        with os.fdopen(output, "wb") as file:
            file.write(answer)
    except OSError:
        return NO_ROOM  # there may be none for a traceback either
    return 0


if __name__ == "__main__":
    # Where memory is short this process is to go, not the tracer, which can do without it. Its need is soon over.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    status = main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    sys.stdout.flush()
    # LLVM's destructors take longer than the compilation of a small program, and there is nothing to tidy.
    os._exit(status)
