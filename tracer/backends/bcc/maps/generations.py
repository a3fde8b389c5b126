"""Generations: how user space clears a hash that probes write.

Every key carries the number of its generation. To clear is to raise the number in the control block: programs make new
elements from then on, and the old ones stay readable until nothing is added to them any more.
"""

from __future__ import annotations

import struct
import time
from itertools import takewhile

from tracer.backends.bcc.maps.contents import Raw
from tracer.backends.bcc.maps.control import Control
from tracer.backends.bcc.maps.marks import SETTLED_S

_generation = struct.Struct("=I")


def generation_of(raw: Raw) -> int:
    """The generation that an element was made in."""
    return int(_generation.unpack_from(raw[1])[0])


def moved_to(raw: Raw, generation: int) -> Raw:
    """The same key in another generation."""
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
        for each in list(takewhile(lambda each: self._ended[each] <= now - SETTLED_S, self._ended)):
            del self._ended[each]
        self._ended[self.current()] = now
        self._control.next_generation(self._index)

    def has_settled(self, generation: int) -> bool:
        """Whether nothing is added to an earlier one any more."""
        return self._ended.get(generation, 0.0) <= time.monotonic() - SETTLED_S
