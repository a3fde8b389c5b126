"""The mappings of a process, and the paths to its files from here.

Source: proc(5). A process in another mount namespace (a container) or behind chroot sees other files than we do; they
are reached through /proc/PID/root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Set

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.host.stat import directory, gone, pids

_DELETED = " (deleted)"
_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of /proc/PID/maps.

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
        """Its name in /proc/PID/map_files."""
        return f"{self.start:x}-{self.end:x}"


def mappings(pid: int) -> tuple[Mapping, ...]:
    """The memory map of a process, in order of address. Raises `TracerError`."""
    try:
        # An ended main thread has none; most that have none are threads of the kernel.
        return _mappings(f"/proc/{pid}") or _mappings(directory(pid))
    except (FileNotFoundError, ProcessLookupError):
        raise gone(pid) from None
    except PermissionError:
        from tracer.host.named import named

        # root: the process has a capability that tracer lacks, or a security module says no.
        hint = "run tracer as root" if os.geteuid() else "it has more privileges, or a security module guards it"
        raise TracerError(f"{named(pid)}: tracer may not read its memory map", hint) from None


def _mappings(directory: str) -> tuple[Mapping, ...]:
    with open(f"{directory}/maps", encoding="utf-8", errors="surrogateescape") as lines:
        return tuple(filter(None, map(_mapping, lines)))


def users(inodes: Set[int], pid: int | None = None) -> list[int]:
    """The processes, or `pid` alone, that have one of these files mapped as code. Files are told apart by inode alone:
    on btrfs and overlayfs the devices of stat(2) and maps differ. Only root sees other users' processes.
    """
    found = []
    for number in [pid] if pid is not None else pids():
        try:
            every = mappings(number)
        except TracerError:
            continue
        if any(each.executable and each.file is not None and each.file[1] in inodes for each in every):
            found.append(number)
    return found


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
            r"\\(\d{3})", lambda found: chr(int(found[1], 8)), path.removesuffix(_DELETED) if deleted else path
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


def executable_files(pid: int) -> tuple[MappedFile, ...]:
    """The files a process has mapped executable, in order of address; the program itself first."""
    prefix, shown = root(pid), directory(pid)
    found: dict[tuple[str, int], MappedFile] = {}
    for each in mappings(pid):
        if each.executable and each.file is not None and each.file not in found:
            path = path_of(pid, each, prefix)
            entry = f"{shown}/map_files/{each.key}"
            found[each.file] = MappedFile(path, path) if path is not None else MappedFile(entry, each.path, True)
    if not found:
        from tracer.host.named import named

        raise TracerError(f"{named(pid)} runs no user program: it is a kernel thread, or has just ended")
    try:
        program = os.stat(f"{shown}/exe").st_ino
    except OSError:
        program = 0
    return tuple(found[file] for file in sorted(found, key=lambda file: file[1] != program))


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
