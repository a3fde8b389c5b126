"""The files of definitions: whether a path can be written into one, and still means the file that was looked at."""

from __future__ import annotations

import os

from tracer.errors import TracerError
from tracer.resolve.model import FileIdentity


def can_stand(path: str) -> bool:
    """Whether a path can be written into a definition."""
    return not any(character.isspace() or character == "#" or not character.isprintable() for character in path)


def check_file(path: str, expected: FileIdentity) -> None:
    """Raises `TracerError` where the path does not mean that file any more."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise gone(path, error) from None
    check_identity(found, expected, path)


def gone(path: str, error: OSError) -> TracerError:
    """The error for a file that cannot be opened any more."""
    return TracerError(f"cannot open {path}: {error.strerror}", "it was there a moment ago: run the command again")


def check_identity(found: os.stat_result, expected: FileIdentity, path: str) -> None:
    """Raises `TracerError` where what was found is another file, or was changed."""
    is_now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if is_now != (expected.device, expected.inode, expected.size, expected.mtime_ns):
        raise TracerError(f"{path} was replaced while it was being looked at", "run the command again")
