"""The compiling process: reads C on stdin, writes bytecode to a descriptor. Run by `compiler`, by its path, isolated.

LLVM's memory, what it says on stdout and stderr, and its way of aborting the whole process stay in here. Only the
binding's prototypes are loaded (`bcc.libbcc`), not the package, which takes ten times as long.

    python -I -S compile_child.py BINDING-FOLDER KERNEL-TREE OUTPUT-DESCRIPTOR [CFLAG…]

Output: for each function u32 length of its name, the name, u32 length of its code, the code.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import struct
import sys
import types


def main(folder: str, kernel: str, output: int, flags: list[str]) -> int:
    """Exit status 0, or 1 where libbcc refuses."""
    os.environ["BCC_KERNEL_SOURCE"] = kernel
    package = types.ModuleType("bcc")
    package.__path__ = [folder]
    sys.modules["bcc"] = package
    lib = importlib.import_module("bcc.libbcc").lib
    text = sys.stdin.buffer.read()
    options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    module = lib.bpf_module_create_c_from_string(text, 0, options, len(flags), False, None)
    if not module:
        return 1
    answer = bytearray()
    for index in range(lib.bpf_num_functions(module)):
        name = lib.bpf_function_name(module, index)
        code = ctypes.string_at(lib.bpf_function_start(module, name), lib.bpf_function_size(module, name))
        answer += struct.pack("=I", len(name)) + name + struct.pack("=I", len(code)) + code
    with os.fdopen(output, "wb") as file:
        file.write(answer)
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    sys.stdout.flush()
    # LLVM's destructors take longer than the compilation of a small program, and there is nothing to tidy.
    os._exit(status)
