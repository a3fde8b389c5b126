"""User stacks by unwind tables on bcc: user space's half of `bpf_programs/stacks.h`.

The programs walk a stack where RULES has each of its addresses. Where it lacks one, they send a copy of the stack, and
a number stands for its frames in what they send and in keys; here the copy is walked, its rules are added, and what is
read has the frames in the number's place.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.kernel import bpf
from tracer.kernel.bpf import MapType
from tracer.lang.types import Stack, StackType, Symbol, SymbolType, TupleType, Type
from tracer.resolve.unwind.rules import EXPRESSION
from tracer.resolve.unwind.walker import (
    BROKEN,
    ELSEWHERE,
    ENTRY,
    LAST,
    LIMIT,
    NO_CODE,
    NO_PROGRESS,
    NO_RULE,
    NOTHING,
    PLAIN,
    POINTER,
    RETURN_PROBE,
    WHOLE,
    Step,
)

if TYPE_CHECKING:
    from tracer.backends import Places, Unwinder
    from tracer.backends.bcc.maps.python import PythonFrames

MOST_RULES = 1 << 16
"""Addresses on stacks, of all processes; the kernel drops those used least."""

_PENDING, _MOMENT, _PID = 1 << 63, (1 << 48) - 1, (1 << 32) - 1
_MOST_COPIES = 1 << 18
_MOST_RENEWALS, _NEVER = 64, 2
"""How often rules are renewed before they count as right until their removal: what KNOWN_NEVER says in stacks.h."""
_PLACE = struct.Struct("=QQ")
_RULE = struct.Struct("=ihBBIIII")
_COPY = struct.Struct("=8xQQQQQQ17Q")
ENDINGS = (LIMIT, WHOLE, NO_CODE, RETURN_PROBE, NO_RULE, NO_PROGRESS, ELSEWHERE)
"""How stacks end that the programs walk: in the order of the enum in stacks.h."""

_SP_FP_IP = 7, 6, 8
"""Registers of a frame that a call led to; the others are those of the hit."""

_KINDS = {PLAIN: 0, LAST: 1, ENTRY: 2, POINTER: 3, NOTHING: 5, BROKEN: 6}
_SIGNAL = 4

# rsp + 160 and its word; rsp + 168; rsp + 120: where stacks.h has the registers of what a signal interrupted.
_SIGNAL_CFA, _SIGNAL_IP, _SIGNAL_FP = b"\x77\xa0\x01\x06", b"\x77\xa8\x01", b"\x77\xf8\x00"


def create_rules() -> int:
    """The map RULES. Raises `OSError`."""
    return bpf.map_create(MapType.LRU_HASH, _PLACE.size, _RULE.size, MOST_RULES, name="tracer_rules")


class Stacks:
    """The stacks of one session. `unwinder` is None until the session's is known, and where frame pointers are
    followed: then there are no `rules`. `python` is None where no stack is wanted with its functions.
    """

    def __init__(self, rules: int | None) -> None:
        self._rules = rules
        self._frames: dict[int, Stack] = {}
        self._written: dict[int, dict[bytes, int]] = {}
        """The rules of each process, with when they were added."""
        self._renewed: Counter[int] = Counter()
        """How often rules of a process were wanted once more, since it changes its mappings all the time."""
        self.look_ahead: Callable[[], None] = lambda: None
        """Takes the copies that wait behind the event which is handled, if there are any."""
        self.unwinder: Unwinder | None = None
        self.python: PythonFrames | None = None
        self.places: Places | None = None

    def take(self, data: bytes, position: int) -> None:
        """A copy that the programs have sent; once it was taken this does nothing."""
        number, process, wanted, size, before, room, *registers = _COPY.unpack_from(data, position)
        frames, sequence = wanted & _PID, wanted >> 32
        space, here = process >> 1, bool(process & 1)
        process = space & _PID
        if self.unwinder is None or self._rules is None or number in self._frames:
            return
        position += _COPY.size
        stack = memoryview(data)[position : position + size].cast("Q")
        earlier = struct.unpack_from(f"={before}Q", data, position + room)
        if before:
            registers = [value if number in _SP_FP_IP else None for number, value in enumerate(registers)]
        met: list[tuple[int, bool, Step]] = []
        at_ns = _when(number)
        if len(self._frames) >= _MOST_COPIES:
            del self._frames[next(iter(self._frames))]
        walked = self.unwinder.unwind(process, registers, stack, frames - before, met, at_ns, here)
        self._frames[number] = Stack(walked.pid, (*earlier, *walked.addresses))
        self.forget_altered()
        written, state = self._written.setdefault(process, {}), self.unwinder.state(process)
        places = [_PLACE.pack(address, space << 1 | exact) for address, exact, _ in met]
        # It changed its mappings before the programs had used a rule, and so knew what it holds for.
        self._renewed[process] += any(written.get(place, at_ns) < at_ns for place in places)
        lasting = _NEVER if self._renewed[process] > _MOST_RENEWALS else 0
        for place, (_, _, step) in zip(places, met, strict=True):
            # A copy that was sent before a rule was added does not show that the rule was dropped; a later copy does.
            if written.get(place, 0) > at_ns:
                continue
            rule = _rule(step, state, sequence, lasting)
            if rule is not None:
                bpf.map_update(self._rules, place, rule)
                written[place] = time.monotonic_ns()

    def take_function(self, data: bytes, offset: int) -> None:
        """A record about an interpreter's function."""
        if self.python is not None:
            self.python.take(data, offset)

    def keep_up(self) -> None:
        """Takes in the changes of processes since the last call."""
        self.forget_altered()
        if self.python is not None:
            self.python.look()

    def forget_altered(self) -> None:
        """Removes the rules of processes whose mappings have changed."""
        if self.unwinder is None or self._rules is None:
            return
        for process in self.unwinder.altered():
            self._renewed.pop(process, None)
            for place in self._written.pop(process, ()):
                bpf.map_delete(self._rules, place)

    def count_endings(self, walked: Callable[[int], int]) -> None:
        """Adds how the stacks ended that the programs walked; `walked` gives the number of those of one of ENDINGS."""
        if self.unwinder is not None and self._rules is not None:
            self.unwinder.endings += Counter({how: walked(number) for number, how in enumerate(ENDINGS)})

    def resolving(self, decode: Callable[..., Any], kind: Type) -> Callable[..., Any]:
        """The function, whose values are of that type, with what numbers stand for: the frames of stacks, and where
        symbols are.
        """
        settled = self._settler(kind)
        return decode if settled is None else lambda *args: settled(decode(*args))

    def _settler(self, kind: Type) -> Callable[[Any], Any] | None:
        """The function that settles values of a type, which a value does not tell: a symbol is a tuple too. None for
        nothing to do.
        """
        if isinstance(kind, StackType):
            return None if kind.kernel else self._stack
        if isinstance(kind, SymbolType):
            return self._symbol
        items = [self._settler(item) for item in kind.items] if isinstance(kind, TupleType) else []
        if not any(items):
            return None
        return lambda value: tuple(
            [part if settled is None else settled(part) for settled, part in zip(items, value, strict=True)]
        )

    def _symbol(self, value: Symbol) -> Symbol:
        pid, number = value.pid & _PID, value.pid >> 32
        return Symbol(pid, value.address) if self.places is None else self.places.placed(pid, value.address, number)

    def _stack(self, value: Stack) -> Stack:
        addresses, native = value.addresses, None
        space, state = value.pid & _PID, value.pid >> 32
        if addresses and addresses[0] & _PENDING:
            # A map is read as it is now: a key of it may be newer than the event that asks for it.
            if addresses[0] not in self._frames:
                self.look_ahead()
            space, native = self._frames.get(addresses[0], Stack(space, ()))
        elif state and self.unwinder is not None:
            space = self.unwinder.space(space, state, addresses)
        if self.python is not None:
            return Stack(space, self.python.interpreters.stack(value.pid & _PID, addresses, native))
        return Stack(space, addresses if native is None else native)


def _when(number: int) -> int:
    """The moment at which a copy was made: its number has the lower bits of that, which come round after three days."""
    now = time.monotonic_ns()
    moment = now & ~_MOMENT | number & _MOMENT
    return moment if moment <= now else moment - _MOMENT - 1


def _rule(step: Step, state: int, sequence: int, lasting: int) -> bytes | None:
    """The step as the programs have it, found in that state of the process and at that change of its mappings; None
    where they cannot do it, and send each such stack.
    """
    kind = _KINDS.get(step.kind)
    if kind is not None:
        if not (-(1 << 31) <= step.cfa < 1 << 31 and -(1 << 15) <= step.fp < 1 << 15):
            return None
        return _RULE.pack(step.cfa, step.fp, kind, step.base, state, sequence, 0, lasting)
    rule = step.rule
    if rule is None or not rule.signal or rule.expression != _SIGNAL_CFA:
        return None
    if rule.saved.get(16) != (EXPRESSION, _SIGNAL_IP) or rule.saved.get(6) != (EXPRESSION, _SIGNAL_FP):
        return None
    return _RULE.pack(0, 0, _SIGNAL, 0, state, sequence, 0, lasting)
