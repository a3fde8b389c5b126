"""One run of tracer under attack: it is started, stopped, and looked after.

A run traces a copy of `tests/targets/steady.c` that no other run traces at that time: what is in its memory is ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from scripts.attack.verdict import Seen, judge
from tests.harness.cli import PATIENCE, TRACER, environment, read_line, target, tell
from tests.harness.kernel import uprobe_events
from tests.live.breakpoints import texts_of
from tests.targets.build import build, cache_dir

LIMIT_S = 10.0
"""Within that a run must have ended, from Ctrl-C on, or with -c from the start."""

ANSWER = "answer 4661"
"""What the target says when nothing disturbs it."""

SHAPES = {
    "counter": "usdt:{}:steady:hit {{ @ = count(); }}",
    "hist": "uprobe:{}:work {{ @ = hist(arg0); }}",
    "str": "uprobe:{}:work {{ @[str(arg1)] = count(); }}",
    "ustack": "uprobe:{}:work {{ @[ustack(2)] = count(); }}",
    "printf": 'usdt:{}:steady:hit /arg0 < 9/ {{ printf("%d %s\\n", arg0, str(arg1)); }}',
    "event": "tracepoint:syscalls:sys_enter_getppid {{ @[probe] = count(); }}",
    "sample": "profile:hz:999 {{ @[kstack(3)] = count(); }} END {{ print(len(@) >= 0); clear(@); }}",
    "watch": "watchpoint:{}:progress:w {{ @[tid == pid] = count(); }}",
    "uretprobe": "uretprobe:{}:work {{ @[retval % 3] = count(); }}",
}
"""A program of each shape, over the target's file."""

NOTHING = (134, 0, 0)
"""Nothing is injected: a system call that nobody makes (uselib)."""

_lock = threading.Lock()
_TARGETS_WORDS = re.compile(rb"^(ready|answer \d+|semaphore \d+)\n", re.M)


@dataclass(frozen=True)
class Config:
    """The configuration of a run: the backend, the shape of the program, -c or -p, and whether an earlier run's cache
    is there.
    """

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


@cache
def injector() -> Path:
    """The program that injects, and that sees when the last process of a run has ended; compiled."""
    source = Path(__file__).with_name("inject.c")
    program = cache_dir() / f"inject-{source.stat().st_mtime_ns}"
    if not program.exists():
        part = program.with_name(f".{program.name}.{os.getpid()}.{threading.get_ident()}")
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", str(source), "-o", str(part)], check=True)
        part.rename(program)
    return program


class Bench:
    """A bench on which runs take place, one at a time: a folder with the target's copy, the cache, and the outputs."""

    def __init__(self, folder: Path, name: str = "steady") -> None:
        self.folder = folder
        self._name = name
        folder.mkdir(exist_ok=True)
        self.renew()

    def renew(self) -> None:
        """A fresh copy of the target: what was left in the old one's memory is nobody's any more."""
        home = Path(tempfile.mkdtemp(dir=self.folder))
        self.target = Path(shutil.copy(build(self._name), home / "steady"))

    def undisturbed(self, config: Config) -> str:
        """The output of a configuration when nothing happens; nothing must be wrong then."""
        return _undisturbed(self.folder.parent, Config(config.backend, config.shape, config.mode, "warm"))

    def cache(self, config: Config) -> Path:
        """The folder for what is kept from run to run; an empty one for a cold run."""
        path = self.folder / config.cache
        if config.cache == "cold":
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(exist_ok=True)
        return path

    def run(
        self,
        config: Config,
        prefix: Sequence[str] = (),
        inject: tuple[int, int, int] = NOTHING,
        meanwhile: Callable[[psutil.Process], None] | None = None,
        words: Sequence[str] = (),
        limit_s: float = LIMIT_S,
    ) -> Seen:
        """Runs tracer and looks at everything but its words.

        `prefix` goes before its command; `inject` is as for inject.c: the number of a call, N, and an error's number;
        `meanwhile` is called in a thread, with the process, from the start on; `words` are the target's.
        """
        seen, limit = Seen(), limit_s * PATIENCE
        report = self.folder / "report"
        report.unlink(missing_ok=True)
        with target(self.target, *words) as traced_process:
            assert read_line(traced_process) == "ready"
            program = SHAPES[config.shape].format(self.target)
            traced = " ".join([str(self.target), *words]) if config.mode == "-c" else str(traced_process.pid)
            command = [*prefix, *TRACER, "--backend", config.backend, "-e", program, config.mode, traced]
            injected = [str(word) for word in (injector(), report, *inject, self.target)]
            with self._started([*injected, *command], self.cache(config)) as process:
                thread = threading.Thread(target=lambda: meanwhile and meanwhile(psutil.Process(process.pid)))
                thread.start()
                start = time.monotonic()
                if config.mode == "-p":
                    self._until_attached(process, limit)
                    start = time.monotonic()
                    self._answers(traced_process, seen)
                    if process.poll() is None:
                        process.send_signal(signal.SIGINT)
                try:
                    process.wait(limit)
                except subprocess.TimeoutExpired:
                    said = (self.folder / "err").read_text(errors="replace")
                    seen.wrong("no end", f"{said[-300:]!r} {where(process.pid)}")
                    kill_all(process.pid)
                seen.seconds = time.monotonic() - start
                seen.status = process.wait()
                thread.join()
            self._untouched(traced_process, seen, "traced")
            if config.mode == "-c":
                self._answers(traced_process, seen)
            self._ends(traced_process, seen)
        if any(str(self.target) in line for line in uprobe_events()):
            seen.wrong("a definition left", [line for line in uprobe_events() if str(self.target) in line])
        if self.target.exists():
            with target(self.target, *words) as later:
                assert read_line(later) == "ready"
                self._untouched(later, seen, "started later")
                self._answers(later, seen)
                self._ends(later, seen)
        if report.exists():
            told = json.loads(report.read_text())
            seen.status, seen.began = os.waitstatus_to_exitcode(told["status"]), told["began"]
            seen.hit, seen.counts = told["failed"], told["counts"]
            if told["gone"] < 0:
                seen.wrong("a process left", "5 s after tracer's end")
        printed = (self.folder / "out").read_bytes()
        seen.err = (self.folder / "err").read_text(errors="replace")
        seen.out = _TARGETS_WORDS.sub(b"", printed).strip(b"\n").decode(errors="replace")
        if config.mode == "-c" and seen.status == 0 and ANSWER.encode() not in printed:
            seen.wrong("the target's answer", printed[:200])
        if hung := [wrong for wrong in seen.wrongs if wrong[0] == "no end"]:
            seen.wrongs = hung  # what was killed then could clear up nothing
        return seen

    @contextmanager
    def _started(self, command: list[str], cache: Path) -> Iterator[subprocess.Popen[bytes]]:
        given, printed, said = (self.folder / name for name in ("in", "out", "err"))
        given.write_text("go\n")
        with given.open("rb") as stdin, printed.open("wb") as out, said.open("wb") as err:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=out, stderr=err, start_new_session=True,
                cwd=self.folder,  # where Python leaves a file that it has tried a directory with, if all others fail
                env=environment({"XDG_CACHE_HOME": str(cache)}),
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_all(process.pid)
            process.wait()

    def _until_attached(self, process: subprocess.Popen[bytes], limit: float) -> None:
        end = time.monotonic() + limit
        while process.poll() is None and time.monotonic() < end:
            if b"Attached" in (self.folder / "err").read_bytes():
                return
            time.sleep(0.005)

    @staticmethod
    def _answers(process: subprocess.Popen[bytes], seen: Seen) -> None:
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
        there = process.poll() is None and self.target.exists()
        if altered := altered_in(self.target, process.pid) if there else 0:
            seen.wrong("a breakpoint left", f"{altered} bytes in the process that was {which}")

    @staticmethod
    def _ends(process: subprocess.Popen[bytes], seen: Seen) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with suppress(AssertionError):
            said = read_line(process, LIMIT_S)
            if said not in ("semaphore 0", ""):
                seen.wrong("a semaphore left", said)


@cache
def _undisturbed(folder: Path, config: Config) -> str:
    with _lock:
        seen = Bench(Path(tempfile.mkdtemp(dir=folder))).run(config)
    judge(seen, seen.out)
    if seen.status != 0 or seen.wrongs or not seen.out:
        raise AssertionError(f"undisturbed, {config}: {seen}")
    return seen.out


def altered_in(path: Path, pid: int) -> int:
    """Counts the bytes of a file's code that are not as in the file, in the memory of a process."""
    texts = list(texts_of(path, [pid]))
    altered = sum(text.altered() for text in texts)
    for memory in {text.memory for text in texts}:
        os.close(memory)
    return altered


def where(pid: int) -> str:
    """Says what a process and its children are waiting for."""
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
