"""What one run keeps for the next: compiled programs, the sites that attach points mean in a file, the demo's program.

All are acted on by root: a program is loaded into the kernel, a site gets a breakpoint. So the cache is the effective
user's own, and nothing in it is believed that somebody else could have put there:

* it lies in that user's home as the user database has it; `XDG_CACHE_HOME` counts only where the same rules hold for
  it. Under sudo that is root's home, whatever HOME says;
* its path is walked one component at a time, each opened in the one before and never by its name again. Every
  directory on the way must belong to the user or to root and be writable by nobody else (in a sticky one, like /tmp,
  nobody else can replace what is the user's); links are followed only as far as they stand in such directories;
* its own directories and files must belong to the user, be no links, and be writable by nobody else;
* a file begins with a digest of its key and its content.

A file that does not meet this counts as absent. So does a home that cannot be written, or a full disk: a run without
its cache is slower and otherwise the same. Files are written beside their place and renamed into it, so that a reader
finds a whole one or none. Once there is too much, the files that were used longest ago are removed first.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

try:
    # What `hashlib` hands on as blake2b; that maps all of OpenSSL first, which takes 2 ms and 3 MB.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

_MAGIC = b"tracer cache 3\n"
_DIGEST = 32
_LARGEST = 64 << 20
MOST_FILES = 512
MOST_BYTES = 128 << 20
"""Of one kind of thing."""

_USED_S = 3600.0
"""How exactly it is noted when a file was last used."""

_MOST_LINKS = 16


def key_of(*parts: bytes | str) -> str:
    """A name for what these parts determine, each delimited from the next."""
    digest = blake2b(digest_size=_DIGEST)
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def load(kind: str, key: str) -> bytes | None:
    """The content that was stored under a key, or None where there is nothing that can be trusted."""
    for home in _homes():
        try:
            with _opened(*home, kind) as folder:
                data = _read(folder, key)
        except PermissionError:
            continue
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        content = data[start:]
        return content if data[:start] == _MAGIC + _digest(key, content) else None
    return None


def store(kind: str, key: str, content: bytes) -> None:
    """Keeps something; without a place that is the user's alone, nothing is kept."""
    for home in _homes():
        try:
            with _opened(*home, kind, make=True) as folder:
                _write(folder, key, _MAGIC + _digest(key, content) + content)
                _prune(folder)
        except PermissionError:
            continue
        except OSError:
            return
        return


def folder(kind: str) -> str | None:
    """A folder for files that have to go by a name, made where it is missing; None without one that can be trusted.

    What was found on the way stays so: nobody else can change any part of the path. `is_ours` tells of the files.
    """
    for base, names in _homes():
        try:
            with _opened(base, names, kind, make=True):
                return os.path.join(base, *names, kind)
        except PermissionError:
            continue
        except OSError:
            return None
    return None


def _homes() -> list[tuple[str, tuple[str, ...]]]:
    """The places for it, the first that is trusted counts: a directory that is there, and what may be made in it."""
    import pwd

    user = os.geteuid()
    homes = []
    named = os.environ.get("XDG_CACHE_HOME", "")
    with suppress(OSError, ValueError):
        if os.path.isabs(named) and os.stat(named).st_uid == user:
            homes.append((named, ("tracer",)))
    try:
        home = pwd.getpwuid(user).pw_dir
    except KeyError:  # a user id without an account, as containers have them
        home = os.environ.get("HOME", "/")
    return [*homes, (home, (".cache", "tracer"))]


def _digest(key: str, content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST, key=bytes.fromhex(key)).digest()


def _read(folder: int, key: str) -> bytes:
    descriptor = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not is_ours(status, stat.S_IFREG) or status.st_size > _LARGEST:
            raise OSError(errno.EINVAL, "others may write it", key)
        if time.time() - status.st_mtime > _USED_S:
            with suppress(OSError):  # read-only
                os.utime(descriptor)
        return file.read(status.st_size) or b""  # None where it would have to wait


def _write(folder: int, key: str, data: bytes) -> None:
    name = f".{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, key, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise


def _prune(folder: int) -> None:
    """Forgets what was used longest ago, down to half of what is allowed."""
    files: list[tuple[float, int, str]] = []
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # another run prunes too
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            files.append((status.st_mtime, status.st_size, name))
    held = sum(size for _, size, _ in files)
    if len(files) <= MOST_FILES and held <= MOST_BYTES:
        return
    files.sort(reverse=True)
    while files and (len(files) > MOST_FILES // 2 or held > MOST_BYTES // 2):
        _, size, name = files.pop()
        held -= size
        with suppress(OSError):  # another run prunes too, or it is none of ours and a directory
            os.unlink(name, dir_fd=folder)


# --- the way there ---------------------------------------------------------------------------------------------------


@contextmanager
def _opened(base: str, names: tuple[str, ...], kind: str, make: bool = False) -> Iterator[int]:
    """A folder of the cache as a descriptor. Raises `OSError` where it is not there, or not to be trusted."""
    opened = [_walked(base)]
    try:
        for name in (*names, kind):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=opened[-1])
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            opened.append(os.open(name, flags, dir_fd=opened[-1]))
            if not is_ours(os.fstat(opened[-1]), stat.S_IFDIR):
                raise PermissionError(errno.EPERM, "others may write there", name)
        yield opened[-1]
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _walked(path: str) -> int:
    """A directory as a descriptor, every step on the way to it looked at."""
    names = path.split("/")[::-1]
    links = 0
    current = _step("/")
    try:
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            try:
                following = _step(name, current)
            except NotADirectoryError:
                target = _target(name, current)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, "too many links", path) from None
                names += target.split("/")[::-1]
                following = _step("/" if target.startswith("/") else ".", current)
            os.close(current)
            current = following
    except OSError:
        os.close(current)
        raise
    return current


def _step(name: str, within: int | None = None) -> int:
    descriptor = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    status = os.fstat(descriptor)
    if status.st_uid not in (0, os.geteuid()) or (status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX):
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "others may write there", name)
    return descriptor


def _target(name: str, within: int) -> str:
    """The target of a link, if the user or root made it: in a sticky directory it may be anybody's."""
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        if os.fstat(descriptor).st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "a link of somebody else's", name)
        return os.readlink("", dir_fd=descriptor)
    finally:
        os.close(descriptor)


def is_ours(status: os.stat_result, kind: int) -> bool:
    """Whether it is of that kind (`stat.S_IFREG`, …), the effective user's, and writable by nobody else."""
    return status.st_uid == os.geteuid() and stat.S_IFMT(status.st_mode) == kind and not status.st_mode & 0o022
