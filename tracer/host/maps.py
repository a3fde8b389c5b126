"""The mappings of a process, and the paths to its files from here.

Source: proc(5). A process in another mount namespace (a container) or behind chroot sees other files than we do; they
are reached through /proc/PID/root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence, Set
from contextlib import suppress
from functools import cached_property

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.host.stat import directory, gone, pids

_DELETED = " (deleted)"
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Mapping:
    """A line of /proc/PID/maps.

    `file` identifies what is mapped (device and inode as the kernel prints them), None for anonymous memory; `path` is
    as the process sees it, or a name in brackets.
    """

    start: int
    end: int
    permissions: str
    offset: int
    file: tuple[str, int] | None
    path: str
    deleted: bool

    @property
    def executable(self) -> bool:
        """Whether code can run there."""
        return "x" in self.permissions

    @property
    def key(self) -> str:
        """The name of the mapping in /proc/PID/map_files."""
        return f"{self.start:x}-{self.end:x}"


def mappings(pid: int) -> tuple[Mapping, ...]:
    """The memory map of a process, in order of address. Raises `TracerError`."""
    return _parsed(_text_of(pid))


def _text_of(pid: int) -> str:
    try:
        # An ended main thread has none; most that have none are threads of the kernel.
        return _content(f"/proc/{pid}") or _content(directory(pid))
    except (FileNotFoundError, ProcessLookupError):
        raise gone(pid) from None
    except PermissionError:
        from tracer.host.named import named

        # root: the process has a capability that tracer lacks, or a security module says no.
        hint = "run tracer as root" if os.geteuid() else "it has more privileges, or a security module guards it"
        raise TracerError(f"{named(pid)}: tracer may not read its memory map", hint) from None


def _content(directory: str) -> str:
    with open(f"{directory}/maps", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        return file.read()


def _parsed(text: str) -> tuple[Mapping, ...]:
    return tuple(filter(None, map(_mapping, text.split("\n"))))


def _mapping(line: str) -> Mapping | None:
    fields = line.rstrip("\n").split(None, 5)
    if len(fields) < 5:
        return None
    start, _, end = fields[0].partition("-")
    inode = int(fields[4])
    path = fields[5] if len(fields) == 6 else ""
    deleted = path.endswith(_DELETED) and inode != 0
    if inode:
        # The kernel escapes newlines alone (seq_path, " \t\n\\" elsewhere).
        path = re.sub(
            r"\\(\d{3})", lambda escaped: chr(int(escaped[1], 8)), path.removesuffix(_DELETED) if deleted else path
        )
    file = (fields[3], inode) if inode else None
    return Mapping(int(start, 16), int(end, 16), fields[1], int(fields[2], 16), file, path, deleted)


def root(pid: int) -> str:
    """The prefix by which paths of a process reach its files from here; "" where it sees the same files as tracer."""
    shown = f"/proc/{pid}"
    try:
        if not os.path.exists(f"{shown}/root"):
            shown = directory(pid)
        same = os.stat(f"{shown}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
        if same and os.readlink(f"{shown}/root") == os.readlink("/proc/self/root"):
            return ""
    except (FileNotFoundError, ProcessLookupError):
        if not os.path.isdir(f"/proc/{pid}"):
            raise gone(pid) from None
        return ""
    except PermissionError:
        return ""
    return f"{shown}/root"


def within(prefix: str, path: str) -> str:
    """A path of a process as a path from here, every symbolic link on the way followed as the process would.

    Without it an absolute link below /proc/PID/root would lead into our own files.
    """
    if not prefix:
        return path
    parts, done, links = path.split("/"), "", 0
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        try:
            link = os.readlink(f"{prefix}{done}/{part}")
        except OSError:
            done = f"{done}/{part}"
            continue
        links += 1
        if links > _MAX_LINKS:
            raise TracerError(f"{path}: too many levels of symbolic links")
        if link.startswith("/"):
            done = ""
        parts = link.split("/") + parts
    return prefix + (done or "/")


@dataclass(frozen=True, slots=True)
class MappedFile:
    """A file that a process has mapped: `path` from here; `name` is what it is called, where it has no path any more
    (`path` is then its /proc/PID/map_files entry), or never had one (`/memfd:NAME`).
    """

    path: str
    name: str
    deleted: bool = False


class Picture:
    """The mappings of a process, and the places of its files: read when it is first asked for, and then kept, so that
    all who ask get the same answer. `look_again` is for those to whom it matters what has changed since.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._text = ""

    @cached_property
    def mappings(self) -> tuple[Mapping, ...]:
        """The memory map of the process, in order of address. Raises `TracerError`."""
        self._text = _text_of(self.pid)
        return _parsed(self._text)

    @cached_property
    def root(self) -> str:
        """The prefix of its paths: see `root`. Raises `TracerError`."""
        return root(self.pid)

    @cached_property
    def files(self) -> tuple[MappedFile, ...]:
        """The files mapped executable, in order of address; the program itself first. Raises `TracerError`."""
        return _executable_files(self)

    @property
    def code_inodes(self) -> Set[int]:
        """The inodes of the files that are mapped executable; none where that is not known."""
        with suppress(TracerError):
            return {mapping.file[1] for mapping in self.mappings if mapping.executable and mapping.file is not None}
        return frozenset()

    def look_again(self) -> None:
        """Lets the next who asks find anew what has changed since; most often that is nothing."""
        if "mappings" not in self.__dict__:
            return
        kept = self.mappings
        with suppress(TracerError):
            text, prefix = _text_of(self.pid), root(self.pid)
            if text == self._text and self.__dict__.get("root", prefix) == prefix:
                return
            kept, self._text = _parsed(text), text
        self.__dict__ = {"pid": self.pid, "_text": self._text, "mappings": kept}


def users(inodes: Set[int], among: Sequence[Picture] = ()) -> list[int]:
    """The processes, of all or `among` some, that have one of these files mapped as code. Files are told apart by inode
    alone: on btrfs and overlayfs the devices of stat(2) and maps differ. Only root sees other users' processes.
    """
    return [picture.pid for picture in among or map(Picture, pids()) if not inodes.isdisjoint(picture.code_inodes)]


def _executable_files(of: Picture) -> tuple[MappedFile, ...]:
    pid, prefix = of.pid, of.root
    shown = directory(pid)
    files: dict[tuple[str, int], MappedFile] = {}
    for mapping in of.mappings:
        if mapping.executable and mapping.file is not None and mapping.file not in files:
            files[mapping.file] = mapped_file(pid, mapping, prefix)
    if not files:
        from tracer.host.named import named

        raise TracerError(f"{named(pid)} runs no user program: it is a kernel thread, or has just ended")
    try:
        program = os.stat(f"{shown}/exe").st_ino
    except OSError:
        program = 0
    return tuple(files[file] for file in sorted(files, key=lambda file: file[1] != program))


def mapped_file(pid: int, mapping: Mapping, prefix: str) -> MappedFile:
    """A file that a process has mapped; `prefix` is `root(pid)`."""
    path = path_of(pid, mapping, prefix)
    if path is not None:
        return MappedFile(path, path)
    return MappedFile(f"{directory(pid)}/map_files/{mapping.key}", mapping.path, True)


def path_of(pid: int, mapping: Mapping, prefix: str) -> str | None:
    """A path from here to a mapped file, or None where there is none any more; `prefix` is `root(pid)`.

    The kernel prints the path of a process in another mount namespace as seen from that one's root, and that of a
    process behind chroot as seen from ours.
    """
    if mapping.deleted or mapping.file is None:
        return None
    device, inode = mapping.file
    path = within(prefix, mapping.path)
    try:
        # The inode alone: the device in maps is not that of stat on every file system (btrfs, overlayfs).
        if os.stat(path).st_ino == inode:
            return path
    except OSError:
        pass
    if prefix:
        try:
            status = os.stat(mapping.path)
        except OSError:
            return None
        if status.st_ino == inode and device == f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}":
            return mapping.path
    return None
