"""The cache of kernels: each thing in a directory that is named for what it was made from, and made whole or not."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/tracer/vm`, or `~/.cache/tracer/vm`; made where it is not there."""
    named = os.environ.get("XDG_CACHE_HOME")
    above = Path(named) if named and os.path.isabs(named) else Path.home() / ".cache"
    directory = above / "tracer" / "vm"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds the lock of that name; a second maker waits for the first, and finds its work done."""
    with (cache_directory() / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def directory_of(name: str, make: Callable[[Path], None]) -> Path:
    """The directory of that name, made by `make` in a place of its own if it is not there yet."""
    home = cache_directory() / name
    if home.is_dir():
        return home
    with locked(name):
        if not home.is_dir():
            part = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=cache_directory()))
            try:
                make(part)
                part.chmod(0o755)
                part.rename(home)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return home
