"""Runs whose stdout and stderr are a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
import tty
from collections.abc import Mapping

from tests.harness.cli import PATIENCE, PATIENCE_S, TRACER, environment


def on_a_terminal(*words: str, env: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """The status of `tracer WORDS`, and all that it writes to a terminal that is its stdout and stderr."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    parts: list[bytes] = []

    def read() -> None:
        while True:
            try:
                parts.append(os.read(master, 1 << 16))
            except OSError:  # nobody has the other side any more
                return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        process = subprocess.Popen(
            [*TRACER, *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment(env)
        )
        os.close(slave)
        status = process.wait(PATIENCE_S * PATIENCE)
        reader.join()
    finally:
        os.close(master)
    return status, b"".join(parts)
