"""The sites that an attach point means in a file, kept from run to run.

Reading libjvm's symbols and decoding around 500 sites takes 150 ms, asking a known file 3. What was found is right for
as long as these are what they were:

* the file: device, inode, size, and the times of its last change, of content (mtime) and of anything (ctime), which
  nobody can set. Nothing is kept of a file that changed within the last two seconds, since a later change might bear
  the same time on a coarse clock;
* the first bytes at every site, which are compared each time: what is attached to is the code that was checked;
* the separate debug files that were looked for, there or not, by the same rule;
* what resolves: the modules of this package, by size and time, and the disassembler, which says where instructions
  begin.

The identity that a kept site bears is that of the file that was compared, and attaching compares it once more.
"""

from __future__ import annotations

import marshal
import os
import platform
import stat
import sys
import time
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tracer import cache
from tracer.dataclass import names
from tracer.errors import printable
from tracer.kinds.registry import is_return
from tracer.kinds.site import ArgSpec, Const, FileIdentity, FileSite, Global, GlobalPointer, Mem, Reg, Unreadable
from tracer.opening import opened
from tracer.resolve import marshalling
from tracer.resolve.files.first_bytes import code_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracer.kinds.model import AttachPoint
    from tracer.resolve.binary import Binary
    from tracer.resolve.files.paths import Found

_KIND = "sites"
_MOST_SITES = 1 << 17
_MOST_BYTES = 32 << 20
"""Bytes for one attach point: a quarter of all that is kept."""

SETTLED_NS = 2_000_000_000
_CLASSES: dict[str, type] = {
    cls.__name__: cls for cls in (ArgSpec, Const, Global, GlobalPointer, Mem, Reg, Unreadable)
}
_FIELDS = FileSite.__match_args__
_PATH, _IDENTITY, _OFFSET, _ARGS = (_FIELDS.index(name) for name in ("path", "identity", "offset", "args"))
_TEXTS = tuple(_FIELDS.index(name) for name in ("probe", "function"))

_MARSHAL = 2
"""The version of marshal's format that has no references to earlier objects. To look for those takes four times as long
as to write.
"""

_Column = tuple[str, Any]
"""The values that all sites have in one field: one value of "all", or "each" one's, or of "texts" what they begin with
and the number of the list of ends: the names of functions end the names of their probes.
"""


def recall(
    point: AttachPoint, file: Found, functions: bool = True, walked: bool = False
) -> tuple[FileSite, ...] | None:
    """The sites of an attach point in a file, () where there are none, None where that has to be found out.
    `functions`: whether the program asks for `func`; `walked`: see `Binary.walked`.
    """
    content = cache.load(_KIND, _key(point, file.path, file.shown, functions, walked))
    if content is None:
        return None
    # Its digest was right: these are the bytes that `keep` wrote.
    identity, file_identity, others, code, arguments, number, columns, ends = marshal.loads(content)
    if any(_identity_at(path) != identity for path, identity in others):
        return None
    split = [texts.split("\0") for texts in ends]
    values = [_opened(kind, held, number, split) for kind, held in columns]
    try:
        descriptor = opened(file.path)
    except OSError:
        return None
    try:
        if _identity(os.fstat(descriptor)) != file_identity:
            return None
        if b"".join(code_at(lambda offset, size: os.pread(descriptor, size, offset), values[_OFFSET])) != code:
            return None
    except OSError:
        return None
    finally:
        os.close(descriptor)
    specified = [tuple([marshalling.rebuilt(arg, _CLASSES) for arg in args]) for args in arguments]
    values[_PATH], values[_IDENTITY] = [file.path] * number, [FileIdentity(*identity)] * number
    values[_ARGS] = list(map(specified.__getitem__, values[_ARGS]))
    return tuple(map(FileSite, *values))


def keep(point: AttachPoint, binary: Binary, sites: Sequence[FileSite]) -> None:
    """Keeps what was found, or that there is nothing, if it can be trusted to stay right."""
    file_identity = _identity_at(binary.path)
    identity = binary.identity
    if file_identity is None or file_identity != _of(identity) or not binary.reproducible or len(sites) > _MOST_SITES:
        return
    others = [(path, _identity_at(path)) for path in sorted(binary.debug_files)]
    if not all(_settled(checked) for checked in (file_identity, *(other for _, other in others if other is not None))):
        return
    code = b"".join(code_at(binary.elf.some, [site.offset for site in sites]))
    values: list[Sequence[Any]] = [list(map(attrgetter(name), sites)) for name in _FIELDS]
    values[_PATH] = values[_IDENTITY] = [None] * len(sites)
    numbers: dict[tuple[ArgSpec, ...], int] = {}
    # All functions of a file have one tuple in common, whose hash would be computed for each.
    of_tuple = {
        key: numbers.setdefault(args, len(numbers)) for key, args in {id(args): args for args in values[_ARGS]}.items()
    }
    values[_ARGS] = [of_tuple[id(args)] for args in values[_ARGS]]
    arguments = [[marshalling.plain(arg, _CLASSES) for arg in args] for args in numbers]
    ends: list[str] = []
    columns = [_column(column, ends if field in _TEXTS else None) for field, column in enumerate(values)]
    same = [getattr(identity, name) for name in names(identity)]
    content = marshal.dumps((same, file_identity, others, code, arguments, len(sites), columns, ends), _MARSHAL)
    if len(content) <= _MOST_BYTES:
        cache.store(_KIND, _key(point, binary.path, binary.shown, binary.shows_functions, binary.walked), content)


def _column(values: Sequence[Any], ends: list[str] | None) -> _Column:
    """Packs one field of all sites. Most fields have one value, and names begin alike: `ends` collects their ends."""
    if ends is not None and values:
        start = os.path.commonprefix([min(values), max(values)])  # noqa: RUF071 (these are names, not paths)
        rest = "\0".join([text[len(start) :] for text in values] if start else values)
        if rest.count("\0") == len(values) - 1:
            if rest not in ends:
                ends.append(rest)
            return "texts", (start, ends.index(rest))
    if values and values.count(values[0]) < len(values):
        return "each", list(values)
    return "all", values[0] if values else None


def _opened(kind: str, held: Any, number: int, ends: list[list[str]]) -> list[Any]:
    """The opposite of `_column`, for so many sites."""
    if kind == "texts":
        start, which = held
        return list(map(start.__add__, ends[which])) if start else ends[which]
    return list(held) if kind == "each" else [held] * number


def _key(point: AttachPoint, path: str, shown: str, functions: bool, walked: bool) -> str:
    where = [repr(getattr(point, name)) for name in names(point) if name not in ("span", "text", "path")]
    asked = str((functions, walked and is_return(point)))
    return cache.key_of(_resolver(), str(_MARSHAL), platform.machine(), path, printable(shown), asked, *where)


@lru_cache(maxsize=1)
def _resolver() -> str:
    """The version of the code that resolves."""
    return repr([marshalling.version(), *_disassembler()])


def _disassembler() -> list[object]:
    """Capstone's files, without loading them: its binding, and the library beside it or the system's."""
    folders = (os.path.join(entry, "capstone") for entry in sys.path)
    folder = next((path for path in folders if os.path.isfile(os.path.join(path, "__init__.py"))), None)
    if folder is None:
        return []
    libraries = os.path.join(folder, "lib")
    if os.path.isdir(libraries):
        return [marshalling.modules(folder), marshalling.modules(libraries, "")]
    from tracer.kinds.arch import X86_64, native
    from tracer.resolve.files.libraries import find_library

    library = find_library("capstone", native() or X86_64)
    return [marshalling.modules(folder), library, _identity_at(library) if library is not None else None]


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
