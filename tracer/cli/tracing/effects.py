"""What a program does beside printing: messages on stderr, files that it shows, commands that it runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.cli.tracing.output import Words


class Effects:
    """See `render.renderer.Effects`. What goes wrong is said, and the trace goes on."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def say(self, text: bytes) -> None:
        """A line on stderr."""
        self._words.say(text.decode("utf-8", "backslashreplace"))

    def file(self, name: bytes, most: int) -> bytes:
        """The first bytes of a file."""
        try:
            with open(name, "rb") as file:
                return file.read(most)
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "no such name"
            self.say(b"ERROR: failed to open file '%b' (%b)\n" % (name, reason.encode()))
            return b""

    def command(self, text: bytes) -> bytes:
        """What a command prints. The shell gets the text as the program's format made it."""
        from subprocess import PIPE, STDOUT, run

        done = run(["/bin/sh", "-c", text.partition(b"\0")[0]], stdout=PIPE, stderr=STDOUT, check=False)
        if done.returncode:
            self.say(b"ERROR: command exited with code %d\n" % done.returncode)
        return done.stdout
