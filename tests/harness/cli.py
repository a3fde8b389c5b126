"""Runs `tracer` as users do: its own process, its exit status, and every byte of its two outputs."""

from __future__ import annotations

import atexit
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.harness.interpreter import Fork, Interpreter

ROOT = Path(__file__).resolve().parents[2]

TRACER = (sys.executable, "-m", "tracer")

_LOCK = threading.Lock()

PATIENCE = float(os.environ.get("TRACER_TEST_PATIENCE", "1"))
"""How many times longer than usual things may take: each limit here is multiplied by it. 10 is for emulation."""

PATIENCE_S = 60.0

ONLY_WARM = os.environ.get("TRACER_TEST_WARM") == "1"
"""Whether no tracer is started anew where a fork does: an emulated machine takes seconds for a start."""


_OVERHEAD = re.compile(r"(?:\S+:\d+:\d+\n)?[^\n]*\n *\^+ warning: \d+ hits a second at [^\n]*\n")


def without_overhead(said: str) -> str:
    """The lines that tracer said, but for warnings of overhead: whether there are any depends on the machine."""
    return _OVERHEAD.sub("", said)


_SILENCE = re.compile(
    r"tracer: (?:no probe was hit|no hit in the first|(?:.*: )?first hits after |.* was never hit|"
    r".* was not hit in the first |\d+ of \d+ attach points were (?:never|not) hit |"
    r".* was hit (?:once|\d+ times), and its predicate never held$).*\n",
    re.M,
)


def without_silence(said: str) -> str:
    """The lines that tracer said, but for why attach points were not hit: what runs on the machine is part of the
    answer.
    """
    return _SILENCE.sub("", said)


_SLOW = re.compile(
    r"tracer: the kernel is still removing the probes(?:; Ctrl-C leaves that to a process in the background)?\n"
)


def without_slow(said: str) -> str:
    """The lines that tracer said, but for how long the kernel takes to remove probes: a busy machine is part of the
    answer.
    """
    return _SLOW.sub("", said)


_BEFORE_MAPS = re.compile(rb"(?:(?<=\n)|(?<!.))\n\n(?=@|\Z)", re.S)


def without_blanks(printed: bytes) -> bytes:
    """Text without the two newlines that stand before the maps, wherever they begin a line and the maps follow."""
    return _BEFORE_MAPS.sub(b"", printed)


@dataclass(frozen=True)
class Done:
    """A run that ended; `said` is what it wrote to stderr, decoded, what is not UTF-8 in it is marked."""

    status: int
    printed: bytes
    said: str

    @property
    def out(self) -> bytes:
        """The output, but for the blank lines before the maps."""
        return without_blanks(self.printed)

    @property
    def err(self) -> str:
        """The messages, but for warnings of overhead and that the kernel takes long to remove probes."""
        return without_slow(without_overhead(self.said))

    @property
    def overhead(self) -> list[str]:
        """The warnings of overhead, each with the line of the program that it is under."""
        return _OVERHEAD.findall(self.said)

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode()


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a run: the package of this tree, from whatever directory; in any thread."""
    return {**environ(), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", **(extra or {})}


def environ() -> dict[str, str]:
    """A copy of `os.environ`. pytest removes its own variable while other threads run tracer: `{**os.environ}` reads
    the names, then each value, and one of them has gone (KeyError, once in a whole CI)."""
    return {name: value for name in list(os.environ) if (value := os.environ.get(name)) is not None}


COLD = 8
"""Of so many tests one starts its tracers anew, as users do; those of the others are forks (`harness.interpreter`)."""


def start(
    words: Sequence[str],
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    cwd: Path | None = None,
    warm: bool | None = None,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Starts `tracer WORDS` in a session of its own: anew, or where `warm` is set as a fork of an interpreter that has
    imported everything. By itself it goes by the test, and in an emulated machine all are forks. What a fork would not
    take over (a prefix, a directory, a limit, a variable that Python reads as it starts) is started anew.
    """
    whole = environment(env)
    if warm is None:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        warm = bool(test) and (ONLY_WARM or crc32(test.encode()) % COLD != 0)
    if warm and not prefix and cwd is None and (interpreter := _interpreter()).takes(words, whole):
        return Fork(interpreter, words, whole, **streams)
    return subprocess.Popen([*prefix, *TRACER, *words], env=whole, cwd=cwd, start_new_session=True, **streams)


@cache
def _only_interpreter() -> Interpreter:
    interpreter = Interpreter(environment())
    atexit.register(interpreter.close)
    return interpreter


def _interpreter() -> Interpreter:
    """The one of this process, in any thread."""
    with _LOCK:
        return _only_interpreter()


def tracer(
    *args: str,
    env: Mapping[str, str] | None = None,
    timeout: float = PATIENCE_S,
    prefix: Sequence[str] = (),
    stdin: bytes = b"",
    cwd: Path | None = None,
    warm: bool | None = None,
) -> Done:
    """Runs `tracer ARGS` to its end; `prefix` is a command that runs it. A run that hangs is a failure."""
    pipe = subprocess.PIPE
    process = start(args, env, prefix, cwd, warm, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        out, err = process.communicate(stdin, timeout=timeout * PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            out, err = process.communicate(timeout=10 * PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        raise AssertionError(
            f"still running after {timeout} s: {' '.join(args)}\n{out[-2000:]!r}\n{err.decode(errors='replace')}"
        ) from None
    return Done(process.returncode, out, err.decode(errors="replace"))


class Running:
    """A run under way. Its outputs go to files, so that it can print as much as it likes while nobody reads."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._out = out
        self._err = err

    @property
    def printed(self) -> bytes:
        """The output so far."""
        return self._out.read_bytes()

    @property
    def out(self) -> bytes:
        """The output so far, but for the blank lines before the maps."""
        return without_blanks(self.printed)

    @property
    def err(self) -> str:
        """The messages so far, but for warnings of overhead."""
        return without_slow(without_overhead(self.said))

    @property
    def said(self) -> str:
        """The messages so far, all of them."""
        return self._err.read_text(errors="replace")

    def wait_for(self, text: str, timeout: float = PATIENCE_S) -> None:
        """Until it said `text` on stderr."""
        until(lambda: text in self.err or self.process.poll() is not None, timeout, lambda: self.err)
        assert text in self.err, f"ended with {self.process.returncode}: {self.err}"

    def wait_for_output(self, text: bytes, timeout: float = PATIENCE_S) -> None:
        """Until it printed `text`."""
        until(lambda: text in self.out or self.process.poll() is not None, timeout, lambda: f"{self.out!r} {self.err}")
        assert text in self.out, f"ended with {self.process.returncode}: {self.err}"

    def signal(self, number: int) -> None:
        """Sends a signal to tracer alone."""
        self.process.send_signal(number)

    def wait(self, timeout: float = PATIENCE_S) -> Done:
        """Until its end."""
        try:
            status = self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s: {self.err}") from None
        return Done(status, self.printed, self.said)

    def stop(self, timeout: float = PATIENCE_S) -> Done:
        """Ctrl-C, and its end."""
        self.signal(signal.SIGINT)
        return self.wait(timeout)


@contextmanager
def tracing(
    directory: Path,
    *args: str,
    ready: str | None = "Attached",
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    warm: bool | None = None,
) -> Iterator[Running]:
    """Starts `tracer ARGS` and waits until its probes are attached; ends it afterwards if it still runs.

    Its outputs are kept in `directory`.
    """
    number = sum(1 for _ in directory.glob("*.out"))
    out, err = directory / f"{number}.out", directory / f"{number}.err"
    with out.open("wb") as out_file, err.open("wb") as err_file:
        process = start(args, env, prefix, warm=warm, stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file)
    running = Running(process, out, err)
    try:
        if ready is not None:
            running.wait_for(ready)
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(15 * PATIENCE)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def target(*command: str | int | Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A program to trace, with pipes at its three ends; killed afterwards if it still runs."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environ(), **(env or {})},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        process.wait()


def read_line(process: subprocess.Popen[bytes], timeout: float = PATIENCE_S) -> str:
    """The next line of a target's output."""
    assert process.stdout is not None
    line = b""
    end = time.monotonic() + timeout * PATIENCE
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([process.stdout], [], [], max(end - time.monotonic(), 0))
        assert readable, f"no line within {timeout} s: {line!r}"
        byte = os.read(process.stdout.fileno(), 1)
        if not byte:
            break
        line += byte
    return line.decode().rstrip("\n")


def tell(process: subprocess.Popen[bytes], text: str = "go\n") -> None:
    """Writes to a target's input."""
    assert process.stdin is not None
    process.stdin.write(text.encode())
    process.stdin.flush()


def until(
    condition: Callable[[], object], timeout: float = PATIENCE_S, what: Callable[[], object] = str
) -> None:
    """Waits until `condition()` is true; fails after `timeout` seconds with `what()`."""
    end = time.monotonic() + timeout * PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what()}")
        time.sleep(0.02)


def goes_on(*pids: int, times: int = 5) -> None:
    """Waits until each process has slept and gone on so many times, however long that takes beside other work."""
    wanted = {pid: _sleeps(pid) + times for pid in pids}
    until(lambda: all(_sleeps(pid) >= count for pid, count in wanted.items()), what=lambda: wanted)


def _sleeps(pid: int) -> int:
    match = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert match is not None
    return int(match[1])
