"""The sites that an attach point means in a file, kept from run to run.

Reading libjvm's symbols and decoding around 500 sites takes 150 ms, asking a known file 3. What was found is right for
as long as these are what they were:

* the file: device, inode, size, and the times of its last change, of content (mtime) and of anything (ctime), which
  nobody can set. Nothing is kept of a file that changed within the last two seconds, since a later change might bear
  the same time on a coarse clock;
* the first bytes at every site, which are compared each time: what is attached to is the code that was checked;
* the separate debug files that were looked for, there or not, by the same rule;
* what resolves: the modules of this package, by size and time.

The identity that a kept site bears is that of the file that was compared, and attaching compares it once more.
"""

from __future__ import annotations

import marshal
import os
import platform
import stat
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tracer import cache
from tracer.dataclass import names
from tracer.resolve.model import (
    ArgSpec,
    Const,
    FileIdentity,
    Global,
    GlobalPointer,
    Mem,
    Reg,
    Site,
    Unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracer.lang.ast import AttachPoint
    from tracer.resolve.binary import Binary
    from tracer.resolve.files import Found

_KIND = "sites"
_MOST_SITES = 4096
"""A wildcard of more takes as long to read back as to resolve."""

SETTLED_NS = 2_000_000_000
_BYTES = 16
"""Compared at each site: the longest instruction is 15 bytes, a nop and the five-byte nop behind it are 6."""

_CLASSES: dict[str, type] = {
    each.__name__: each for each in (ArgSpec, Const, Global, GlobalPointer, Mem, Reg, Unreadable)
}
_FIELDS = Site.__match_args__
_PATH, _IDENTITY, _OFFSET, _ARGS = (_FIELDS.index(name) for name in ("path", "identity", "offset", "args"))


def recall(point: AttachPoint, file: Found) -> tuple[Site, ...] | None:
    """The sites of an attach point in a file, () where there are none, None where that has to be found out."""
    content = cache.load(_KIND, _key(point, file.path, file.shown))
    if content is None:
        return None
    # Its digest was right: these are the bytes that `keep` wrote.
    identity, known, others, code, arguments, rows = marshal.loads(content)
    if any(_identity_at(path) != identity for path, identity in others):
        return None
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if _identity(os.fstat(descriptor)) != known:
            return None
        if any(os.pread(descriptor, _BYTES, row[_OFFSET]) != held for row, held in zip(rows, code, strict=True)):
            return None
    except OSError:
        return None
    finally:
        os.close(descriptor)
    same = FileIdentity(*identity)
    specified = [tuple(map(_made, args)) for args in arguments]
    sites = []
    for row in rows:
        row[_PATH], row[_IDENTITY], row[_ARGS] = file.path, same, specified[row[_ARGS]]
        sites.append(Site(*row))
    return tuple(sites)


def keep(point: AttachPoint, binary: Binary, sites: Sequence[Site]) -> None:
    """Keeps what was found, or that there is nothing, if it can be trusted to stay right."""
    known = _identity_at(binary.path)
    identity = binary.identity
    if known is None or known != _of(identity) or not binary.reproducible or len(sites) > _MOST_SITES:
        return
    others = [(path, _identity_at(path)) for path in sorted(binary.debug_files)]
    if not all(_settled(each) for each in (known, *(found for _, found in others if found is not None))):
        return
    code = [binary.elf.some(site.offset, _BYTES) for site in sites]
    numbers: dict[tuple[ArgSpec, ...], int] = {}
    rows = []
    for site in sites:
        row: list[Any] = [getattr(site, name) for name in _FIELDS]
        row[_PATH] = row[_IDENTITY] = None
        row[_ARGS] = numbers.setdefault(site.args, len(numbers))
        rows.append(row)
    arguments = [list(map(_plain, args)) for args in numbers]
    same = [getattr(identity, name) for name in names(identity)]
    content = marshal.dumps((same, known, others, code, arguments, rows))
    cache.store(_KIND, _key(point, binary.path, binary.shown), content)


def _key(point: AttachPoint, path: str, shown: str) -> str:
    where = [repr(getattr(point, name)) for name in names(point) if name not in ("span", "text", "path")]
    return cache.key_of(_resolver(), str(marshal.version), platform.machine(), path, shown, *where)


@lru_cache(maxsize=1)
def _resolver() -> str:
    """What resolves, in the version that is here."""
    with os.scandir(os.path.dirname(__file__)) as entries:
        files = [(each.name, each.stat()) for each in entries if each.name.endswith(".py")]
    return repr(sorted((name, status.st_size, status.st_mtime_ns) for name, status in files))


def _settled(identity: tuple[int, ...]) -> bool:
    """Whether the last change is old enough that another would bear another time, and was not during our reading."""
    return 0 < identity[4] <= time.time_ns() - SETTLED_NS  # 0: a filesystem that knows no such time


def _identity(status: os.stat_result) -> tuple[int, ...] | None:
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _identity_at(path: str) -> tuple[int, ...] | None:
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def _of(identity: FileIdentity) -> tuple[int | None, ...]:
    return identity.device, identity.inode, identity.size, identity.mtime_ns, identity.ctime_ns


def _plain(value: Any) -> Any:
    """A value of the model as something that marshal knows."""
    name = value.__class__.__name__
    return (name, *[_plain(getattr(value, each)) for each in names(value)]) if name in _CLASSES else value


def _made(value: Any) -> Any:
    """The opposite of `_plain`: no value of the model holds a plain tuple."""
    return _CLASSES[value[0]](*map(_made, value[1:])) if value.__class__ is tuple else value
