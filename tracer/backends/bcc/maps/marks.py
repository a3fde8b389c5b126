"""What clear(@x) and zero(@x) in a probe have put behind.

Hits that come after them must count, so they cannot wait for user space: the program raises the map's *mark* in the
control block, and every key carries the mark at which it was made. A mark counts clears in its low 32 bits and zeros
in the high ones. At a mark (c, z) the map has the elements of (c, z) with their values, and those of (c, z') with
z' < z with 0; all others are of the past.

The records of the statements tell user space, in order with those of `print(@x)`, up to where elements may go. They
are given back `SETTLED_S` later, when no program that found one before the clear still adds to it.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import Generic, TypeVar

from tracer.backends.bcc.control import Control
from tracer.backends.bcc.maps.tabledata import Raw
from tracer.dataclass import dataclass, field
from tracer.results.values import Key

SETTLED_S = 0.05
"""How long after a clear a program may still be adding to an element that it found before."""

T = TypeVar("T")

_TOGETHER_S = 0.01
_CLEARS = 0xFFFF_FFFF
_read = struct.Struct("=Q").unpack_from


def clears(mark: int) -> int:
    """How often the map had been cleared."""
    return mark & _CLEARS


def newer(mark: int, than: int) -> bool:
    """Whether one mark of a map comes after another."""
    return _order(mark) > _order(than)


def _order(mark: int) -> tuple[int, int]:
    return clears(mark), mark >> 32


def mark_of(raw: Raw) -> int:
    """The mark that an element was made at."""
    return int(_read(raw[1], 8)[0])


def moved(raw: Raw, mark: int) -> Raw:
    """The same key at another mark."""
    return raw[0], raw[1][:8] + struct.pack("=Q", mark) + raw[1][16:]


class Settling:
    """The generations of a map that user space has cleared, as long as a program may still be adding to them."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def ended(self, generation: int) -> None:
        """A clear has ended it."""
        now = time.monotonic()
        # In the order in which they ended: those before the first that has not settled have.
        settled = list(takewhile(lambda each: self._at[each] <= now - SETTLED_S, self._at))
        for each in settled:
            del self._at[each]
        self._at[generation] = now

    def has_settled(self, generation: int) -> bool:
        """Whether nothing is added to an earlier generation any more."""
        return self._at.get(generation, 0.0) <= time.monotonic() - SETTLED_S


@dataclass(slots=True)
class Past:
    """The marks of one map as user space follows them. `moment` is the mark that a print wants to see, while it is
    handled; `at` that of the last reading; `zeroed` the keys whose elements were given back though zero() keeps
    them, with the clears before.
    """

    control: Control
    index: int
    moment: int | None = None
    at: int = 0
    zeroed: dict[Key, int] = field(default_factory=dict)
    _raised: deque[tuple[float, list[tuple[int, bool]]]] = field(default_factory=deque)

    def now(self) -> int:
        """The mark that new elements carry."""
        return self.control.mark(self.index)

    def begin(self) -> None:
        """A reading begins: call it before the table is read, so that nothing newer is in between."""
        self.at = self.now() if self.moment is None else self.moment

    def shown(self, raw: Raw) -> bool:
        """Whether an element is in the map as it was at `at`."""
        mark = mark_of(raw)
        return clears(mark) == clears(self.at) and not newer(mark, self.at)

    def is_zero(self, raw: Raw) -> bool:
        """Whether zero() has come between an element and the reading."""
        return newer(self.at, mark_of(raw))

    def zero_keys(self) -> list[Key]:
        """The keys that zero() kept and whose elements have been given back."""
        return [key for key, cleared in self.zeroed.items() if cleared == clears(self.at)]

    def raised(self, before: int, cleared: bool) -> None:
        """A record of clear (else of zero) with the mark before it."""
        now = time.monotonic()
        if not self._raised or self._raised[-1][0] < now - _TOGETHER_S:
            self._raised.append((now, []))
        raises = self._raised[-1][1]
        if raises and raises[-1][1] == cleared:
            raises.pop()  # a later one of the same kind reaches further
        raises.append((before, cleared))

    def due(self) -> list[tuple[int, bool]]:
        """The raises that have settled since it was asked last."""
        settled = time.monotonic() - SETTLED_S - _TOGETHER_S
        found: list[tuple[int, bool]] = []
        while self._raised and self._raised[0][0] <= settled:
            found += self._raised.popleft()[1]
        return found

    def waits(self) -> bool:
        """Whether anything is to be given back, now or soon."""
        return bool(self._raised)


class Ended(Generic[T]):
    """Readings of what clears and zeros have ended: it changes no more, so one serves all prints of earlier marks.
    `read` reads the whole table.
    """

    def __init__(self, past: Past, read: Callable[[], dict[Raw, T]]) -> None:
        self._past = past
        self._read = read
        self._mark = -1
        self._groups: dict[int, dict[Raw, T]] = {}

    def at(self, moment: int) -> dict[Raw, T]:
        """The elements that the map had at a mark."""
        if self._mark < 0 or not newer(self._mark, moment):
            self._mark = self._past.now()
            self._groups = {}
            for raw, value in self._read().items():
                self._groups.setdefault(clears(mark_of(raw)), {})[raw] = value
        group = self._groups.get(clears(moment), {})
        return {raw: value for raw, value in group.items() if not newer(mark_of(raw), moment)}

    def forget(self) -> None:
        """Elements have been given back."""
        self._mark = -1
        self._groups = {}


@dataclass(frozen=True, slots=True)
class Behind:
    """Up to where settled raises reach: `dead`, the last clear's mark before it, and `zeroed`, the last zero's."""

    dead: int | None
    zeroed: int | None

    @staticmethod
    def of(raises: list[tuple[int, bool]]) -> Behind:
        """Of what `Past.due` gave."""
        dead = [before for before, cleared in raises if cleared]
        zeroed = [before for before, cleared in raises if not cleared]
        return Behind(max(dead, key=_order, default=None), max(zeroed, key=_order, default=None))

    def reaches(self, mark: int) -> bool:
        """Whether elements of this mark have been given back."""
        ends = [end for end in (self.dead, self.zeroed) if end is not None]
        return any(not newer(mark, end) for end in ends)

    def is_dead(self, raw: Raw) -> bool:
        """Whether a clear has put an element behind."""
        return self.dead is not None and clears(mark_of(raw)) <= clears(self.dead)

    def is_zeroed(self, raw: Raw) -> bool:
        """Whether only an element's key counts any more."""
        return self.zeroed is not None and not newer(mark_of(raw), self.zeroed)
