"""Compares one file with pyelftools, each part in a child process of a bounded time and memory: a file can hold
pyelftools up for ever.

A child looks at the clock from one thing to the next and tells what it has compared so far. One that does not even look
is killed, and its part counts as not compared.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NoReturn

from tracer.errors import TracerError
from tracer.resolve.elf.file import Elf
from tracer.verify.findings import Findings, OutOfTime, Part

if TYPE_CHECKING:
    from tracer.verify.files import Both

LIMIT_S = 20.0
"""Seconds for each part."""

_BEYOND_S = 2.0
"""How much longer a part may be on its way from one look at the clock to the next."""
_MEMORY = 4 << 30
_MOST_ANSWERED = 1 << 26
_KILLED = "pyelftools did not come back in time and was ended"
_DIED = "pyelftools died of it"

Compare = Callable[["Both", Findings], None]


def verify(path: str, limit_s: float = LIMIT_S) -> tuple[Part, ...]:
    """Compares a file, each part for at most so long. Raises `TracerError` where it is no file that tracer reads, or
    where pyelftools is not there.
    """
    Elf(path).close()
    parts = _parts()
    return tuple([_by_child(path, name, compare, limit_s) for name, compare in parts.items()])


def _parts() -> dict[str, Compare]:
    """The parts that are compared, in this order."""
    try:
        from tracer.verify.headers import sections, segments, symbols, usdt
        from tracer.verify.lines import lines
        from tracer.verify.parameters import parameters
        from tracer.verify.unwinding import unwinding
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "elftools":
            raise
        raise TracerError(
            "pyelftools, which tracer's readers are compared with, is not installed", "pip install pyelftools"
        ) from None
    return {
        "sections": sections, "segments": segments, "notes": usdt, "symbols": symbols, "rows of the line table": lines,
        "unwind rules": unwinding, "functions with their parameters": parameters,
    }  # fmt: skip


def compared(path: str, name: str, compare: Compare, limit_s: float) -> Part:
    """Compares one part of a file, in this very process."""
    from tracer.verify.files import Both

    findings = Findings(name, time.monotonic() + limit_s)
    try:
        with closing(Both(path)) as both:
            compare(both, findings)
    except OutOfTime:
        return findings.part("its time ended")
    except MemoryError:
        return findings.part("it takes more memory than is allowed")
    return findings.part()


def _by_child(path: str, name: str, compare: Compare, limit_s: float) -> Part:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run(path, name, compare, limit_s, writing)
    os.close(writing)
    until = time.monotonic() + limit_s + _BEYOND_S
    try:
        answer = _answer(reading, until)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    try:
        return Part(*marshal.loads(answer))
    except (EOFError, ValueError, TypeError):
        return Findings(name, 0).part(_DIED if time.monotonic() < until else _KILLED)


def _answer(reading: int, until: float) -> bytes:
    """Reads all that a child writes until a moment."""
    answer = b""
    while (remaining_s := until - time.monotonic()) > 0 and len(answer) < _MOST_ANSWERED:
        if select.select([reading], [], [], remaining_s)[0]:
            some = os.read(reading, 1 << 16)
            if not some:
                break
            answer += some
    return answer


def _run(path: str, name: str, compare: Compare, limit_s: float, writing: int) -> NoReturn:
    """The child. It outlives a killed tracer by no more than its time."""
    try:
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_DFL)
        seconds = int(limit_s + _BEYOND_S) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        said = memoryview(marshal.dumps(tuple(compared(path, name, compare, limit_s))))
        while said:
            said = said[os.write(writing, said) :]
    finally:
        os._exit(0)
