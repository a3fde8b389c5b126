"""A prefix that runs a command as a user without any privilege."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

from tests.harness.cli import ROOT

_SETPRIV = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@cache
def nobody() -> tuple[str, ...]:
    """The prefix. A clone in a closed directory (/root) is shown to the command at its place by a bind mount."""
    closed = next((folder for folder in reversed(ROOT.parents) if not folder.stat().st_mode & 0o001), None)
    if closed is None:
        return _SETPRIV
    root, place = shlex.quote(str(ROOT)), shlex.quote(str(closed))
    script = f"""set -e
        mount --bind {root} /mnt
        mount -t tmpfs -o mode=755 none {place}
        mkdir -p {root}
        mount --bind /mnt {root}
        exec {shlex.join(_SETPRIV)} "$@"
    """
    return ("unshare", "-m", "--wd", "/", "sh", "-c", script, "sh")


def public_copy(path: Path, folder: Path) -> Path:
    """A copy of a file where everybody may read and run it."""
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o755)
    return copy
