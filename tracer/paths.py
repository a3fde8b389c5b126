"""Where the project keeps its files, and where it may write."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def bpf_programs() -> Path:
    """The folder of the fixed C: inside an installed package, else at the top of the source tree."""
    installed = _PACKAGE / "_bpf_programs"
    return installed if installed.is_dir() else _PACKAGE.parent / "bpf_programs"


def cache_directory() -> Path:
    """The cache of the effective user; under sudo root's, never the caller's, for what lies there is run as root.

    `XDG_CACHE_HOME` counts only where it belongs to the effective user.
    """
    import pwd

    user = os.geteuid()
    named = os.environ.get("XDG_CACHE_HOME")
    if named and os.path.isabs(named) and _belongs_to(named, user):
        return Path(named) / "tracer"
    try:
        home = pwd.getpwuid(user).pw_dir
    except KeyError:  # a user id without an account, as containers have them
        home = os.environ.get("HOME", "/")
    return Path(home) / ".cache" / "tracer"


def _belongs_to(path: str, user: int) -> bool:
    try:
        return os.stat(path).st_uid == user
    except OSError:
        return False
