"""One run of tracer under attack, and what must hold after it, whatever was done to it.

A run traces a copy of `tests/targets/steady.c` that no other run traces at that time: what is in its memory is ours.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.harness.cli import PATIENCE, TRACER, environment, read_line, target, tell
from tests.live.breakpoints import texts_of
from tests.targets.build import build

LIMIT_S = 10.0
"""Within that a run must have ended, from the fault or from Ctrl-C on."""

ANSWER = "answer 4661"
"""What the target says when nothing disturbs it."""

SHAPES = {
    "counter": "usdt:{}:steady:hit {{ @ = count(); }}",
    "hist": "uprobe:{}:work {{ @ = hist(arg0); }}",
    "str": "uprobe:{}:work {{ @[str(arg1)] = count(); }}",
    "ustack": "uprobe:{}:work {{ @[ustack(2)] = count(); }}",
    "printf": 'usdt:{}:steady:hit /arg0 < 9/ {{ printf("%d %s\\n", arg0, str(arg1)); }}',
    "uretprobe": "uretprobe:{}:work {{ @[retval % 3] = count(); }}",
}
"""A program of each shape, over the target's file."""

_TARGETS_WORDS = re.compile(rb"^(ready|answer \d+|semaphore \d+)\n", re.M)


@dataclass
class Seen:
    """What a run left and said; `wrongs` are the kinds of faults found, each with its words."""

    status: int | None = None
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    wrongs: list[tuple[str, str]] = field(default_factory=list)

    def wrong(self, kind: str, words: object = "") -> None:
        """Notes a fault."""
        self.wrongs.append((kind, str(words)))


@dataclass(frozen=True)
class Config:
    """What is run: the backend, the shape of the program, -c or -p, and whether an earlier run's cache is there."""

    backend: str
    shape: str
    mode: str
    cache: str

    def __str__(self) -> str:
        return f"{self.backend} {self.shape} {self.mode} {self.cache}"


CONFIGS = tuple(
    Config(backend, shape, mode, cache)
    for shape in SHAPES
    for backend in ("bcc", "ftrace")
    for mode in ("-c", "-p")
    for cache in ("warm", "cold")
)


class Bench:
    """Where runs take place, one at a time: a folder with the target's copy, the cache, and the outputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.report = folder / "report"
        self.renew()

    def renew(self) -> None:
        """A fresh copy of the target: what was left in the old one's memory is nobody's any more."""
        home = Path(tempfile.mkdtemp(dir=self.folder))
        self.target = Path(shutil.copy(build("steady"), home / "steady"))

    def cache(self, config: Config) -> Path:
        """The folder for what is kept from run to run; an empty one for a cold run."""
        path = self.folder / config.cache
        if config.cache == "cold":
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(exist_ok=True)
        return path

    def run(self, config: Config, prefix: Sequence[str | Path] = (), limit_s: float = LIMIT_S) -> Seen:
        """Runs tracer, with `prefix` before its command, and looks at everything but its words."""
        seen = Seen()
        with target(self.target) as own:
            assert read_line(own) == "ready"
            words = ["--backend", config.backend, "-e", SHAPES[config.shape].format(self.target), config.mode]
            words.append(str(self.target) if config.mode == "-c" else str(own.pid))
            with self._started([*map(str, prefix), *TRACER, *words], self.cache(config)) as process:
                if config.mode == "-p":
                    self._until_attached(process, limit_s)
                    seen.seconds = time.monotonic()
                    self._answers(own, seen)
                    if process.poll() is None:
                        process.send_signal(signal.SIGINT)
                else:
                    seen.seconds = time.monotonic()
                try:
                    process.wait(limit_s * PATIENCE)
                except subprocess.TimeoutExpired:
                    seen.wrong("no end", where(process.pid))
                    kill_all(process.pid)
                seen.seconds = time.monotonic() - seen.seconds
                seen.status = process.wait()
            self._untouched(own, seen, "traced")
            if config.mode == "-c":
                self._answers(own, seen)
            self._ends(own, seen)
        with target(self.target) as later:
            assert read_line(later) == "ready"
            self._untouched(later, seen, "started later")
            tell(later)
            self._answers(later, seen, False)
            self._ends(later, seen)
        printed = (self.folder / "out").read_bytes()
        seen.err = (self.folder / "err").read_text(errors="replace")
        seen.out = _TARGETS_WORDS.sub(b"", printed).strip(b"\n").decode(errors="replace")
        if config.mode == "-c" and re.search(rb"^ready$", printed, re.M) and ANSWER.encode() not in printed:
            seen.wrong("the target's answer", printed[:200])
        return seen

    @contextmanager
    def _started(self, command: list[str], cache: Path) -> Iterator[subprocess.Popen[bytes]]:
        given, printed, said = (self.folder / name for name in ("in", "out", "err"))
        given.write_text("go\n")
        with given.open("rb") as stdin, printed.open("wb") as out, said.open("wb") as err:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=out, stderr=err, start_new_session=True,
                env=environment({"XDG_CACHE_HOME": str(cache)}),
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_all(process.pid)
            process.wait()

    def _until_attached(self, process: subprocess.Popen[bytes], limit_s: float) -> None:
        end = time.monotonic() + limit_s * PATIENCE
        while process.poll() is None and time.monotonic() < end:
            if b"Attached" in (self.folder / "err").read_bytes():
                return
            time.sleep(0.005)

    @staticmethod
    def _answers(process: subprocess.Popen[bytes], seen: Seen, told: bool = True) -> None:
        if told:
            with suppress(BrokenPipeError):
                tell(process)
        try:
            answer = read_line(process, LIMIT_S)
        except AssertionError as error:
            seen.wrong("the target's answer", error)
            return
        if answer != ANSWER:
            seen.wrong("the target's answer", answer or f"ended with {process.wait()}")

    def _untouched(self, process: subprocess.Popen[bytes], seen: Seen, which: str) -> None:
        for text in texts_of(self.target, [process.pid] if process.poll() is None else []):
            if altered := text.altered():
                seen.wrong("a breakpoint left", f"{altered} bytes in the process that was {which}")
            os.close(text.memory)

    @staticmethod
    def _ends(process: subprocess.Popen[bytes], seen: Seen) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with suppress(AssertionError):
            said = read_line(process, LIMIT_S)
            if said not in ("semaphore 0", ""):
                seen.wrong("a semaphore left", said)


_BAD = {
    "a traceback": re.compile(r"Traceback \(most recent|Exception ignored|Fatal Python error|^\s+File \"", re.M),
    "an internal error": re.compile(r"internal error"),
    "a bare exception": re.compile(r"^\w*(?:Error|Exception)\b", re.M),
    "a false cause": re.compile(r"\bwas killed\b"),
}
_USUAL = re.compile(r"^Attached \d+ probes?$\n?", re.M)


def judge(seen: Seen, expected: str, error: int | None = None) -> None:
    """Looks at what tracer said. `expected` is what it prints undisturbed, `error` the number of what was injected."""
    said = _USUAL.sub("", seen.err).strip()
    for kind, pattern in _BAD.items():
        if pattern.search(said):
            seen.wrong(kind, said[:600])
    if any(kind == "no end" for kind, _ in seen.wrongs):
        return
    if seen.status is not None and seen.status < 0:
        seen.wrong("ended by a signal", f"{signal.Signals(-seen.status).name}: {said[:300]}")
    elif seen.status and not said:
        seen.wrong("no word of an error", f"status {seen.status}")
    elif seen.status == 0 and not said and seen.out != expected:
        seen.wrong("a wrong answer without a word", seen.out[:300])
    if error is not None:
        bare = re.compile(rf"^(?:tracer: |\W*error: )(?:\[Errno \d+\] )?{re.escape(os.strerror(error))}\.?$", re.M)
        if bare.search(said):
            seen.wrong("an error that names nothing", said[:300])


def where(pid: int) -> str:
    """What a process and its children are waiting for."""
    words = []
    for process in family(pid):
        with suppress(OSError, psutil.Error):
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                wchan = (thread / "wchan").read_text()
                call = (thread / "syscall").read_text().split()[:3]
                words.append(f"{process.pid}/{thread.name} {process.name()}: {wchan} {' '.join(call)}")
    return "; ".join(words)


def family(pid: int) -> list[psutil.Process]:
    """A process and all that descend from it."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def kill_all(pid: int) -> None:
    """Kills a process and all that descend from it, these first."""
    for process in reversed(family(pid)):
        with suppress(psutil.Error):
            process.kill()
