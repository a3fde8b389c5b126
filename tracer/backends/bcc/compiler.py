"""C → bytecode: a pure function of the text, libbcc's version and the architecture, so that its result is cached.

A compiled object is the functions' bytecode with map constants in it (see `MAP` in prelude.h); `loader` puts
descriptors in their place. The cache is the effective user's own: under sudo that is root's, and a file in it is read
only if it and its folder belong to that user and nobody else may write them, since what it holds is loaded into the
kernel.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tracer.backends.bcc.binding import Binding, NoBinding, find_binding
from tracer.backends.bcc.refused import Refused, function_in
from tracer.errors import TracerError
from tracer.paths import bpf_programs, cache_directory

_TIMEOUT_S = 60
_MAGIC = b"tracer bpf 1\n"
_LARGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class CompiledObject:
    """Bytecode by function name: eight bytes an instruction."""

    functions: dict[str, bytes]


def compile_text(text: str, *, sleepable: bool, cached: bool = True) -> CompiledObject:
    """Compiles a generated program. `sleepable`: it may wait for pages of the traced process.

    Raises `TracerError` where there is no libbcc, or where it refuses: then its words are the detail.
    """
    binding = find_binding()
    if isinstance(binding, NoBinding):
        raise TracerError(binding.reason, binding.hint)
    source = f"#define SLEEPABLE {int(sleepable)}\n{text}".encode()
    key = _key(source, binding)
    if cached:
        found = _load(key)
        if found is not None:
            return found
    answer = _run(source, binding)
    compiled = _parse(answer)
    if cached:
        _store(key, answer)
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
    reader, writer = os.pipe()
    command = [
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).with_name("compile_child.py")),
        str(binding.folder),
        str(fixed / "kernel"),
        str(writer),
        f"-I{fixed}",
        # C leaves signed overflow and casts between pointers open; the language does not.
        "-fwrapv",
        "-fno-strict-aliasing",
        # A loop that clears memory is not to become a call of memset.
        "-fno-builtin",
        "-Wno-unused-function",
        "-Wno-unused-label",
    ]
    with tempfile.TemporaryFile() as talk, os.fdopen(reader, "rb") as pipe:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=talk, stderr=talk, pass_fds=(writer,))
        os.close(writer)
        try:
            assert child.stdin is not None
            try:
                child.stdin.write(source)
                child.stdin.close()
            except BrokenPipeError:
                pass
            answer = pipe.read()
            status = child.wait(_TIMEOUT_S)
        except BaseException:
            child.kill()
            child.wait()
            raise
        talk.seek(0)
        words = talk.read().decode("utf-8", "replace")
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
            raise struct.error("cut")
        return answer[at - length : at]

    while at < len(answer):
        name = take().decode("ascii")
        functions[name] = take()
    return CompiledObject(functions)


def _load(key: str) -> CompiledObject | None:
    """A cached object, or None where there is none that can be trusted."""
    path = cache_directory() / "bpf" / key
    user = os.geteuid()
    try:
        for folder in (path.parent, path.parent.parent):
            found = os.lstat(folder)
            if found.st_uid != user or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
                return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            trusted = found.st_uid == user and stat.S_ISREG(found.st_mode) and not found.st_mode & 0o022
            if not trusted or found.st_size > _LARGEST:
                return None
            data = file.read()
    except OSError:
        return None
    digest = data[len(_MAGIC) : len(_MAGIC) + 32]
    answer = data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC) or hashlib.sha256(answer).digest() != digest:
        return None
    return _parse(answer)


def _store(key: str, answer: bytes) -> None:
    """Keeps an object; without a place to write, nothing is kept."""
    folder = cache_directory() / "bpf"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(answer).digest() + answer)
        os.replace(name, folder / key)
    except OSError:
        return
