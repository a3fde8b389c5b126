"""Finds or builds what the demo traces, and states the three questions for it."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from tracer import cache
from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.opening import content

_SOURCE = Path(__file__).with_name("bakery.c")
_ORDERS = 1000
_MOST_BYTES = 64 << 20
_SCRIPT = Path(__file__).with_name("rings.py")


@dataclass(frozen=True, slots=True)
class Question:
    """A one-liner, what it asks, and whether its answer is the same in every run."""

    asks: str
    program: str
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A demonstration: the `command` (for -c), its name, and the program that asks about it."""

    what: str
    command: str
    questions: tuple[Question, ...]


def demonstration() -> Demonstration:
    """The bakery where a compiler builds it, else the system's Python. Raises `TracerError` where neither is there."""
    built = build()
    if built is not None:
        return bakery(built)
    interpreter = system_python()
    if interpreter is not None:
        return python(*interpreter)
    raise TracerError(
        "the demo found neither a C compiler with sys/sdt.h nor a Python with USDT probes",
        "apt-get install gcc systemtap-sdt-dev",
    )


def bakery(binary: Path) -> Demonstration:
    """The three questions about the bakery."""
    order = f"usdt:{binary}:bakery:order"
    return Demonstration(
        f"a bakery's day, {_ORDERS} orders: {binary}",
        f"{shlex.quote(str(binary))} {_ORDERS}",
        (
            Question("How many orders of each item? (count by key, USDT)", f"{order} {{ @[str(arg1)] = count(); }}"),
            Question("How large are they? (histogram, USDT)", f"{order} {{ @cents = hist(arg3); }}"),
            Question(
                "How long does baking take? (latency, function and its return)",
                _latency(f"uprobe:{binary}:bake", f"uretprobe:{binary}:bake"),
                repeatable=False,
            ),
        ),
    )


def python(interpreter: str, probed: str) -> Demonstration:
    """The three questions about a Python script; `probed` is the file that holds the interpreter's probes."""
    probe, ours = f"usdt:{probed}:python", f'/str(arg0) == "{_SCRIPT}"/'
    return Demonstration(
        f"a script in the system's Python, because there is no C compiler with sys/sdt.h: {interpreter}",
        shlex.join([interpreter, "-I", "-S", str(_SCRIPT)]),
        (
            Question(
                "How often did each function return? (count by key, USDT)",
                f"{probe}:function__return {ours} {{ @[str(arg1)] = count(); }}",
            ),
            Question(
                "Which lines ran? (histogram, USDT)", f"{probe}:line {ours} {{ @line = lhist(arg2, 0, 30, 1); }}"
            ),
            Question(
                "How long does the garbage collector take? (latency, USDT)",
                _latency(f"{probe}:gc__start", f"{probe}:gc__done"),
                repeatable=False,
            ),
        ),
    )


def _latency(start: str, end: str) -> str:
    return (
        f"{start} {{ @start[tid] = nsecs; }} {end} /@start[tid]/ "
        "{ @microseconds = hist((nsecs - @start[tid]) / 1000); delete(@start, tid); }"
    )


def build() -> Path | None:
    """The bakery's binary, built once; None where there is no compiler or no sys/sdt.h.

    It will run as root: what lies in the cache counts only where nobody else could have put it there.
    """
    source = _SOURCE.read_bytes()
    place = cache.folder("demo")
    if place is not None:
        binary = Path(place, f"bakery-{cache.key_of(source, os.uname().machine)[:16]}")
        with suppress(FileNotFoundError):
            if cache.is_ours(binary.lstat(), stat.S_IFREG):
                return binary
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    if place is None:
        # Not where TMPDIR says: in a folder of somebody else's even a directory of ours can be exchanged.
        binary = Path(tempfile.mkdtemp(prefix="tracer-demo-", dir="/tmp"), "bakery")
    unfinished = binary.with_name(f"{binary.name}.{os.getpid()}")
    result = subprocess.run(
        [compiler, "-O2", "-o", str(unfinished), str(_SOURCE)], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if result.returncode != 0:
        unfinished.unlink(missing_ok=True)
        return None
    unfinished.chmod(0o755)
    unfinished.rename(binary)
    return binary


def system_python() -> tuple[str, str] | None:
    """The system's Python and the file that holds its probes: itself, or its libpython."""
    interpreter = os.path.realpath("/usr/bin/python3")
    if not os.access(interpreter, os.X_OK):
        return None
    library = f"lib{os.path.basename(interpreter)}*.so.1.0"
    folders = (Path("/usr").glob(f"{folder}/{library}") for folder in ("lib64", "lib", "lib/*-linux-gnu"))
    for path in (interpreter, *sorted(str(path) for paths in folders for path in paths)):
        # The note's provider and name, as they follow each other in it (sys/sdt.h).
        if b"python\0function__return\0" in content(path, _MOST_BYTES):
            return interpreter, path
    return None
