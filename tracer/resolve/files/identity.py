"""Is the file about to be probed still the one that was checked?"""

from __future__ import annotations

import os
from collections.abc import Iterable

from tracer.errors import TracerError
from tracer.resolve.model import FileIdentity, Site


def verify(path: str, identity: FileIdentity) -> None:
    """Raises `TracerError` unless the file at `path` is still the one that was checked.

    To be called right before attaching: an offset that was an instruction's start in the old file may be the middle of
    one in the new.
    """
    os.close(open_verified(path, identity))


def open_verified(path: str, identity: FileIdentity) -> int:
    """A descriptor on the file that was checked; what is attached through /proc/self/fd cannot be another one."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise TracerError(f"{path}: the file has gone since it was checked: {error.strerror}") from None
    try:
        _compare(path, os.fstat(descriptor), identity)
    except TracerError:
        os.close(descriptor)
        raise
    return descriptor


def _compare(path: str, status: os.stat_result, identity: FileIdentity) -> None:
    now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    touched = identity.ctime_ns not in (None, status.st_ctime_ns)
    if touched or now != (identity.device, identity.inode, identity.size, identity.mtime_ns):
        raise TracerError(
            f"{path}: the file changed after its probes were looked up",
            "nothing was attached; run the command again",
        )


def verify_sites(sites: Iterable[Site]) -> None:
    """`verify` for every file of the sites, each once."""
    for path, identity in {(site.path, site.identity) for site in sites}:
        verify(path, identity)
