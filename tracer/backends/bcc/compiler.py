"""C → bytecode: a pure function of the text, libbcc's version and the architecture, so that its result is cached.

A compiled object is the functions' bytecode with map constants in it (see `MAP` in prelude.h); `loader` puts
descriptors in their place. The cache is the effective user's own: under sudo that is root's, and a file in it is read
only if it and its folder belong to that user and nobody else may write them, since what it holds is loaded into the
kernel.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tracer.backends.bcc.binding import Binding, NoBinding, find_binding
from tracer.backends.bcc.loops import closed_by_jumps
from tracer.backends.bcc.refused import Refused, function_in
from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.paths import bpf_programs, cache_directory

_CHILD = Path(__file__).with_name("compile_child.py")
_TIMEOUT_S = 60.0
_OUTPUT = 6
"""Which word of the child's command line is the descriptor to write to."""

_ENDED_FROM_OUTSIDE = {
    -signal.SIGKILL: "memory may be short, or a limit of its control group too low",
    -signal.SIGINT: None,
    -signal.SIGTERM: None,
    -signal.SIGHUP: None,
}
_MAGIC = b"tracer bpf 2\n"
_LARGEST = 64 << 20
_MOST_FILES = 512


@dataclass(frozen=True, slots=True)
class CompiledObject:
    """Bytecode by function name: eight bytes an instruction."""

    functions: dict[str, bytes]


def compile_text(
    text: str, *, sleepable: bool, cookies: bool = False, kernel_reads: bool = True, cached: bool = True
) -> CompiledObject:
    """Compiles a generated program. `sleepable`: it may wait for pages of the traced process; `cookies`: its links tell
    it which site was hit; `kernel_reads`: helpers may copy the kernel's memory.

    Raises `TracerError` where there is no libbcc, or where it refuses: then its words are the detail.
    """
    binding = find_binding()
    if isinstance(binding, NoBinding):
        raise TracerError(binding.reason, binding.hint)
    switches = {"SLEEPABLE": sleepable, "COOKIES": cookies, "KERNEL_READS": kernel_reads}
    source = ("".join(f"#define {name} {int(on)}\n" for name, on in switches.items()) + text).encode()
    key = _key(source, binding)
    if cached:
        found = _load(key)
        if found is not None:
            return found
    found = _parse(_run(source, binding))
    compiled = CompiledObject({name: closed_by_jumps(code) for name, code in found.functions.items()})
    if cached:
        _store(key, _spelled(compiled))
    return compiled


def _key(source: bytes, binding: Binding) -> str:
    digest = hashlib.sha256()
    digest.update(f"{binding.version} {platform.machine()}\n".encode())
    fixed = bpf_programs()
    for path in sorted(fixed.rglob("*.h")):
        digest.update(path.read_bytes())
    digest.update(source)
    return digest.hexdigest()


def _run(source: bytes, binding: Binding) -> bytes:
    fixed = bpf_programs()
    command = [
        sys.executable,
        "-I",
        "-S",
        str(_CHILD),
        str(binding.folder),
        str(fixed / "kernel"),
        "",
        f"-I{fixed}",
        # C leaves signed overflow and casts between pointers open; the language does not.
        "-fwrapv",
        "-fno-strict-aliasing",
        # A loop that clears memory is not to become a call of memset.
        "-fno-builtin",
        "-Wno-unused-function",
        "-Wno-unused-label",
    ]
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as talk, tempfile.TemporaryFile() as made:
        given.write(source)
        given.seek(0)
        command[_OUTPUT] = str(made.fileno())
        try:
            child = subprocess.Popen(command, stdin=given, stdout=talk, stderr=talk, pass_fds=(made.fileno(),))
        except OSError as error:
            raise TracerError(f"cannot start the compiler: {error.strerror}", "is memory short?") from error
        try:
            status = child.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            message = f"the compiler has not finished within {_TIMEOUT_S:g} seconds"
            raise TracerError(message, "shorten the program, or --backend ftrace") from None
        finally:
            child.kill()  # nothing where it has ended
            child.wait()
        talk.seek(0)
        words = talk.read().decode("utf-8", "replace")
        made.seek(0)
        answer = made.read()
    if status in _ENDED_FROM_OUTSIDE:
        raise TracerError(f"the compiler was ended by {signal.Signals(-status).name}", _ENDED_FROM_OUTSIDE[status])
    if status != 0:
        message = "the generated C does not compile"
        hint = "this is a fault of tracer's, please report it; -v shows what the compiler says"
        detail, function = f"exit status {status}\n{words}", function_in(words)
        raise TracerError(message, hint, detail) if function is None else Refused(function, message, hint, detail)
    return answer


def _parse(answer: bytes) -> CompiledObject:
    functions: dict[str, bytes] = {}
    at = 0

    def take() -> bytes:
        nonlocal at
        (length,) = struct.unpack_from("=I", answer, at)
        at += 4 + length
        if at > len(answer):
            raise TracerError("the compiler's answer is cut short", "is the disk of the temporary directory full?")
        return answer[at - length : at]

    while at < len(answer):
        name = take().decode("ascii")
        functions[name] = take()
    return CompiledObject(functions)


def _spelled(compiled: CompiledObject) -> bytes:
    parts = [part for name, code in compiled.functions.items() for part in (name.encode("ascii"), code)]
    return b"".join(struct.pack("=I", len(part)) + part for part in parts)


def _load(key: str) -> CompiledObject | None:
    """A cached object, or None where there is none that can be trusted."""
    try:
        with _cache() as folder:
            descriptor = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not _trusted(found, stat.S_IFREG) or found.st_size > _LARGEST:
                    return None
                data = file.read(_LARGEST)
    except OSError:
        return None
    digest = data[len(_MAGIC) : len(_MAGIC) + 32]
    answer = data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC) or hashlib.sha256(answer).digest() != digest:
        return None
    return _parse(answer)


def _store(key: str, answer: bytes) -> None:
    """Keeps an object; without a place to write that is ours alone, nothing is kept."""
    name = f".{os.getpid()}-{key}"
    try:
        with _cache(make=True) as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(answer).digest() + answer)
                os.replace(name, key, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(name, dir_fd=folder)
                raise
            _prune(folder)
    except OSError:
        return


def _prune(folder: int) -> None:
    """Forgets the objects that were made longest ago."""
    names = os.listdir(folder)
    if len(names) > _MOST_FILES:
        names.sort(key=lambda name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns)
        for name in names[: len(names) - _MOST_FILES // 2]:
            os.unlink(name, dir_fd=folder)


@contextmanager
def _cache(make: bool = False) -> Iterator[int]:
    """The cache's folder as a descriptor, so that nobody can put another in its place. Raises `OSError` where it is not
    the effective user's, or others may write to it or to the one above.
    """
    above = cache_directory()
    if make:
        above.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened: list[int] = []
    try:
        for name in (str(above), "bpf"):
            folder = opened[-1] if opened else None
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
            opened.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
            if not _trusted(os.fstat(opened[-1]), stat.S_IFDIR):
                raise PermissionError(errno.EPERM, "others may write there", name)
        yield opened[-1]
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _trusted(found: os.stat_result, kind: int) -> bool:
    return found.st_uid == os.geteuid() and stat.S_IFMT(found.st_mode) == kind and not found.st_mode & 0o022
