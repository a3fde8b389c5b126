"""Runs whose stdout and stderr are a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
import tty
from collections.abc import Callable, Mapping, Sequence

from tests.harness.cli import PATIENCE, PATIENCE_S, TRACER, environment

Deeds = Sequence[tuple[bytes, Callable[[subprocess.Popen[bytes]], object]]]


def on_a_terminal(*words: str, env: Mapping[str, str] | None = None, deeds: Deeds = ()) -> tuple[int, bytes]:
    """The status of `tracer WORDS`, and all that it writes to a terminal that is its stdout and stderr. `deeds`: what
    to do, with the process, once so much has been written; each after the one before.
    """
    master, slave = pty.openpty()
    tty.setraw(slave)
    parts: list[bytes] = []
    to_do = list(deeds)

    def read() -> None:
        while True:
            try:
                parts.append(os.read(master, 1 << 16))
            except OSError:  # nobody has the other side any more
                return
            if to_do and to_do[0][0] in b"".join(parts):
                to_do.pop(0)[1](process)

    process = subprocess.Popen(
        [*TRACER, *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment(env)
    )
    os.close(slave)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        status = process.wait(PATIENCE_S * PATIENCE)
        reader.join()
    finally:
        os.close(master)
    return status, b"".join(parts)
