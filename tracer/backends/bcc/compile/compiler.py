"""C → bytecode: a pure function of the text, libbcc and the architecture, so that its result is cached.

A compiled object is the functions' bytecode with map constants in it (see `MAP` in prelude.h); `loader` puts
descriptors in their place. What the kernel can do is in the text too, as switches: a kernel that can do more, or less,
is another text.
"""

from __future__ import annotations

import errno
import os
import platform
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from tracer import cache
from tracer.backends.bcc.host.binding import Binding, NoBinding, find_binding, library_path
from tracer.backends.bcc.host.refused import Refused, function_in
from tracer.errors import Interrupted, TracerError
from tracer.host.polling import readable
from tracer.kernel.limits import MORE_DESCRIPTORS

_PACKAGE = Path(__file__).resolve().parents[3]
_CHILD = Path(__file__).with_name("child.py")
_HEADERS = Path(__file__).with_name("headers.py")
_LOOPS = Path(__file__).with_name("loops.py")
_TIMEOUT_S = 60.0
_OUTPUT = 6
"""Which word of the child's command line is the descriptor to write to."""

_ENDED_FROM_OUTSIDE = (-signal.SIGTERM, -signal.SIGHUP)
_CANNOT_SELECT = "LLVM ERROR: Cannot select"
"""LLVM's refusal of an operation BPF has not; it aborts, as it does where memory is short."""

_ROOM = "make room there, or name another directory in TMPDIR"
_CUT_SHORT = "the compiler's answer is cut short", "is the disk of the temporary directory full?"
_KIND = "bpf"


Bytecode = dict[str, bytes]
"""By function name: eight bytes an instruction."""


def bpf_programs() -> Path:
    """The folder of the fixed C: inside an installed package, else at the top of the source tree."""
    installed = _PACKAGE / "_bpf_programs"
    return installed if installed.is_dir() else _PACKAGE.parent / "bpf_programs"


def compile_text(
    text: str, *, sleepable: bool, cookies: bool = False, by_place: bool = False, kernel_reads: bool = True,
    namespaced: bool = False, atomics: bool = True, programs: bool = False,
    mappings: bool = False, sequenced: bool = False, cached: bool = True,
) -> Bytecode:
    """Compiles a generated program. `sleepable`: it may wait for pages of the traced process; `cookies`: its links tell
    it which site was hit; `by_place`: the address does (`page_groups`); `kernel_reads`: helpers may copy the kernel's
    memory; `namespaced`: processes have other numbers here (`pid_namespace.py`); `atomics`: programs compare and swap;
    `programs`: the members that tell the programs of a process apart are known; `mappings`: they can ask what lies at
    an address; `sequenced`: and whether any mapping has changed.

    Raises `TracerError` where there is no libbcc, where it refuses (then its words are the detail), or where memory or
    room on disk is short.
    """
    binding = find_binding()
    if isinstance(binding, NoBinding):
        raise TracerError(binding.reason, binding.hint)
    switches = {
        "SLEEPABLE": sleepable, "COOKIES": cookies, "BY_PLACE": by_place, "KERNEL_READS": kernel_reads,
        "NAMESPACED": namespaced, "NO_ATOMICS": not atomics, "PROGRAMS": programs, "MAPPINGS": mappings,
        "SEQUENCED": sequenced,
    }  # fmt: skip
    source = ("".join(f"#define {name} {int(on)}\n" for name, on in switches.items()) + text).encode()
    key = _key(source, binding)
    kept = cache.load(_KIND, key) if cached else None
    if kept is not None:
        return _parse(kept)
    from tracer.backends.bcc.compile import loops

    compiled = {name: loops.closed_by_jumps(code) for name, code in _parse(_run(source, binding)).items()}
    if cached:
        cache.store(_KIND, key, _spelled(compiled))
    return compiled


def _key(source: bytes, binding: Binding) -> str:
    """The name under which the bytecode is kept: of all that it follows from.

    The running kernel is in it by what it can do, not by its release. The compiler gets our own headers in place of the
    kernel's, what it may read of the kernel's symbols changes nothing in our programs (`child.py`), the switches
    and the text are written after the kernel was tried, and the loader puts in what belongs to one run. So equal parts
    make equal bytecode on any kernel, and an update of the kernel that changes nothing for a program compiles nothing.
    """
    fixed = str(bpf_programs())
    parts: list[bytes | str] = [binding.version, *_library(), platform.machine(), source]
    for module in (__file__, str(_CHILD), str(_HEADERS), str(_LOOPS)):
        with open(module, "rb") as file:
            parts.append(file.read())
    for folder, folders, names in os.walk(fixed):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                parts += [path[len(fixed) :], file.read()]
    return cache.key_of(*parts)


def _library() -> tuple[str, ...]:
    """A key of the loaded libbcc: a distribution may mend it, or the LLVM in it, under the same version."""
    path = library_path()
    try:
        status = os.stat(path or "")
    except OSError:
        which = ""
    else:
        which = f"{status.st_size} {status.st_mtime_ns}"
    return path or "", which, os.environ.get("LD_LIBRARY_PATH", "")


def _run(source: bytes, binding: Binding) -> bytes:
    import tempfile

    from tracer.backends.bcc.compile.headers import with_headers

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
    try:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as talk, tempfile.TemporaryFile() as output:
            given.write(with_headers(source.decode(), fixed).encode())
            given.seek(0)
            command[_OUTPUT] = str(output.fileno())
            status = _ended(command, given, talk, output.fileno())
            talk.seek(0)
            words = talk.read().decode("utf-8", "replace")
            output.seek(0)
            answer = output.read()
    except OSError as error:
        hint = MORE_DESCRIPTORS if error.errno == errno.EMFILE else _ROOM
        where = f" in {tempfile.tempdir}" if tempfile.tempdir else ""  # none where there is no directory to write in
        raise TracerError(f"cannot write the compiler's files{where}: {error.strerror}", hint) from error
    if status == 0 and answer:
        return answer
    if status == -signal.SIGINT:
        raise Interrupted  # Ctrl-C reaches the whole process group, and no other backend is wanted then
    raise _failure(status, words, tempfile.gettempdir())


def _ended(command: list[str], given: IO[bytes], talk: IO[bytes], output: int) -> int:
    """Runs the child to its end and returns its exit status, negative for a signal."""
    from tracer.kernel.workers.spawn import inherited

    try:
        child = subprocess.Popen(command, stdin=given, stdout=talk, stderr=talk, pass_fds=(output,), env=inherited())
    except OSError as error:
        hint = MORE_DESCRIPTORS if error.errno == errno.EMFILE else "is memory short?"
        raise TracerError(f"cannot start the compiler: {error.strerror}", hint) from error
    try:
        _wait(child)
    finally:
        child.kill()  # nothing where it has ended
        status = child.wait()
    return status


def _failure(status: int, words: str, folder: str) -> TracerError:
    """The error that the child's end means: the text is at fault where libbcc refuses it or a function of it is named,
    else the machine.
    """
    from tracer.backends.bcc.compile.child import NO_ROOM, REFUSED

    if status in _ENDED_FROM_OUTSIDE:
        return TracerError(f"the compiler was ended by {signal.Signals(-status).name}")
    if status == -signal.SIGKILL:
        from tracer.host.tables.cgroups import more_memory

        return TracerError("the compiler was ended by SIGKILL, most likely since memory is short", more_memory())
    if status == NO_ROOM:
        return TracerError(f"the compiler cannot write what it made in {folder}", _ROOM, words or None)
    function = function_in(words)
    detail = f"exit status {status}\n{words}"
    if function is not None or status == REFUSED or _CANNOT_SELECT in words:
        message = "the generated C does not compile"
        hint = "this is a bug in tracer, please report it; -v shows what the compiler says"
        return TracerError(message, hint, detail) if function is None else Refused(function, message, hint, detail)
    end = f"exit status {status}" if status >= 0 else f"signal {-status}, {signal.strsignal(-status)}"
    hint = f"is memory short (ulimit -v, control group), or {folder} full? -v shows what the compiler says"
    return TracerError(f"the compiler failed: {end if status else 'it made nothing'}", hint, detail)


def _wait(child: subprocess.Popen[bytes]) -> None:
    """Waits for the compiler's end, on a descriptor where there can be one: `Popen.wait` with a time limit looks every
    50 ms.
    """
    patience_s = _TIMEOUT_S
    with suppress(OSError):  # a container may forbid it
        descriptor = os.pidfd_open(child.pid)
        try:
            readable((descriptor,), patience_s)
            patience_s = 0
        finally:
            os.close(descriptor)
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        message = f"the compiler has not finished within {_TIMEOUT_S:g} seconds"
        raise TracerError(message, "shorten the program, or --backend ftrace") from None


def _parse(answer: bytes) -> Bytecode:
    functions: Bytecode = {}
    position = 0

    def take() -> bytes:
        nonlocal position
        if position + 4 > len(answer):
            raise TracerError(*_CUT_SHORT)
        (length,) = struct.unpack_from("=I", answer, position)
        position += 4 + length
        if position > len(answer):
            raise TracerError(*_CUT_SHORT)
        return answer[position - length : position]

    while position < len(answer):
        name = take().decode("ascii")
        functions[name] = take()
    return functions


def _spelled(compiled: Bytecode) -> bytes:
    parts = [part for name, code in compiled.items() for part in (name.encode("ascii"), code)]
    return b"".join(struct.pack("=I", len(part)) + part for part in parts)
