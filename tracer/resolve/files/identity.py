"""Whether a file that is about to be probed is still the one that was checked."""

from __future__ import annotations

import errno
import os

from tracer.errors import TracerError
from tracer.kinds.site import FileIdentity

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


def open_verified(path: str, identity: FileIdentity) -> int:
    """A descriptor on the file at `path`, if that is still the one that was checked.

    An offset that was an instruction's start in the old file may be the middle of one in the new. What is attached
    through /proc/self/fd cannot be another file.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        what = "has gone since it was checked" if error.errno in _GONE else "cannot be opened"
        raise TracerError(f"{path}: the file {what}: {error.strerror}") from None
    status = os.fstat(descriptor)
    now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    touched = identity.ctime_ns not in (None, status.st_ctime_ns)
    if touched or now != (identity.device, identity.inode, identity.size, identity.mtime_ns):
        os.close(descriptor)
        raise TracerError(
            f"{path}: the file changed after its probes were looked up",
            "nothing was attached; run the command again",
        )
    return descriptor


def verify(path: str, identity: FileIdentity) -> None:
    """Raises `TracerError` where the path does not mean the file that was checked."""
    os.close(open_verified(path, identity))
