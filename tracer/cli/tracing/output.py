"""Writes results and messages: in big pieces, and never in a way that holds up the trace.

Whoever reads our output may be slow (`| less`), or stop (`| head`). A write that had to wait for them would keep us
from the buffers of the kernel, and Ctrl-C from us. So nothing here blocks in write(2): where the reader takes no more,
we wait for it, for signals, and a hundred times a second let the session take out what has come meanwhile.

A pipe or a terminal is opened anew for that (/proc/self/fd/1): O_NONBLOCK belongs to an open file, which we share with
the shell and the command of -c. Where that fails, and for sockets, at most PIPE_BUF bytes are written once poll(2) says
that there is room; only another writer at the same moment could make that wait.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.errors import Heard, TracerError, counted, printable
from tracer.host.polling import ready
from tracer.render.notices import DETAIL, NOTE, WARNING, Attached, Consumer, Lost, Notice, Overhead, Waits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack

    from tracer.cli.tracing.status import StatusLine
    from tracer.tracing.loop import Controls

PIECE = 1 << 16
"""Bytes that are collected before they are written, where nothing asks for them earlier."""

PATIENCE_S = 5.0
"""How long a trace that was asked to end waits for a reader that takes nothing."""

_TICK_S = 0.01
_PIPE_BUF = 4096


class Output:
    """A stream of bytes to a descriptor, which stays open. `buffering`: with `none` each result is written at once,
    with `line` what is there when the trace has to wait for more, with `full` large pieces, and the rest at the end.

    Raises `BrokenPipeError` where the reader has gone, at the latest when the run loop wakes: `controls.wake` has a
    descriptor for that, unless the trace does without it (not `needed`). `escapes`: it is a terminal, which values must
    not steer, unless they are to be `raw`. Any other failure is a `TracerError`. What
    nobody takes although the trace is to end is left out, and counted in `left_out` (bytes). `status`: a line that may
    stand on the same terminal.
    """

    def __init__(
        self, descriptor: int, name: str, buffering: str, controls: Controls, needed: bool = True, raw: bool = False
    ) -> None:
        self.raw = raw
        self.escapes = not raw and os.isatty(descriptor)
        self._name = name
        self._buffering = buffering
        self._controls = controls
        self._parts: list[bytes] = []
        self._size = 0
        self.left_out = 0
        self.status: StatusLine | None = None
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError as error:
            raise self._failure(error) from None
        piped = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._reopened = _reopened(descriptor) if stat.S_ISFIFO(mode) or os.isatty(descriptor) else -1
        self._descriptor = descriptor if self._reopened < 0 else self._reopened
        self._is_terminal = os.isatty(descriptor)
        self._polite = self._reopened < 0 and (piped or self._is_terminal)
        self._gone: select.epoll | None = None
        if piped and needed:
            self._gone = select.epoll()
            self._gone.register(descriptor, 0)  # an error or a hang-up is told all the same: the reader has gone
            controls.wake = (*controls.wake, self._gone.fileno())

    @classmethod
    def of_results(cls, path: str | None, buffering: str, controls: Controls, raw: bool, stack: ExitStack) -> Output:
        """The output to the file `path`, or to stdout: but for a terminal, a traced program's strings come out as they
        went in.
        """
        if path is not None:
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise TracerError(f"cannot write {path}: {error.strerror}") from None
            stack.callback(os.close, descriptor)
        elif sys.stdout is None:  # descriptor 1 may be any file by now
            raise TracerError("stdout is closed", "-o FILE writes results to a file")
        else:
            descriptor = sys.stdout.fileno()
        return cls(descriptor, path or "stdout", buffering, controls, raw=raw)

    def write(self, data: bytes) -> None:
        """Takes some output; sees to it that no more than a piece waits for long."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= PIECE or self._buffering == "none":
            self._push()

    def flush(self) -> None:
        """The trace is about to wait: what is there is written, unless the buffering says otherwise."""
        if self._gone is not None and self._gone.poll(0):
            raise BrokenPipeError
        if self._parts and self._buffering != "full":
            self._push()
        if self.status is not None:
            self.status.look()

    def finish(self) -> None:
        """Writes everything."""
        if self._parts:
            self._push()

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *error: object) -> None:
        if self._gone is not None:
            gone = self._gone.fileno()
            self._controls.wake = tuple(descriptor for descriptor in self._controls.wake if descriptor != gone)
            self._gone.close()
        if self._reopened >= 0:
            os.close(self._reopened)

    def _push(self) -> None:
        """Writes what is there. Where a signal asks for the end meanwhile, the rest stays until the probes are gone."""
        data = memoryview(b"".join(self._parts))
        begun = time.monotonic()
        status = self.status if self._is_terminal else None
        while data:
            written = self._write(data) if status is None or status.erase() else 0
            if written:
                data = data[written:]
                begun = time.monotonic()
            elif self._has_to_end(begun):
                break
            else:
                self._wait()
        if data and self._controls.hurry:
            self.left_out += len(data)
            data = data[:0]
        self._parts = [bytes(data)] if data else []
        self._size = len(data)

    def _write(self, data: memoryview) -> int:
        """Writes; returns the number of bytes that were taken, 0 where there is no room."""
        try:
            if not self._polite:
                return os.write(self._descriptor, data)
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            return os.write(self._descriptor, data[:_PIPE_BUF]) if ready(poll, 0) else 0
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failure(error) from None

    def _has_to_end(self, begun: float) -> bool:
        """Whether to wait no longer. `begun`: since when the reader takes nothing."""
        controls = self._controls
        if controls.stop and controls.detached and time.monotonic() - begun > PATIENCE_S:
            controls.hurry = True
        return controls.hurry or (controls.stop and not controls.detached)

    def _wait(self) -> None:
        """Waits for room, but not for long."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        if self._controls.bell >= 0:
            poll.register(self._controls.bell, select.POLLIN)
        if self._controls.bell in ready(poll, _TICK_S):
            self._controls.acknowledge()
        self._controls.meanwhile()

    def _failure(self, error: OSError) -> TracerError:
        return TracerError(f"cannot write {self._name}: {error.strerror}")


class Words:
    """The words on stderr during a trace. Who does not read it, or has closed it, is not told; and neither does it
    keep the trace from its end.
    """

    def __init__(self, controls: Controls, raw: bool = False) -> None:
        self._output: Output | None = None
        self._heard = Heard(self._tell)  # it must not wait for a reader either
        if sys.stderr is not None:  # it was closed before we began, and descriptor 2 may be any file by now
            with suppress(TracerError):
                self._output = Output(2, "stderr", "none", controls, needed=False, raw=raw)
        self.escapes = self._output is not None and self._output.escapes

    def beside(self, status: StatusLine) -> None:
        """The words stand on the terminal of such a line, which gives way to them."""
        if self._output is not None:
            self._output.status = status

    def say(self, text: str) -> None:
        """One line or more."""
        if self._output is not None:
            with suppress(TracerError, OSError):
                self._output.write(text.encode(errors="backslashreplace"))

    def finish(self) -> None:
        """Says what had to wait for the end of the trace."""
        if self._output is not None:
            with suppress(TracerError, OSError):
                self._output.finish()

    def _tell(self, line: str) -> None:
        self.say(f"tracer: {printable(line)}\n")

    def __enter__(self) -> Words:
        self._heard.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._heard.__exit__()
        if self._output is not None:
            self._output.__exit__(*error)


class Talk(Consumer):
    """Says what is to be said: with `quiet` only what the answer lacks, with `verbose` all. `warns`: an attach point
    that slows the programs down is told. When the results are complete, `outs` are written. With a `status` line the
    number of probes stands there alone.
    """

    def __init__(
        self, words: Words, outs: Sequence[Output], quiet: bool, verbose: bool, warns: bool,
        status: StatusLine | None = None,
    ) -> None:  # fmt: skip
        self._status = status
        self._words = words
        self._outs = outs
        self._quiet = quiet
        self._verbose = verbose
        self._warns = warns
        self.as_wanted: Callable[[Notice], Notice | None] = lambda notice: notice
        """What is said in the place of a notice; None for nothing."""

    def notice(self, notice: Notice) -> None:
        wanted = self.as_wanted(notice)
        if wanted is None:
            return
        notice = wanted
        if isinstance(notice, Attached):
            self._attached(notice)
        elif isinstance(notice, Overhead):
            self._overhead(notice)
        elif isinstance(notice, Lost):
            for line in notice.sentences():
                self.say(line)
        elif isinstance(notice, Waits) and notice.ending:
            self.say(f"{notice}; Ctrl-C leaves that to a process in the background")
        elif notice.weight == WARNING or self._wants(notice.weight):
            self.say(str(notice))

    def _wants(self, weight: str) -> bool:
        return not self._quiet and (weight == NOTE or (weight == DETAIL and self._verbose))

    def finish(self) -> None:
        if self._status is not None:
            self._status.end()
        for out in self._outs:
            out.finish()

    @property
    def left_out(self) -> int:
        """Bytes of output that nobody took."""
        return sum(out.left_out for out in self._outs)

    def end(self) -> None:
        if self.left_out:
            self.say(f"{self.left_out} bytes of output left out: nobody reads them")
        self._words.finish()

    def say(self, line: str, prefix: str = "tracer: ") -> None:
        """A line."""
        if not line.isprintable():
            line = printable(line)  # the names of files and functions are not the user's own
        self._words.say(f"{prefix}{line}\n")

    def _attached(self, notice: Attached) -> None:
        if self._status is not None:
            self._status.attached(notice.sites)
        if self._quiet or (self._status is not None and not self._verbose):
            return
        how = ""
        if self._verbose and notice.backend:
            how = f" through {notice.backend}, {counted(notice.sites, 'site')}"
        self.say(f"{notice}{how}", prefix="")

    def _overhead(self, notice: Overhead) -> None:
        if not self._quiet and self._warns:
            from tracer.cli.errors import diagnostics_text

            self._words.say(diagnostics_text(notice.source, [notice.diagnostic]))


def _reopened(descriptor: int) -> int:
    """Opens a pipe or terminal again, for us alone; -1 where that is not allowed."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        return os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:
        return -1
