"""The processes of `-p`: already running, not ours, and the trace ends with the last of them."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable, Sequence

from tracer.errors import TracerError, UsageError, printable
from tracer.host.named import named, of_kernel, zombie
from tracer.host.polling import readable
from tracer.host.stat import ENDED, OF_KERNEL, check_numbers, descendants, facts_of, has_others, status_of


class RunningProcess:
    """A process by its number; a descriptor on it keeps a later process of the same number from being taken for it."""

    def __init__(self, pid: int) -> None:
        """Raises `TracerError` where there is no such process, or `pid` is a mere thread of one, or of the kernel."""
        self.pid = pid
        check_numbers()
        group = _thread_group(pid)
        facts = facts_of(pid)
        if group is None:
            raise zombie(pid) if facts is not None else _ended(pid)
        if group != pid:
            hint = f"-p {group} traces all its threads, and with the predicate /tid == {pid}/ this one alone"
            raise TracerError(f"{pid} is a thread of {named(group)}", hint)
        if facts is not None and facts.flags & OF_KERNEL:
            raise of_kernel(str(pid))
        try:
            self.pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise _ended(pid) from None
        except OSError:  # before Linux 5.3
            self.pidfd = -1

    def ended(self) -> bool:
        """Whether it has ended; one that its parent has not reaped yet has."""
        if self.pidfd >= 0:
            return bool(readable([self.pidfd], 0))
        return _thread_group(self.pid) is None

    def close(self) -> None:
        """Lets go of it; the process is not touched."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def __enter__(self) -> RunningProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class RunningProcesses:
    """The processes of one trace. `chosen` says which they are, where the user did not give their numbers. `pidfd`
    becomes readable when one of them has ended, until `ended` has been asked; -1 where the kernel does not tell.
    """

    def __init__(self, processes: Sequence[RunningProcess], chosen: str = "") -> None:
        """Takes at least one process; they are closed with it."""
        self.chosen = chosen
        self.members = self._running = processes
        self.pidfd = processes[0].pidfd
        self._epoll: select.epoll | None = None
        if len(processes) > 1 and self.pidfd >= 0:
            self._epoll = select.epoll()
            for process in processes:
                self._epoll.register(process.pidfd, select.EPOLLIN)
            self.pidfd = self._epoll.fileno()

    @property
    def pids(self) -> tuple[int, ...]:
        """The numbers of the processes."""
        return tuple([process.pid for process in self.members])

    def ended(self) -> bool:
        """Whether the last has ended."""
        running = []
        for process in self._running:
            if not process.ended():
                running.append(process)
            elif self._epoll is not None:
                self._epoll.unregister(process.pidfd)
        self._running = running
        return not running

    def close(self) -> None:
        """Lets go of them; a second call does nothing."""
        if self._epoll is not None:
            self._epoll.close()
        for process in self.members:
            process.close()

    def __enter__(self) -> RunningProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def processes_of(asked: Sequence[int | str], children: bool = False, named: str = "-p") -> RunningProcesses:
    """The processes of numbers and names, each once, and with `children` what descends from them and runs now. A text
    may hold several between commas. They are held until closed. `named` is what the user calls this. Raises
    `TracerError`.
    """
    words = [word for given in asked for word in str(given).split(",")]
    for word in words or ("",):
        if not word or (word.startswith("-") and not word[1:].isdecimal()):  # an option
            raise UsageError(f"{named} {printable(','.join(words))}: a number or a name is missing")
        if _is_number(word) and int(word) <= 0:
            raise UsageError(f"{named} {word}: a process number is positive")
    held: dict[int, RunningProcess] = {}
    try:
        for word in words:
            if _is_number(word):
                _hold(held, [int(word)], sure=True)
                continue
            from tracer.target import chosen

            if not _hold(held, chosen.of_name(word), sure=False):
                raise chosen.nobody(word)
        numbers = len(held)
        if children:
            _hold(held, descendants(held), sure=False)
        said = ""
        if len(held) > numbers or not all([_is_number(word) for word in words]):
            from tracer.target import chosen

            said = chosen.said([*held])
        return RunningProcesses([*held.values()], said)
    except BaseException:
        for process in held.values():
            process.close()
        raise


def _is_number(word: str) -> bool:
    return word.lstrip("-+").isdecimal()


def _hold(held: dict[int, RunningProcess], pids: Iterable[int], sure: bool) -> bool:
    """Whether any is held. One that has ended since it was found is left out, unless the user was `sure` of it."""
    some = False
    for pid in pids:
        try:
            if pid not in held:
                held[pid] = RunningProcess(pid)
            some = True
        except TracerError:
            if sure:
                raise
    return some


def _ended(pid: int) -> TracerError:
    return TracerError(f"no process {pid}", "list processes with: ps -e")


def _thread_group(pid: int) -> int | None:
    """The process a thread belongs to, None where it has ended (proc(5), status: Tgid and State). A process whose main
    thread has ended goes on with its others.
    """
    try:
        fields = status_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    group = int(fields["Tgid"])
    if fields["State"].startswith(ENDED) and not (group == pid and has_others(pid)):
        return None
    return group
