"""Hits where calls begin and end → calls inside each other, of each thread.

Calls are told apart by where their return address lies on the stack (their place): a call inside another has a lower
one. So what a thread has left shows when it comes to a place above, and no end is given to another call. A tail call
has the place of the call that it ends, and its return address, or that of the kernel's return probe. A place far above
all others is on another stack: that of a signal's handler, or of a fiber.
"""

from __future__ import annotations

from collections.abc import Collection

from tracer.dataclass import NamedTuple, dataclass, field
from tracer.lang.types import Value

GOROUTINE_BITS = 48
"""The number of a thread holds that of a goroutine, or an address in its place, in so many bits, and the process above
them.
"""

MOST_LEFT = 256
"""Calls of a thread that were left, and may go on where the thread goes back to another stack."""

NEAR = 1 << 18
"""So far above a call the same stack may go on to what called it: more is another stack."""

_POPPED = 8
"""A return probe's hit comes when the return address has been taken off the stack, that at a `ret` before."""
_RETURN_PROBES = 0x7FFFFFFFE
"""The page to which calls return whose return address the kernel has replaced: the last that a program can have."""


class Begun(NamedTuple):
    """A hit where a function begins: when, in which thread, its name, its place, its return address, its arguments; of
    a function whose flow it is, the process and its name, else 0 and nothing.
    """

    time_ns: int
    thread: int
    function: str
    place: int
    back: int
    arguments: tuple[Value, ...] = ()
    process: int = 0
    comm: bytes = b""


class Ended(NamedTuple):
    """A hit where it returns; `pointer` is the stack pointer there. `result` has what a second register holds above 64
    bits.
    """

    time_ns: int
    thread: int
    function: str
    pointer: int
    result: int


class Resumed(NamedTuple):
    """A hit where a thread goes on behind calls that it has left: all those whose place is not above `place`; `why`."""

    time_ns: int
    thread: int
    place: int
    why: str


Hit = Begun | Ended | Resumed


@dataclass(slots=True)
class Open:
    """A call under way, `depth` calls inside the outermost; `below_ns` took the calls inside it that have ended."""

    begun: Begun
    depth: int
    below_ns: int = 0
    tail: bool = False
    stack: int = 0


class Listener:
    """What is told of calls, in the order in which each thread makes them."""

    def began(self, thread: Thread, call: Open) -> None:
        """It has begun."""

    def returned(self, thread: Thread, call: Open, ended: Ended, again: bool) -> None:
        """It has returned. `again`: it was told to be left, and was gone back to."""

    def left(self, thread: Thread, call: Open, time_ns: int, why: str) -> None:
        """It has gone, and its return was not seen; `why` is "" where that is not known."""

    def unknown(self, thread: Thread, ended: Ended) -> None:
        """A return whose beginning was not seen."""


@dataclass(slots=True)
class Thread:
    """A thread: its calls under way, the outermost first, and those that were left. `process` and `comm` are as its
    outermost call says. `held`: a return that comes before that of the tail call in which it ended.
    """

    number: int
    process: int = 0
    comm: bytes = b""
    calls: list[Open] = field(default_factory=list)
    gone: list[Open] = field(default_factory=list)
    held: Ended | None = None

    @property
    def goroutine(self) -> int | None:
        """The number of the goroutine that it is, or None."""
        return self.number & (1 << GOROUTINE_BITS) - 1 if self.number >> GOROUTINE_BITS else None

    @property
    def shown(self) -> int:
        """The number that people know it by."""
        goroutine = self.goroutine
        return self.number if goroutine is None else goroutine


class Calls:
    """The calls of all threads. `above` are the names of the functions whose flow it is, and what is not below one of
    these is not told; `leaving` those of functions that may end in tail calls.
    """

    def __init__(self, above: Collection[str], leaving: Collection[str], listener: Listener) -> None:
        self._above, self._leaving, self._listener = above, leaving, listener
        self.threads: dict[int, Thread] = {}
        self.any = False
        """Whether there was a call."""

    def take(self, hit: Hit) -> None:
        """One hit; those of a thread come in their order."""
        thread = self.threads.get(hit.thread)
        if thread is None:
            thread = self.threads[hit.thread] = Thread(hit.thread)
        if isinstance(hit, Ended):
            self._end(thread, hit)
            return
        self._let_go(thread)
        if isinstance(hit, Begun):
            self._begin(thread, hit)
        else:
            self._leave(thread, hit.place, hit.time_ns, hit.why)

    def close(self) -> None:
        """No more hits come. What is under way stays in `threads`."""
        for thread in self.threads.values():
            self._let_go(thread)

    def forget(self, function: str) -> None:
        """A function is traced no more: its calls under way have no end that is seen."""
        for thread in self.threads.values():
            self._let_go(thread)
            thread.calls = [call for call in thread.calls if call.begun.function != function]

    def _begin(self, thread: Thread, hit: Begun) -> None:
        there = self._leave(thread, hit.place - 1, hit.time_ns, "")
        last = thread.calls[-1] if thread.calls else None
        tail = last is not None and last.begun.place == hit.place and self._is_tail(last, hit)
        if last is not None and last.begun.place == hit.place and not tail:
            self._leave(thread, hit.place, hit.time_ns, "")
            last = thread.calls[-1] if thread.calls else None
        if last is None and hit.function not in self._above:
            return
        if hit.process:
            thread.process, thread.comm = hit.process, hit.comm
        if thread.gone:
            same = hit.function, hit.place
            thread.gone = [call for call in thread.gone if (call.begun.function, call.begun.place) != same]
        if last is None:
            call = Open(hit, 0)
        else:
            call = Open(hit, last.depth + 1, tail=tail, stack=last.stack + (not there))
        thread.calls.append(call)
        self.any = True
        self._listener.began(thread, call)

    def _is_tail(self, last: Open, hit: Begun) -> bool:
        """Whether a call at the place of another is what that one ends in, and not a later one of the same caller."""
        if last.begun.function not in self._leaving or last.begun.function == hit.function:
            return False
        return hit.back == last.begun.back or hit.back >> 12 == _RETURN_PROBES

    def _end(self, thread: Thread, hit: Ended) -> None:
        if thread.held is not None and not self._is_inside_held(thread, thread.held, hit):
            self._let_go(thread)
        index = _index(thread.calls, hit)
        if index is None:
            self._end_unknown(thread, hit)
            return
        inside = thread.calls[index + 1 :]
        if inside and thread.held is None and all(call.tail for call in inside):
            thread.held = hit
            return
        self._close_inside(thread, index, hit.time_ns)
        call = thread.calls.pop()
        if thread.calls:
            thread.calls[-1].below_ns += max(hit.time_ns - call.begun.time_ns, 0)
        self._listener.returned(thread, call, hit, False)
        if not thread.calls:  # there may be more threads in time than anybody could keep
            self.threads.pop(thread.number, None)

    def _end_unknown(self, thread: Thread, hit: Ended) -> None:
        """The call is one that was taken for left, or began before the trace, or its beginning was lost."""
        index = _index(thread.gone, hit)
        if index is not None:
            self._listener.returned(thread, thread.gone.pop(index), hit, True)
            return
        self._leave(thread, hit.pointer - _POPPED, hit.time_ns, "")
        if thread.calls or hit.function in self._above:
            self._listener.unknown(thread, hit)

    def _is_inside_held(self, thread: Thread, held: Ended, hit: Ended) -> bool:
        outer, index = _index(thread.calls, held), _index(thread.calls, hit)
        return outer is not None and index is not None and index > outer

    def _let_go(self, thread: Thread) -> None:
        """The return that is held was that of the call: those in which it ended have none."""
        held, thread.held = thread.held, None
        if held is not None and (index := _index(thread.calls, held)) is not None:
            self._close_inside(thread, index, held.time_ns)
            self._end(thread, held)

    def _close_inside(self, thread: Thread, index: int, time_ns: int) -> None:
        while len(thread.calls) > index + 1:
            self._go(thread, time_ns, "")

    def _leave(self, thread: Thread, place: int, time_ns: int, why: str) -> bool:
        """The calls whose place is not above this one have gone, of the stack that it is on and of those that the
        thread was on since. Returns whether it is on one of them.
        """
        calls = thread.calls
        end = len(calls)
        while end:
            first = end - 1
            while first and calls[first - 1].stack == calls[end - 1].stack:
                first -= 1
            if place <= calls[first].begun.place + NEAR:
                while len(calls) > end or (len(calls) > first and calls[-1].begun.place <= place):
                    self._go(thread, time_ns, why)
                return True
            end = first
        return False

    def _go(self, thread: Thread, time_ns: int, why: str) -> None:
        call = thread.calls.pop()
        thread.gone = [*thread.gone[-MOST_LEFT + 1 :], call]
        self._listener.left(thread, call, time_ns, why)


def _index(calls: list[Open], hit: Ended) -> int | None:
    """The innermost call of the function that returns there."""
    for index in range(len(calls) - 1, -1, -1):
        begun = calls[index].begun
        if begun.function == hit.function and begun.place in (hit.pointer, hit.pointer - _POPPED):
            return index
    return None
