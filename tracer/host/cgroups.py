"""The numbers of control groups (cgroup v2), by which BPF knows them too."""

from __future__ import annotations

import ctypes
import os
import re
import struct

_AT_FDCWD = -100
_HANDLE = struct.Struct("=IiQ")  # struct file_handle of name_to_handle_at(2), with room for one number


def number_of(path: str) -> int:
    """The number of the group that a folder of a cgroup file system stands for. Raises `OSError`."""
    handle = ctypes.create_string_buffer(_HANDLE.pack(8, 0, 0), _HANDLE.size)
    mount = ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.name_to_handle_at(_AT_FDCWD, os.fsencode(path), handle, ctypes.byref(mount), 0):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)
    size, _, number = _HANDLE.unpack(handle.raw)
    # Before Linux 5.5 the number is the inode's, and the handle's upper half counts how often that was used.
    return int(number & ((1 << 8 * size) - 1))


def own() -> int | None:
    """The number of the group that this process is in; None where no cgroup file system shows it."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            inside = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
        root = _mounted()
        return None if inside is None or root is None else number_of(root + inside)
    except OSError:
        return None


def _mounted() -> str | None:
    """Where the whole hierarchy that this process sees is mounted."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words, _, rest = line.partition(" - ")
            if rest.startswith("cgroup2 "):
                _, _, _, root, point, *_ = words.split(" ")
                if root == "/":
                    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), point)
    return None
