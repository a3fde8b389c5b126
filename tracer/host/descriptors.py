"""Names of the files that descriptors of other processes lead to, and for how long each name is known to have held."""

from __future__ import annotations

import os

from tracer.host.clock import clock_ns

EPOCH = 1 << 32
"""What an execve() or close_range() of a process adds to the terms of all its descriptors."""

_GIVEN = (0, 1, 2)
"""The descriptors that a program begins with. Until a call of its process has closed one, it is what it was."""

_APART_NS = 1_000_000
"""A name is not believed where the descriptor was closed within so long of the moment at which it was read: the clocks
of events and of this process need not agree to the nanosecond.
"""


class _Term:
    """A descriptor from when it is first used to when it is closed: what /proc said, up to `until_ns`, and what a call
    that opened it was given.
    """

    __slots__ = ("ended", "looked", "opened", "until_ns")

    def __init__(self) -> None:
        self.looked: bytes | None = None
        self.until_ns = 0
        self.opened: bytes | None = None
        self.ended = False


class Descriptors:
    """The names of descriptors, each by its process, its number, and its *term*: how often that number was closed
    before. So a number that is given to another file again does not give that file the name of the first.

    A name comes from /proc/PID/fd after the descriptor was used. It is that of this term only if the descriptor was
    closed after it was read, which the event of its closing tells later on.
    """

    def __init__(self) -> None:
        self._terms: dict[tuple[int, int, int], _Term] = {}
        self._epochs: dict[int, int] = {}

    def used(self, process: int, number: int, term: int) -> None:
        """The descriptor was used: its name is read now, and those of the ones that programs are given at the start.
        These are often used for the first time just before the end, when there is nothing to read any more.
        """
        held = self._terms.setdefault((process, number, term), _Term())
        epoch = term // EPOCH * EPOCH
        if self._epochs.get(process) != epoch:
            self._epochs[process] = epoch
            for given in _GIVEN:
                if given != number:
                    self._looked(self._terms.setdefault((process, given, epoch), _Term()), process, given)
        if held.looked is None:
            self._looked(held, process, number)

    @staticmethod
    def _looked(held: _Term, process: int, number: int) -> None:
        try:
            held.looked = os.readlink(b"/proc/%d/fd/%d" % (process, number))
        except OSError:
            held.looked = None
        held.until_ns = clock_ns()

    def opened(self, process: int, number: int, term: int, name: bytes) -> None:
        """A call that was given this name has opened the descriptor."""
        self._terms.setdefault((process, number, term), _Term()).opened = name

    def copied(self, process: int, number: int, term: int, to: int, its_term: int) -> None:
        """The descriptor `to` leads to what this one leads to."""
        if (name := self.name(process, number, term)) is not None:
            self.opened(process, to, its_term, name)

    def closed(self, moment_ns: int, process: int, number: int, term: int) -> None:
        """It is being closed, as of this moment of `clock_ns`."""
        self._end(moment_ns, self._terms.get((process, number, term)))

    def all_closed(self, moment_ns: int, process: int, epoch: int) -> None:
        """So are those descriptors of a process whose terms are of this epoch, or may be."""
        for (holder, _, term), held in self._terms.items():
            if holder == process and term // EPOCH == epoch:
                self._end(moment_ns, held)

    @staticmethod
    def _end(moment_ns: int, held: _Term | None) -> None:
        if held is None:
            return
        held.ended = True
        if held.until_ns + _APART_NS > moment_ns:
            held.looked = None

    def forget(self) -> None:
        """Gives up what was closed: nothing more comes of it."""
        self._terms = {key: held for key, held in self._terms.items() if not held.ended}

    def name(self, process: int, number: int, term: int) -> bytes | None:
        """The file's name; None where it is not known."""
        held = self._terms.get((process, number, term))
        return None if held is None else held.looked or held.opened
