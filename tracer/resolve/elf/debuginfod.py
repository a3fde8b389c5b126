"""debuginfod servers give debug files by build id. They are asked only where DEBUGINFOD_URLS names some.

The folder of what was fetched is shared with elfutils and gdb: `BUILDID/debuginfo` below $DEBUGINFOD_CACHE_PATH,
$XDG_CACHE_HOME/debuginfod_client or ~/.cache/debuginfod_client; an empty file there says that no server had it lately.
Source: debuginfod(8), debuginfod_find_debuginfo(3) and debuginfod-client.c of elfutils.

A server may answer late, slowly, without end or with something else. So another process downloads, this file run by
its path: whatever it waits for, it is killed when its time is over, and a signal's handler never waits for it. What it
wrote is kept only if it is the file that was asked for. A server that let us wait is not asked again in this run.
"""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

if __name__ != "__main__":
    from tracer import errors

URLS = "DEBUGINFOD_URLS"
_TIMEOUT_S = 10.0
"""Seconds in which at least `_LEAST` bytes have to come. elfutils gives 90, in which nothing would be traced."""
_LEAST = 100_000
_LONGEST_S = 300.0
_MOST = 1 << 31
_TOLD_AFTER_S = 1.0
_TICK_S = 0.05
_ABSENT_S = 600.0
"""Seconds for which a file that no server had is not asked for again."""
_BLOCK = 1 << 18
_BUILD_ID = re.compile("[0-9a-f]{6,128}")
_OTHER = "it sent something else"
_NOT_THERE = 44
_PYTHON = (sys.executable, "-I", "-S", "-B")
_PR_SET_PDEATHSIG = 1

_failed: set[str] = set()
"""Files and servers that are not asked (for) again."""


def cached_path(build_id: str | None) -> str | None:
    """The path of the debug file once it was fetched; None where no server is named."""
    if not os.environ.get(URLS, "").split() or build_id is None or not _BUILD_ID.fullmatch(build_id):
        return None
    return os.path.join(_folder(), build_id, "debuginfo")


def fetched(build_id: str | None, of: str) -> str | None:
    """The path of the debug file of a file, fetched now if it was not before; None where no server has it."""
    path = cached_path(build_id)
    if path is None or build_id is None or build_id in _failed:
        return None
    try:
        status = os.stat(path)
        if status.st_size:
            return path
        if time.time() - status.st_mtime < _ABSENT_S:
            return None
    except OSError:
        pass
    from tempfile import mkstemp

    reasons = []
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        for url in os.environ[URLS].split():
            if not url.startswith(("http://", "https://")):
                continue
            if url in _failed:
                reasons.append("not asked")
            elif (reason := _ask(url, build_id, path, of)) is None:
                return path
            elif reason:
                reasons.append(reason)
        if not reasons:
            descriptor, name = mkstemp(dir=os.path.dirname(path))
            os.close(descriptor)
            os.rename(name, path)
            return None
    except OSError as error:  # no room, or no right to write there
        errors.tell(f"no debug file of {of} from debuginfod: {error.filename}: {error.strerror}")
    _failed.add(build_id)
    return None


def has_failed(build_id: str | None) -> bool:
    """Whether a server did not say if it has the file."""
    return build_id in _failed


def _ask(url: str, build_id: str, path: str, of: str) -> str | None:
    """Asks a server for the file. Returns None where it has it, which then is at `path`, and "" where it has none; else
    the reason, which was told to the user.
    """
    import subprocess
    from tempfile import mkstemp

    server = re.sub("//[^/@]*@", "//", url).rstrip("/")
    descriptor, name = mkstemp(dir=os.path.dirname(path))
    try:
        process = subprocess.Popen(
            [*_PYTHON, os.path.abspath(__file__), f"{url.rstrip('/')}/buildid/{build_id}/debuginfo"],
            stdin=subprocess.DEVNULL, stdout=descriptor, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            reason = _waited(process, descriptor, server, of)
        finally:
            process.kill()
            said = process.communicate()[1]
        if reason is None and process.returncode == _NOT_THERE:
            return ""
        if reason is None and process.returncode:
            reason = said.decode("utf-8", "replace").strip() or "the download failed"
        elif reason is not None:
            if reason != _OTHER:
                _failed.add(url)
        elif _is_of(name, build_id):
            os.rename(name, path)
            name = ""
            return None
        else:
            reason = _OTHER
        errors.tell(f"no debug file of {of} from {server}: {reason}; what only that tells is missing")
        return reason
    finally:
        os.close(descriptor)
        if name:
            os.unlink(name)


def _waited(process: subprocess.Popen[bytes], descriptor: int, server: str, of: str) -> str | None:
    """Why the download is not waited for; None where it has ended."""
    import subprocess

    timeout_s, longest_s = _number("DEBUGINFOD_TIMEOUT", _TIMEOUT_S), _number("DEBUGINFOD_MAXTIME", _LONGEST_S)
    most = int(_number("DEBUGINFOD_MAXSIZE", _MOST))
    begun = moved = time.monotonic()
    before, counted, told = errors.asked_to_end(), 0, False
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TICK_S)
            return None
        now, size = time.monotonic(), os.fstat(descriptor).st_size
        if size >= counted + _LEAST:
            counted, moved = size, now
        if size >= 4 and os.pread(descriptor, 4, 0) != b"\x7fELF":
            return _OTHER
        if size > most:
            return f"it sent more than {most} bytes (DEBUGINFOD_MAXSIZE)"
        if now - moved > timeout_s:
            what = f"less than {_LEAST // 1000} kB" if size else "no answer"
            return f"{what} within {timeout_s:g} s (DEBUGINFOD_TIMEOUT)"
        if now - begun > longest_s:
            return f"it was not done after {longest_s:g} s (DEBUGINFOD_MAXTIME)"
        if errors.asked_to_end() != before:
            return "the trace was to end"
        if not told and now - begun > _TOLD_AFTER_S:
            told = True
            errors.tell(f"waiting for {server}: the debug file of {of}")


def _is_of(path: str, build_id: str) -> bool:
    from tracer.errors import TracerError
    from tracer.resolve.elf.file import Elf

    try:
        with Elf(path) as elf:
            return elf.build_id == build_id
    except TracerError:
        return False


def _number(name: str, default: float) -> float:
    """The value of elfutils' variable; there too 0 and less stand for the default."""
    try:
        number = float(os.environ[name])
    except (KeyError, ValueError):
        return default
    return number if number > 0 else default


def _folder() -> str:
    folder = os.environ.get("DEBUGINFOD_CACHE_PATH")
    if folder:
        return folder
    import pwd

    home = os.environ.get("XDG_CACHE_HOME")
    if not home:
        # That of the user who we are: sudo can leave another's HOME, and what root writes does not belong there.
        try:
            home = os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".cache")
        except KeyError:
            home = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "debuginfod_client")


def _download(url: str) -> int:
    """The other process: writes what is there to stdout, or why not to stderr; returns its status."""
    import ctypes
    import signal
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        with urlopen(Request(url, headers={"User-Agent": "tracer"}), timeout=_LONGEST_S) as answer:
            size, total = int(answer.headers.get("Content-Length") or -1), 0
            while block := answer.read1(_BLOCK):
                total += len(block)
                while block:
                    block = block[os.write(1, block) :]
        if size not in (-1, total):
            raise ValueError("the file was cut off")
        return 0
    except HTTPError as error:
        if error.code == 404:
            return _NOT_THERE
        said = f"it answered {error.code}"
    except URLError as error:
        said = str(getattr(error.reason, "strerror", None) or error.reason)
    except (HTTPException, OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    os.write(2, said.encode("utf-8", "replace")[:200])
    return 1


if __name__ == "__main__":
    os._exit(_download(sys.argv[1]))
