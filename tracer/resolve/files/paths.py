"""The path of an attach point → the files it means.

| written | means |
|---|---|
| `/bin/app`, `./app` | that file; with `-p`, as the process sees it, and what it runs where that was replaced |
| `/usr/lib/lib*.so` | every file that matches and is an ELF file |
| `app`, `libc`, `libc.so.6`, `c` | with `-p` what the process has mapped under that name; else a file in the current
directory, a program in PATH, a library, in this order |
| `build-id:HEX` | the file of that build-id, wherever processes run it (`build_ids`) |
| nothing, or `*`, with `-p` | every file that the process has mapped executable |
| nothing, or `*`, with `-c` | the program that the command runs, and the libraries it needs |

With `-c` a library that only the program finds (by its DT_RUNPATH) is found by its name too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass
from tracer.errors import NoFile, TracerError, printable
from tracer.host.maps import within
from tracer.kinds.site import Target
from tracer.opening import await_server, content, opened

if TYPE_CHECKING:
    from tracer.host.maps import MappedFile, Picture

MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Found:
    """A file: `path` absolute, to open; `shown` as the `probe` built-in names it. `sure`: it was named, not matched."""

    path: str
    shown: str
    sure: bool = True


def is_pattern(text: str) -> bool:
    """Whether a part of an attach point holds wildcards."""
    return any(character in text for character in "*?[")


def matcher(pattern: str) -> Callable[[str], object]:
    """A test for a pattern of glob(7), or for equality where it holds no wildcard."""
    if not is_pattern(pattern):
        return pattern.__eq__
    if pattern == "*":
        return bool
    import fnmatch

    return re.compile(fnmatch.translate(pattern)).match


def find_files(text: str | None, target: Target) -> tuple[Found, ...]:
    """The files an attach point's path means, of several processes those of each. Raises `TracerError` where there is
    none.
    """
    if text is None or text in ("", "*"):
        if not target.pids and target.program is not None:
            from tracer.resolve.files.loaded import loaded_files

            return tuple(Found(path, path, sure=False) for path in loaded_files(target.program))
        if not target.pids:
            raise TracerError(
                "the attach point names no file",
                "name the program or library, or a process with -p PID, whose files are then searched",
            )
        return of_any(target, lambda process: (Found(file.path, file.name, sure=False) for file in _files(process)))
    if "\0" in text:
        raise TracerError(f"{printable(text)}: not a path")
    if text.startswith("build-id:"):
        from tracer.resolve.files.build_ids import files_of

        return tuple(Found(path, path) for _, path in files_of(text, target))
    if "/" not in text and not is_pattern(text):
        if mapped := _mapped(text, target):
            return mapped
        return of_any(target, lambda process: (_by_name(text, target, _root(process)),))
    if not target.pids and is_pattern(text):
        return _by_pattern(text, target)
    return of_any(target, lambda process: _at_path(text, process))


def _by_pattern(text: str, target: Target) -> tuple[Found, ...]:
    """The files that a pattern means, without a slash those that the command needs, or in the current directory. Where
    there are none, those that processes run, each as it sees them.
    """
    if target.program is not None and "/" not in text:
        from tracer.resolve.files.loaded import loaded_files

        with suppress(TracerError):  # what the program is matters only to those who name no file
            needed = [path for path in loaded_files(target.program) if matches_mapped(text, path)]
            if needed:
                return tuple(Found(path, path, sure=False) for path in needed)
    try:
        return _at_path(text, None)
    except NoFile:
        if target.program is None and (running := tuple(_running(text))):
            return running
        raise


def _running(text: str) -> Iterator[Found]:
    """The files of a pattern that any process has mapped, each once."""
    from tracer.host.maps import mapped_file, mappings, root
    from tracer.host.stat import pids

    seen: set[tuple[str, int]] = set()
    for pid in pids():
        with suppress(TracerError):
            for mapping in mappings(pid):
                if not mapping.executable or mapping.file in seen:
                    continue
                if mapping.file and matches_mapped(text, mapping.path):
                    seen.add(mapping.file)
                    file = mapped_file(pid, mapping, root(pid))
                    yield Found(file.path, file.name, sure=False)


def of_any(target: Target, found_by: Callable[[Picture | None], Iterable[Found]]) -> tuple[Found, ...]:
    """The files that are found for each process of the target; for None where it has none. One that has nothing of it,
    or has ended, is passed over where another has it. Raises `TracerError`.
    """
    by_path: dict[str, Found] = {}
    failure: TracerError | None = None
    for process in target.pictures or (None,):
        try:
            for file in found_by(process):
                by_path.setdefault(file.path, file)
        except TracerError as error:
            failure = failure or error
    if failure is not None and not by_path:
        raise failure
    return tuple(by_path.values())


def _files(process: Picture | None) -> Sequence[MappedFile]:
    return () if process is None else process.files


def _root(process: Picture | None) -> str:
    return "" if process is None else process.root


def _at_path(text: str, process: Picture | None) -> tuple[Found, ...]:
    prefix = _root(process)
    if "/" not in text:
        if process is not None and (mapped := _mapped_like(text, process)):
            return mapped
        return _matching(text, prefix)
    path = within(prefix, os.path.abspath(text))
    await_server(path)
    if process is not None and (gone := _deleted(path.removeprefix(prefix), process)) is not None:
        return (Found(gone, text),)
    if os.path.exists(path):
        return (Found(path, path if prefix else text),)
    if is_pattern(text):
        return _matching(text, prefix)
    if "!/" in text:
        _refuse_member(text, path)
    raise TracerError(f"{printable(text)}: no such file", _near_files(path))


def _mapped(name: str, target: Target) -> tuple[Found, ...]:
    """The files that the processes have mapped under a name, each the first that bears it; none where none has."""

    def first(process: Picture | None) -> Iterator[Found]:
        for file in _files(process):
            if _among([file.name.replace("/memfd:", "/")], name) is not None:
                yield Found(file.path, file.name)
                return

    return of_any(target, first)


def matches_mapped(text: str | None, path: str) -> bool:
    """Whether a pattern, or nothing, means a file that a process has mapped under a path: a pattern without a slash is
    for the file's name.
    """
    if not text or text == "*":
        return True
    if "/" not in text:
        return bool(matcher(text)(os.path.basename(path)))
    import fnmatch

    parts, pattern = path.split("/"), os.path.abspath(text).split("/")
    if "**" in pattern:
        return bool(re.match(fnmatch.translate(os.path.abspath(text)), path))
    return len(parts) == len(pattern) and all(map(fnmatch.fnmatchcase, parts, pattern))


def _mapped_like(text: str, process: Picture) -> tuple[Found, ...]:
    """The files that a process has mapped under a name of a pattern."""
    return tuple(Found(file.path, file.name, sure=False) for file in process.files if matches_mapped(text, file.name))


def _refuse_member(text: str, path: str) -> None:
    """Raises the error for `ARCHIVE!/MEMBER`, as Android's loader and bpftrace write a library in a zip archive, if
    that is one.
    """
    archive, _, member = path.partition("!/")
    if not os.path.isfile(archive):
        return
    import zipfile

    shown = printable(text)
    try:
        with os.fdopen(opened(archive), "rb") as file, zipfile.ZipFile(file) as within_it:
            names = within_it.namelist()
            stored = member in names and within_it.getinfo(member).compress_type == zipfile.ZIP_STORED
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        name = printable(os.path.basename(archive))
        raise TracerError(f"{shown}: {name} is no zip archive that can be read") from None
    if member not in names:
        near = did_you_mean(member, names)
        raise TracerError(f"{shown}: the archive has no member '{printable(member)}'", near)
    why = "probes in a library that is mapped out of an archive are not supported"
    if not stored:
        why = "it is compressed there, so no program runs it from the archive"
    raise TracerError(f"{shown}: {why}", "unpack it, and let the program load that")


def is_directory(path: str) -> bool:
    """Whether it is one, or a link to one. Raises as `await_server`."""
    await_server(path)
    return os.path.isdir(path)


def files_below(directory: str, target: Target) -> tuple[Found, ...]:
    """Every ELF file in a directory and those below it; links to directories are not followed. Raises `TracerError`
    where there is none.
    """
    return of_any(target, lambda process: _below(directory, _root(process)))


def _below(directory: str, prefix: str) -> tuple[Found, ...]:
    start = within(prefix, os.path.abspath(directory))
    files = []
    for folder, _, names in os.walk(start):
        for name in names:
            path = within(prefix, os.path.join(folder, name)[len(prefix) :])
            if os.path.isfile(path) and _is_elf(path):
                files.append(Found(path, path, sure=False))
            if len(files) > MAX_FILES:
                raise TracerError(f"{printable(directory)}: more than {MAX_FILES} programs are below", "name fewer")
    if not files:
        raise TracerError(f"{printable(directory)}: no program or library is there")
    # A file is shown by the first of its names.
    return tuple(sorted(files, key=lambda file: (os.path.islink(file.path), file.path)))


def _matching(text: str, prefix: str) -> tuple[Found, ...]:
    import glob

    files = []
    for path in glob.iglob(glob.escape(prefix) + os.path.abspath(text) if prefix else text):
        full = within(prefix, path[len(prefix) :]) if prefix else os.path.abspath(path)
        if os.path.isfile(full):
            files.append(Found(full, full if prefix else path, sure=False))
        if len(files) > MAX_FILES:
            raise TracerError(f"{printable(text)}: more than {MAX_FILES} files match", "name fewer files")
    if not files:
        raise NoFile(f"{printable(text)}: no file matches")
    return tuple(sorted(files, key=lambda file: file.path))


def _by_name(name: str, target: Target, prefix: str) -> Found:
    from tracer.kinds.arch import X86_64, native
    from tracer.resolve.files.libraries import find_library

    # bpftrace looks into the current directory first, as for a path.
    await_server(name)
    if not prefix and os.path.isfile(name) and _is_elf(name):
        return Found(os.path.abspath(name), name)
    for directory in _search_path():
        full = within(prefix, os.path.join(directory, name))
        await_server(full)
        if os.path.isfile(full) and os.access(full, os.X_OK) and _is_elf(full):
            return Found(os.path.abspath(full), full)
    library = _needed(name, target) or find_library(name, native() or X86_64, prefix)
    if library is not None:
        full = within(prefix, library)
        return Found(full, full)
    raise TracerError(
        f"{printable(name)}: neither a program in PATH nor a library", _near_programs(name) or "give its full path"
    )


def _deleted(path: str, process: Picture) -> str | None:
    """The file that a process runs under a path where another file, or none, is now. An upgrade leaves such files, and
    memfd_create(2) makes files that no directory has.
    """
    try:
        mapped = [file for file in process.files if file.name in (path, os.path.realpath(path))]
    except TracerError:
        return None
    return mapped[0].path if mapped and all(file.deleted for file in mapped) else None


def _needed(name: str, target: Target) -> str | None:
    """The library of that name that the command's program will load."""
    if target.pids or target.program is None:
        return None
    from tracer.resolve.files.loaded import loaded_files

    try:
        return _among(loaded_files(target.program), name)
    except TracerError:
        return None  # what the program is matters only to those who name no file


def _among(paths: Iterable[str], name: str) -> str | None:
    """The first of the files that the name means."""
    from tracer.resolve.files.libraries import is_library_name

    for path in paths:
        file_name = os.path.basename(path)
        if file_name == name or is_library_name(name, file_name):
            return path
    return None


def _is_elf(path: str) -> bool:
    """Scripts are passed over: a wrapper in PATH must not hide the program of the same name behind it."""
    try:
        return content(path, 4) == b"\x7fELF"
    except OSError:
        return False


def _near_files(path: str) -> str | None:
    if os.path.islink(path):
        try:
            return f"it is a link to {printable(os.readlink(path))}, which is not there"
        except OSError:  # /proc/PID/exe
            return "the process has no program: it has ended, or is one of the kernel's"
    directory, name = os.path.split(path)
    try:
        names = os.listdir(directory)
    except OSError:
        return f"there is no directory {printable(directory)}"
    return did_you_mean(name, names, directory.rstrip("/") + "/")


def _near_programs(name: str) -> str | None:
    names: set[str] = set()
    for directory in _search_path():
        try:
            names.update(os.listdir(directory))
        except OSError:
            continue
    return did_you_mean(name, names - {name})  # what has the name, but is none


def _search_path() -> list[str]:
    return [folder or "." for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]


def did_you_mean(name: str, names: Iterable[str], before: str = "") -> str | None:
    """A hint with up to three names near the one that is not there, or None."""
    near = near_names(name, names)
    if not near:
        return None
    shown = [printable(before + candidate) for candidate in near]
    return "did you mean " + (" or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]) + "?"


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to three of the names that look like `name`, the nearest first."""
    import difflib

    lower = name.lower()
    close: list[str] = []
    holding: list[str] = []
    for candidate in dict.fromkeys(names):
        # What the compiler made of a function (`parse.isra.0`), or the same in another case or with underscores.
        if lower in candidate.lower() and len(lower) >= 3:
            holding.append(candidate)
        elif abs(len(candidate) - len(name)) <= 3:
            close.append(candidate)
    holding.sort(key=lambda candidate: (len(candidate), candidate))
    own_names = re.compile(rf"_*{re.escape(name)}(\.\w+)*_*", re.IGNORECASE).fullmatch
    longer_names = re.compile(rf"{re.escape(name)}[-.\d]").match  # redis-server, python3
    near = difflib.get_close_matches(name, close[:20_000], 3, 0.65)
    found_first = [*filter(own_names, holding), *filter(longer_names, holding)]
    return list(dict.fromkeys(found_first + near + holding))[:3]
