"""A file system (FUSE, include/uapi/linux/fuse.h) with one file, of which nobody ever answers a read, or an opening."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FORGET, _READ, _INTERRUPT = 2, 15, 36
LOOKUP, OPEN = 1, 14
_ENOSYS, _FORCE, _DETACH = 38, 1, 2


@contextmanager
def silent_file(folder: Path, *silent: int) -> Iterator[Path]:
    """The file, below `folder`; what else than reads is not answered. At the end the connection is closed, which fails
    all that waits.
    """
    place = folder / "silent"
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"silent", os.fsencode(place), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    thread = threading.Thread(target=_serve, args=(device, (_FORGET, _READ, _INTERRUPT, *silent)), daemon=True)
    thread.start()
    try:
        yield place / "file"
    finally:
        unmount(place)
        with suppress(OSError):
            os.close(device)


def unmount(place: Path) -> None:
    """Ends the connection, which fails all reads, whoever else has the device open; a second time does nothing."""
    ctypes.CDLL(None).umount2(os.fsencode(place), _FORCE)
    ctypes.CDLL(None).umount2(os.fsencode(place), _DETACH)


def _serve(device: int, silent: tuple[int, ...]) -> None:
    while True:
        try:
            request = os.read(device, 1 << 17)
            _, operation, unique, node = struct.unpack_from("=IIQQ", request)
            if operation in silent:
                continue
            answer = _answer(operation, node)
            error = -_ENOSYS if answer is None else 0
            os.write(device, struct.pack("=IiQ", 16 + len(answer or b""), error, unique) + (answer or b""))
        except OSError:
            return


def _answer(operation: int, node: int) -> bytes | None:
    match operation:
        case 26:  # INIT
            return struct.pack("=4I2H2I2H8I", 7, 31, 65536, 0, 12, 9, 4096, 1, 1, 0, *[0] * 8)
        case 1:  # LOOKUP
            return struct.pack("=4Q2I", 2, 0, 60, 60, 0, 0) + _attributes(2)
        case 3:  # GETATTR
            return struct.pack("=Q2I", 60, 0, 0) + _attributes(node)
        case 14:  # OPEN
            return struct.pack("=Q2I", 1, 0, 0)
        case 18 | 25:  # RELEASE, FLUSH
            return b""
        case _:
            return None


def _attributes(node: int) -> bytes:
    mode = 0o40755 if node == 1 else 0o100644
    return struct.pack("=6Q3I7I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
