"""Runs command lines in forks of one interpreter that has imported everything: what an emulated machine is slow at.

`python -m tests.harness.warm` is that interpreter. It reads a line of JSON for each run (the words, what is added to
the environment, and the files for the two outputs), forks, and answers with the exit status. A fork has its own
session, no input, and nothing that an earlier run left, for the parent never runs a command itself.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from tests.harness.cli import PATIENCE, PATIENCE_S, ROOT, Done, environment
from tracer import dataclass


class Warm:
    """The interpreter, as long as it is needed; one run at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        self._lock = threading.Lock()

    def tracer(self, *args: str, env: Mapping[str, str] | None = None) -> Done:
        """Runs `tracer ARGS` to its end, as `tests.harness.cli.tracer` does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock, tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            self._process.stdin.write(json.dumps([args, dict(env or {}), str(out), str(err)]).encode() + b"\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return Done(status, out.read_bytes(), err.read_text(errors="replace"))

    def close(self) -> None:
        """Ends it."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


class Warms:
    """Some of them, for runs from several threads; each is started when it is first needed.

    One where TRACER_TEST_WARM=1 is set: under emulation a start costs more than a second one gains. Else more than
    there are processors, since a run waits too.
    """

    def __init__(self) -> None:
        self.count = 1 if os.environ.get("TRACER_TEST_WARM") == "1" else min(4, (os.cpu_count() or 1) + 1)
        self._free: queue.LifoQueue[Warm | None] = queue.LifoQueue()
        for _ in range(self.count):
            self._free.put(None)

    def tracer(self, *args: str, env: Mapping[str, str] | None = None) -> Done:
        """Runs `tracer ARGS` to its end."""
        warm = self._free.get() or Warm()
        try:
            return warm.tracer(*args, env=env)
        finally:
            self._free.put(warm)

    def close(self) -> None:
        """Ends them all, which must have nothing to do."""
        for _ in range(self.count):
            if warm := self._free.get():
                warm.close()


def _serve() -> None:
    import tracer

    for module in walk_packages(tracer.__path__, "tracer."):
        if not module.name.endswith(("__main__", "compile_child")):
            import_module(module.name)
    from tracer.cli.app import main

    for cls in gc.get_objects():
        if isinstance(cls, type) and cls.__dict__.get("__init__") is dataclass._first_init:
            _complete(cls)

    gc.disable()  # as the command does before its imports
    gc.freeze()
    while line := sys.stdin.buffer.readline():
        words, env, out, err = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            for number, name in enumerate([os.devnull, out, err]):
                os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
            os.environ.update(env)
            sys.argv = ["tracer", *words]
            os._exit(main())  # as the command does: tidying up all that is imported takes longer than a run
        print(_status(child), flush=True)


def _complete(cls: Any) -> None:
    """Compiles what a class of `tracer.dataclass` compiles with its first object: each run would do it anew."""
    cls.__init__ = dataclass._compiled_init(cls, dataclass._fields(cls), cls._is_frozen)


def _status(child: int) -> int:
    """How it ended; one that hangs is killed, and its status says so."""
    ended = os.pidfd_open(child)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not select.select([ended], [], [], PATIENCE_S * PATIENCE)[0]:
            os.killpg(child, number)
    os.close(ended)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    _serve()
