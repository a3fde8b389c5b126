"""Debug files from debuginfod servers, by build id: only where DEBUGINFOD_URLS names servers.

The folder of what was fetched is shared with elfutils and gdb: `BUILDID/debuginfo` below $DEBUGINFOD_CACHE_PATH,
$XDG_CACHE_HOME/debuginfod_client or ~/.cache/debuginfod_client; an empty file there says that no server had it lately.
Source: debuginfod(8), debuginfod_find_debuginfo(3) and debuginfod-client.c of elfutils.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

URLS = "DEBUGINFOD_URLS"
_TIMEOUT_S = 10.0
"""Seconds without a byte from the server. elfutils waits 90, in which nothing would be traced."""
_ABSENT_S = 600.0
"""How long a file that no server had is not asked for again."""
_MOST = 1 << 32
_BLOCK = 1 << 20
_BUILD_ID = re.compile("[0-9a-f]{6,128}")


def cached_path(build_id: str | None) -> str | None:
    """Where the debug file is once it was fetched; None where no server is named."""
    if not os.environ.get(URLS, "").split() or build_id is None or not _BUILD_ID.fullmatch(build_id):
        return None
    return os.path.join(_folder(), build_id, "debuginfo")


def fetched(build_id: str | None) -> str | None:
    """The path of the debug file, fetched now if it was not before; None where no server has it."""
    path = cached_path(build_id)
    if path is None:
        return None
    try:
        status = os.stat(path)
        if status.st_size:
            return path
        if time.time() - status.st_mtime < _ABSENT_S:
            return None
    except OSError:
        pass
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        found = None
        for url in os.environ[URLS].split():
            found = _ask(f"{url.rstrip('/')}/buildid/{build_id}/debuginfo", path)
            if found:
                return path
        if found is not None:
            _store(path, iter(()))
    except OSError:
        pass  # no room, or no right to write there
    return None


def _ask(url: str, path: str) -> bool | None:
    """Whether a server has the file, which then is at `path`; None where it does not say."""
    if not url.startswith(("http://", "https://")):
        return None
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, headers={"User-Agent": "tracer"}), timeout=_timeout()) as answer:
            size = int(answer.headers.get("Content-Length") or -1)
            if size > _MOST:
                return False

            def blocks() -> Iterator[bytes]:
                total = 0
                while block := answer.read(_BLOCK):
                    total += len(block)
                    if total > _MOST:
                        raise ValueError("it does not end")
                    yield block
                if size not in (-1, total):
                    raise ValueError("it was cut off")

            _store(path, blocks())
            return True
    except HTTPError as error:
        error.close()
        return False if error.code == 404 else None
    except (URLError, HTTPException, TimeoutError, ConnectionError, ValueError):
        return None


def _store(path: str, blocks: Iterator[bytes]) -> None:
    """Writes the file whole or not at all."""
    import tempfile

    descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with open(descriptor, "wb") as file:
            for block in blocks:
                file.write(block)
        os.rename(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _timeout() -> float:
    try:
        return max(float(os.environ["DEBUGINFOD_TIMEOUT"]), 0.1)
    except (KeyError, ValueError):
        return _TIMEOUT_S


def _folder() -> str:
    own = os.environ.get("DEBUGINFOD_CACHE_PATH")
    if own:
        return own
    import pwd

    home = os.environ.get("XDG_CACHE_HOME")
    if not home:
        # That of the user who we are: sudo can leave another's HOME, and what root writes does not belong there.
        try:
            home = os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".cache")
        except KeyError:
            home = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "debuginfod_client")
