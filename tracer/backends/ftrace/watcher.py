r"""A process that outlives the tracer by a moment and undoes what is left, even after SIGKILL.

It runs this very file (see `backends.outliving`). Through its pipe come the undo steps, each before the deed it
belongs to; the pipe ends when the tracer does, however it does. Then the steps are tried, newest
first, until each has succeeded or found nothing to undo: the kernel closes a dead process's descriptors one by one,
and a probe that is still held by one of them cannot be removed yet. A file is removed only once all steps after it are
done: it is the lock by which the next start sees that there is something to sweep.

It says on its standard output that it is up, and the tracer enables nothing before. If somebody kills it later, the
session goes on: its own undoing, the sweep at the next start and `tracer cleanup` remain.

A step is a line: `write\tFILE\tTEXT` appends TEXT to FILE, `unlink\tFILE` removes it, `forget` drops all steps so far.
"""

from __future__ import annotations

import os

_PATIENCE_S = 60.0
_START_S = 60.0
"""Long: it needs a hundredth of a second of CPU time, which a busy or an emulated machine may be slow to give."""

_GONE = {2, 3, 19, 22}  # ENOENT, ESRCH, ENODEV, EINVAL: there is nothing to undo


class Watcher:
    """The tracer's side: starts the process, hands it steps, ends it."""

    def __init__(self) -> None:
        """Starts the process. Raises `OSError` where that fails."""
        from tracer.backends.outliving import start

        process = start(__file__)
        self.pid, self._write, self._up = process.pid, process.to, process.back

    def wait_until_up(self) -> None:
        """Returns once the process runs. Raises `OSError` where it ended instead, or does not come up."""
        import errno
        import select

        if self._up >= 0:
            poll = select.poll()
            poll.register(self._up, select.POLLIN)
            in_time = poll.poll(_START_S * 1000)
            said = os.read(self._up, 1) if in_time else b""
            os.close(self._up)
            self._up = -1
            if not in_time:
                raise TimeoutError(errno.ETIMEDOUT, f"it has not come up within {_START_S:g} seconds")
            if not said:
                raise ChildProcessError(errno.ECHILD, self._how_it_ended())

    def _how_it_ended(self) -> str:
        import signal

        try:
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:  # SIGCHLD is ignored, and the kernel has reaped it
            return "it ended at once"
        return f"it ended at once, with status {code}" if code >= 0 else f"{signal.Signals(-code).name} ended it"

    def undo_write(self, path: str, text: str) -> None:
        """To undo the next deed, append `text` to `path`. Returns once the process has the step."""
        self._send(f"write\t{path}\t{text}")

    def undo_unlink(self, path: str) -> None:
        """To undo the next deed, remove the file `path`."""
        self._send(f"unlink\t{path}")

    def end(self, undone: bool) -> None:
        """Ends the process and waits for it; where not all is `undone`, it stays and goes on trying alone."""
        if self._write < 0:
            return
        if undone:
            self._send("forget")
        os.close(self._write)
        self._write = -1
        if self._up >= 0:
            os.close(self._up)
            self._up = -1
        if undone:
            import signal

            try:
                # It has nothing left to do; waiting for its interpreter to come up first would only cost time. As long
                # as it is not reaped the number is its own.
                if os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                    os.kill(self.pid, signal.SIGKILL)
                    os.waitpid(self.pid, 0)
            except (ChildProcessError, ProcessLookupError):
                pass  # SIGCHLD is ignored, and the kernel has reaped it

    def _send(self, line: str) -> None:
        import contextlib

        # Where somebody killed it the session goes on: its own undoing and `cleanup` remain.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write, line.encode("utf-8", "surrogateescape") + b"\n")


def watch(fd: int) -> None:
    """The process: takes steps from `fd` until it ends, then undoes them."""
    import time

    data = b""
    while chunk := os.read(fd, 65536):
        data += chunk
    steps: list[bytes] = []
    for line in data.split(b"\n")[:-1]:
        if line == b"forget":
            steps.clear()
        else:
            steps.append(line)
    started = time.monotonic()
    pause = 0.002
    while steps and time.monotonic() - started < _PATIENCE_S:
        left: list[bytes] = []
        for step in reversed(steps):
            if (left and step.startswith(b"unlink\t")) or not _undo(step.split(b"\t")):
                left.append(step)
        steps = left[::-1]
        if steps:
            time.sleep(pause)
            pause = min(pause * 2, 0.25)


def _undo(step: list[bytes]) -> bool:
    try:
        if step[0] == b"unlink":
            os.unlink(step[1])
        else:
            fd = os.open(step[1], os.O_WRONLY | os.O_APPEND)
            try:
                os.write(fd, step[2] + b"\n")
            finally:
                os.close(fd)
    except OSError as error:
        return error.errno in _GONE
    return True


if __name__ == "__main__":
    os.chdir("/")
    # Whoever waits for the end of a pipe that the tracer inherited must not wait for this process.
    os.closerange(3, 1 << 16)
    up = os.dup(1)
    os.dup2(2, 1)
    try:  # noqa: SIM105 - the tracer waits for this, and contextlib takes half as long to load as the interpreter
        os.write(up, b".")
    except OSError:
        pass  # the tracer is gone already
    os.close(up)
    watch(0)
