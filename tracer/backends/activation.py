"""A session whose semaphores the tracer counts itself, since the kernel does not (`--usdt-file-activation`), or would
do it in the wrong memory (`Site.raised`).

The session knows nothing of it: its program is compiled for sites without semaphores. They are raised right after it
has attached, and lowered right after it has detached.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tracer.backends.base import Session
from tracer.dataclass import names, replace
from tracer.errors import TracerError
from tracer.host.polling import ready
from tracer.kernel.workers import semaphore_process
from tracer.kernel.workers.semaphores import Semaphore
from tracer.kernel.workers.spawn import start
from tracer.kinds.site import Target
from tracer.lang import features
from tracer.plan.model import Plan

_PATIENCE_S = 60.0
_HURRY_S = 1.0
"""How long to wait after something has woken the run loop, such as Ctrl-C."""


def without_semaphores(plan: Plan) -> Plan:
    """The plan for a kernel that does not count them."""
    return replace(
        plan,
        probes=tuple(
            replace(
                probe,
                variants=tuple(
                    replace(variant, sites=tuple(replace(site, semaphore=None) for site in variant.places))
                    if variant.places
                    else variant
                    for variant in probe.variants
                ),
            )
            for probe in plan.probes
        ),
        needs=tuple(need for need in plan.needs if need.feature is not features.SEMAPHORE),
    )


def semaphores(plan: Plan, kernel: bool) -> tuple[Semaphore, ...]:
    """The semaphores of the plan that the tracer raises once, with the first of its probes; `kernel`: without those
    that the kernel raises.
    """
    by_place: dict[object, Semaphore] = {}
    for site in plan.places:
        offset = site.raised if kernel else site.guard
        if offset is not None and site.semaphore_address is not None:
            file = site.identity
            by_place.setdefault(
                (file.device, file.inode, offset),
                Semaphore(file.device, file.inode, offset, site.semaphore_address, site.offset, site.address),
            )
    return tuple(by_place.values())


class ActivatedSession:
    """A `backends.base.Session` around another one, which does everything that is not defined here. `activation` is the
    message to print once it is attached, `raised` in how many processes they are up. The semaphores of a detached
    attach point stay up until the end: they let the target prepare arguments, and no more.
    """

    def __init__(
        self, session: Session, semaphores: tuple[Semaphore, ...], target: Target, wake: Callable[[], tuple[int, ...]]
    ) -> None:
        """`session` runs the plan without these semaphores; `wake` as in `Surroundings`."""
        self._session = session
        self._semaphores = semaphores
        self._target = target
        self._wake = wake
        self._process: Process | None = None
        self.activation = ""
        self.raised = 0
        self._not_undone: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def not_undone(self) -> str | None:
        return self._not_undone or self._session.not_undone

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Attaches, then raises the semaphores: a hit before would find no probe."""
        sites = self._session.attach(stop)
        self._process = Process()
        if self._target.program is None:
            self.raise_all()
        return sites

    def raise_all(self) -> int:
        """Raises them, in so many processes; to be called when the program of a command is in memory and has not run
        yet.
        """
        if self._process is None:
            return 0  # it was stopped before
        pids = self._target.pids
        self.raised, refused = self._process.raise_all(pids, self._semaphores, self._wake())
        self.activation = _said(pids, self.raised, refused)
        return self.raised

    def detach(self) -> None:
        """Detaches, and lowers the semaphores."""
        self._session.detach()
        self._lower()

    def close(self) -> None:
        try:
            self._session.close()
        finally:
            self._lower()

    def __enter__(self) -> ActivatedSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _lower(self) -> None:
        process, self._process = self._process, None
        if process is not None and not process.lower_all():
            self._not_undone = "the process that lowers semaphores has ended, or does not answer: they may stay raised"


def _said(pids: Sequence[int], raised: int, refused: list[tuple[int, str]]) -> str:
    """Says in one line in how many processes they are raised, and what is not seen."""
    if len(pids) == 1:
        whom = f"process {pids[0]}" if raised else f"no process: {pids[0]} has not loaded the file"
    elif pids:
        whom = f"{raised} of {len(pids)} processes" if raised else "no process: none of them has loaded the file"
    else:
        whom = "1 process" if raised == 1 else f"{raised} processes"
    failed = "".join(f"; not in process {pid}: {why}" for pid, why in refused[:1])
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return f"semaphores raised in {whom}{failed}{more}; processes started later are not seen"


class Process:
    """The process that counts (see `kernel.workers.semaphore_process`)."""

    def __init__(self) -> None:
        try:
            self._worker = start(semaphore_process.__file__)
        except OSError as error:
            message = f"cannot start the process that counts semaphores: {error.strerror}"
            raise TracerError(message, "memory may be short, or the number of processes limited (ulimit -u)") from None
        self._answers = b""
        self._patience_s = _PATIENCE_S
        self._asked = False

    def raise_all(
        self, pids: Sequence[int], semaphores: tuple[Semaphore, ...], wake: tuple[int, ...], copies: bool = False
    ) -> tuple[int, list[tuple[int, str]]]:
        """Raises them in these processes, or (without any) in all. Returns in how many they are up, and which could not
        be written, with the reason. With `copies` only those that the kernel leaves out.
        """
        self._asked = True
        rows = [[getattr(semaphore, name) for name in names(semaphore)] for semaphore in semaphores]
        with suppress(BrokenPipeError), open(self._worker.to, "w", closefd=False) as requests:
            requests.write(json.dumps([[*pids], rows, copies]) + "\n")
        answer = self._answer(wake)
        if answer is None:
            self._patience_s = 0  # what it raises yet it lowers by itself
            message = "the process that counts semaphores has ended, or does not answer"
            raise TracerError(message, "run the command again")
        if "error" in answer:
            raise TracerError(f"semaphores cannot be raised: {answer['error']}", "tracers take turns with a lock there")
        return answer["raised"], [(pid, why) for pid, why in answer["refused"]]

    def balance(self) -> None:
        """See `Counting.balance`."""
        with suppress(BrokenPipeError):
            os.write(self._worker.to, b"balance\n")
            self._answer()

    def lower_all(self) -> bool:
        """Returns once they are down; False where the process did not say so. It says nothing where none was raised."""
        os.close(self._worker.to)
        lowered = self._answer() is not None or not self._asked
        os.close(self._worker.back)
        self._worker.reap(wait=lowered)
        return lowered

    def _answer(self, wake: tuple[int, ...] = ()) -> dict[str, Any] | None:
        poll = select.poll()  # select(2) takes no descriptor beyond 1023, and a session can have more
        for fd in (self._worker.back, *wake):
            poll.register(fd, select.POLLIN)
        deadline = time.monotonic() + self._patience_s
        while b"\n" not in self._answers:
            readable = ready(poll, deadline - time.monotonic())
            if readable and self._worker.back not in readable:
                for fd in readable:
                    poll.unregister(fd)
                deadline = min(deadline, time.monotonic() + _HURRY_S)
                continue
            data = os.read(self._worker.back, 1 << 16) if readable else b""
            if not data:
                return None
            self._answers += data
        line, _, self._answers = self._answers.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer
