"""Resets: how a map that probes write is cleared, by user space and by the probes.

User space has *generations* of a hash: every key carries the number of its generation. To clear is to raise the number
in the control block: programs make new elements from then on, and the old ones stay readable until nothing is added to
them any more.

Hits that come after clear(@x) or zero(@x) in a probe must count, so these cannot wait for user space: the program
raises the map's *mark* in the control block, and every key carries the mark at which it was made. A mark (c, z) counts
the clears and the zeros so far. At (c, z) the map has the elements of (c, z) with their values, and those of (c, z')
with z' < z with 0; all others have been cleared. The records of the statements tell user space, in order with those of
`print(@x)`, which elements may go. They are given back `SETTLED_S` later, when no program that found one before the
reset still adds to it.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import Generic, TypeVar

from tracer.backends.bcc.maps.contents import Raw
from tracer.backends.bcc.maps.control import Control
from tracer.backends.bcc.maps.elements import Element
from tracer.dataclass import NamedTuple
from tracer.results.values import Key

SETTLED_S = 0.05
"""How long after a clear a program may still be adding to an element that it found before."""

E = TypeVar("E")

_TOGETHER_S = 0.01
_generation = struct.Struct("=I")
_mark = struct.Struct("=Q")


def generation_of(raw: Raw) -> int:
    """The generation that an element was made in."""
    return int(_generation.unpack_from(raw[1])[0])


def moved_to(raw: Raw, generation: int) -> Raw:
    """The key in another generation."""
    return raw[0], _generation.pack(generation) + raw[1][4:]


class Generations:
    """The generations of one map: the current one, and when earlier ones ended."""

    def __init__(self, control: Control, index: int) -> None:
        self._control = control
        self._index = index
        self._ended: dict[int, float] = {}

    def current(self) -> int:
        """The one that new keys carry."""
        return self._control.generation(self._index) & 0xFFFF_FFFF

    def end(self) -> None:
        """New hits go to new elements from here on."""
        now = time.monotonic()
        # In the order in which they ended: those before the first that has not settled have.
        for generation in list(takewhile(lambda generation: self._ended[generation] <= now - SETTLED_S, self._ended)):
            del self._ended[generation]
        self._ended[self.current()] = now
        self._control.next_generation(self._index)

    def has_settled(self, generation: int) -> bool:
        """Whether nothing is added to an earlier one any more."""
        return self._ended.get(generation, 0.0) <= time.monotonic() - SETTLED_S


def in_order(mark: int) -> int:
    """A mark of the kernel, clears in the low half, as a number that grows with each reset: clears in the high half.
    And back.
    """
    return (mark & 0xFFFF_FFFF) << 32 | mark >> 32


def clears(mark: int) -> int:
    """The number of times that the map had been cleared."""
    return mark >> 32


def mark_of(raw: Raw) -> int:
    """The mark that an element was made at."""
    return in_order(_mark.unpack_from(raw[1], 8)[0])


class Settled(NamedTuple):
    """The resets that no program adds to any more: elements made before the mark `cleared` are cleared, those up to
    `zeroed` are 0.
    """

    cleared: int
    zeroed: int

    def reach(self, mark: int) -> bool:
        """Whether elements of this mark may go."""
        return mark < self.cleared or mark <= self.zeroed


class Marks:
    """The marks of one map, in order, as user space follows them. `wanted` is the mark that a print wants to see, while
    it is handled; `read_mark` that of the last reading; `zeroed` the keys whose elements were given back though zero()
    keeps them, with the clears before.
    """

    def __init__(self, control: Control, index: int) -> None:
        self._control = control
        self._index = index
        self.wanted: int | None = None
        self.read_mark = 0
        self.zeroed: dict[Key, int] = {}
        self._resets: deque[tuple[float, Settled]] = deque()

    def now(self) -> int:
        """The mark that new elements carry."""
        return in_order(self._control.mark(self._index))

    def begin(self) -> None:
        """A reading begins: call it before the table is read, so that nothing newer is in between."""
        self.read_mark = self.now() if self.wanted is None else self.wanted

    def shows(self, raw: Raw) -> bool:
        """Whether an element is in the map as it was at `read_mark`."""
        mark = mark_of(raw)
        return clears(mark) == clears(self.read_mark) and mark <= self.read_mark

    def is_zero(self, raw: Raw) -> bool:
        """Whether zero() has come between an element and the reading."""
        return mark_of(raw) < self.read_mark

    def zero_keys(self) -> list[Key]:
        """The keys that zero() kept and whose elements have been given back."""
        return [key for key, cleared in self.zeroed.items() if cleared == clears(self.read_mark)]

    def note(self, before: int, cleared: bool) -> None:
        """A record of clear (else of zero) with the mark before it."""
        now = time.monotonic()
        reset = Settled(clears(before) + 1 << 32, -1) if cleared else Settled(0, before)
        if self._resets and self._resets[-1][0] >= now - _TOGETHER_S:
            now, last = self._resets.pop()
            reset = _later(last, reset)
        self._resets.append((now, reset))

    def settled(self) -> Settled | None:
        """The resets that have settled since it was asked last."""
        end = time.monotonic() - SETTLED_S - _TOGETHER_S
        latest = None
        while self._resets and self._resets[0][0] <= end:
            reset = self._resets.popleft()[1]
            latest = reset if latest is None else _later(latest, reset)
        return latest


def _later(one: Settled, other: Settled) -> Settled:
    return Settled(max(one.cleared, other.cleared), max(one.zeroed, other.zeroed))


class History(Generic[E]):
    """A map that probes reset, as it is and as it was at earlier marks: for `print(@x); clear(@x)` in a probe.

    What resets have ended changes no more, so that one reading serves the prints of many marks. But for what a program
    adds that had found an element before: where that had been printed, it goes over into the present, so that no hit is
    in no print.
    """

    def __init__(self, marks: Marks, element: Element[E], read: Callable[[], dict[Raw, E]], adds: bool) -> None:
        """`read` reads the whole table; `adds` says whether programs add to its elements."""
        self.marks = marks
        self._element = element
        self._read = read
        self._adds = adds
        self._read_at = -1
        self._by_clears: dict[int, dict[Raw, E]] = {}
        self._last_print: tuple[int, dict[Raw, E]] | None = None
        self._printed: dict[int, dict[Raw, E]] = {}
        self._late: dict[Raw, E] = {}

    def present(self) -> dict[Raw, E]:
        """The elements now, with what came late to those that had been printed among the present ones."""
        elements = self._read()
        self._join(elements, self._late)
        now = _mark.pack(in_order(self.marks.now()))
        late: dict[Raw, E] = {}
        for raw, element in elements.items() if self._printed else ():
            printed = self._printed.get(mark_of(raw))
            new = None if printed is None else self._element.since(element, printed.get(raw))
            if printed is not None and new is not None:
                printed[raw] = element
                moved = raw[0], raw[1][:8] + now + raw[1][16:]
                self._join(late, {moved: new})
        self._join(self._late, late)
        self._join(elements, late)
        return elements

    def elements_at(self, mark: int) -> dict[Raw, E]:
        """The elements that the map had at a mark."""
        if self._read_at <= mark:
            self._read_at = self.marks.now()
            self._by_clears = {}
            for raw, element in self.present().items():
                self._by_clears.setdefault(clears(mark_of(raw)), {})[raw] = element
        of_clear = self._by_clears.get(clears(mark), {})
        view = {raw: element for raw, element in of_clear.items() if mark_of(raw) <= mark}
        self._last_print = (mark, view)
        return view

    def note(self, before: int, cleared: bool) -> None:
        """A record of a reset; a print just before it has shown what that ended."""
        self.marks.note(before, cleared)
        if self._adds and self._last_print is not None and self._last_print[0] == before:
            self._printed[before] = self._last_print[1]
        self._last_print = None

    def forget(self, raw: Raw) -> None:
        """An element has been deleted."""
        self._late.pop(raw, None)

    def settle(self, settled: Settled) -> list[Raw]:
        """The elements that resets have ended for good: they are to be deleted."""
        gone = [raw for raw in self.present() if settled.reach(mark_of(raw))]
        self._late = {raw: late for raw, late in self._late.items() if not settled.reach(mark_of(raw))}
        self._printed = {mark: view for mark, view in self._printed.items() if not settled.reach(mark)}
        self._read_at = -1
        self._by_clears = {}
        return gone

    def _join(self, elements: dict[Raw, E], others: dict[Raw, E]) -> None:
        for raw, other in others.items():
            held = elements.get(raw)
            elements[raw] = other if held is None else self._element.joined(held, other)
