"""The effects of a program beside printing: messages on stderr, files that it shows, commands that it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from subprocess import Popen

    from tracer.host.leases import Leases

_LOOK_S = 0.1


class Words(Protocol):
    """The receiver of what a program says beside its results; `escapes`: control characters in values must not reach
    it.
    """

    escapes: bool

    def say(self, text: str, /) -> None:
        """Writes one line or more."""


class Effects:
    """See `render.renderer.Effects`. What goes wrong is said, and the trace goes on."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self.escapes = words.escapes
        self.leases: Leases | None = None
        self._unfinished: list[tuple[Popen[bytes], Callable[[bytes], None]]] = []

    def say(self, text: bytes) -> None:
        """A line on stderr."""
        self._words.say(text.decode("utf-8", "backslashreplace"))

    def file(self, name: bytes, most: int) -> bytes:
        """The first bytes of a file."""
        from tracer.host.memory import content_of
        from tracer.opening import content

        try:
            text = content_of(name)
            return content(name, most) if text is None else text[:most]
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "no such name"
            if self.escapes:
                from tracer.render.terminal.escape import escaped

                name = escaped(name)
            self.say(b"ERROR: failed to open file '%b' (%b)\n" % (name, reason.encode()))
            return b""

    def command(self, text: bytes, show: Callable[[bytes], None]) -> None:
        """Shows what a command prints. The shell gets the text as the program's format made it.

        A command that is about to write what is probed waits for the end of the trace, so the trace cannot wait for it.
        """
        from subprocess import PIPE, STDOUT, Popen, TimeoutExpired

        process = Popen(["/bin/sh", "-c", text.partition(b"\0")[0]], stdout=PIPE, stderr=STDOUT)
        while True:
            try:
                self._end(process, show, _LOOK_S)
                return
            except TimeoutExpired:
                if self.leases is not None and self.leases.wanted is not None:
                    self._unfinished.append((process, show))
                    return

    def finish(self) -> None:
        """Waits for commands that the trace did not wait for."""
        for process, show in self._unfinished:
            self._end(process, show, None)

    def _end(self, process: Popen[bytes], show: Callable[[bytes], None], timeout_s: float | None) -> None:
        printed = process.communicate(timeout=timeout_s)[0]
        if process.returncode:
            self.say(b"ERROR: command exited with code %d\n" % process.returncode)
        show(printed)
