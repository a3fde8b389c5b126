"""The calls of a trace that had no end: which of them are under way, and which were left.

A call is left by an exception, by longjmp(), or with its thread. Where its thread waits in the kernel, /proc tells the
stack pointer there: what lies below it on the same stack has gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tracer.dataclass import dataclass, replace
from tracer.errors import TracerError, counted, printable
from tracer.host.maps import Mapping, mappings
from tracer.host.stat import has_ended
from tracer.lang.typed import Calls, Program
from tracer.lang.types import BoolType, IntType, PointerType, Type
from tracer.render.notices import Said
from tracer.results.events import Loss, OpenCall
from tracer.results.store import LocalMaps
from tracer.results.values import MapStore

_MOST = 8
"""Calls that are told of."""
_LOOK_S = 0.25
_MANY = 1 << 12
"""Notes of calls among which those of threads that have ended are looked for: a quarter of what there is room for."""
_LONGEST = 60
"""Characters of an expression, and of a string."""


@dataclass(frozen=True, slots=True)
class CallsTold(Said):
    """The calls that were under way at the end, in words and as they are."""

    calls: Sequence[OpenCall] = ()


def weigh(program: Program, maps: LocalMaps) -> None:
    """Puts into their map what the probes of calls take."""
    from tracer.kernel.trials.call_cost import costs
    from tracer.plan.calls.times import COSTS, packed

    for pair, cost in enumerate(costs(program.call_probes)):
        maps.set(COSTS, (pair,), packed(cost))


class OpenCalls:
    """The calls of a trace, from when everything is attached."""

    def __init__(self, program: Program, maps: MapStore) -> None:
        self._program, self._maps = program, maps
        self._detached = 0
        self._due = time.monotonic() + _LOOK_S
        self._many = dict.fromkeys([calls.open for calls in program.calls if not calls.is_span], _MANY)
        self._forgotten = 0
        # Ends are attached before beginnings: what ended in between began before the trace.
        self._before = {calls.unseen: self._number(calls.unseen) for calls in program.calls}

    def look(self, catch_up: Callable[[int], None]) -> None:
        """Called now and then: makes room for new calls where many were left by threads that have ended since.
        `catch_up` handles what has happened until a moment of CLOCK_MONOTONIC: ends of these calls may be among it.
        """
        if time.monotonic() < self._due:
            return
        for calls in self._program.calls:
            if not calls.is_span:
                self._forget(calls, catch_up)
        self._due = time.monotonic() + _LOOK_S

    def _forget(self, calls: Calls, catch_up: Callable[[int], None]) -> None:
        notes = self._maps.snapshot(calls.open).items
        if len(notes) < self._many[calls.open]:
            return
        began = {key[0]: note[0] for key, note in notes.items() if isinstance(note, tuple)}
        ended = {
            thread for thread, when in began.items()
            if isinstance(thread, int) and isinstance(when, int) and has_ended(thread, when)
        }  # fmt: skip
        abandoned = {key: note for key, note in notes.items() if key[0] in ended}
        catch_up(time.monotonic_ns())
        now = self._maps.snapshot(calls.open).items
        for key in [key for key, note in abandoned.items() if now.get(key) == note]:
            self._forgotten += 1
            for name in filter(None, (calls.open, calls.memory)):
                self._maps.delete(name, key)
            if calls.innermost:
                self._maps.delete(calls.innermost, key[:-1])
        self._many[calls.open] = max(_MANY, 3 * (len(notes) - len(abandoned)) // 2)

    def detach(self) -> None:
        """Called before that is done."""
        self._detached = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def under_way(self, loss: Loss) -> list[OpenCall]:
        """The calls that were under way at the end, the oldest first; `loss` counts the others that had no end."""
        threads = _Threads()
        loss.abandoned += self._forgotten
        open_calls: list[OpenCall] = []
        for calls in self._program.calls:
            if calls.is_span:
                open_calls += self._spans(calls, threads, loss)
                continue
            loss.unseen += self._number(calls.unseen) - self._before[calls.unseen]
            loss.abandoned += self._number(calls.abandoned)
            memory = self._maps.snapshot(calls.memory).items if calls.memory else {}
            for key, note in self._maps.snapshot(calls.open).items.items():
                thread, *_, function, place = key
                assert isinstance(thread, int) and isinstance(function, int) and isinstance(place, int)
                assert isinstance(note, tuple) and isinstance(note[0], int)
                if not threads.are_in(thread, None if calls.goroutine else place, note[0]):
                    loss.abandoned += 1
                    continue
                values = (*note[len(note) - calls.noted :], *_tuple(memory.get(key)))
                age = max(self._detached - note[0], 0)
                shown = _shown(self._program, calls, values)
                open_calls.append(OpenCall(calls.functions[function], thread, age, shown))
        return sorted(open_calls, key=lambda call: -call.age_ns)

    def _spans(self, calls: Calls, threads: _Threads, loss: Loss) -> Iterator[OpenCall]:
        """The same of a clause of spans."""
        loss.orphaned += self._number(calls.unseen) - self._before[calls.unseen]
        loss.unfinished += self._number(calls.abandoned) if calls.abandoned else 0
        memory = self._maps.snapshot(calls.memory).items if calls.memory else {}
        for key, note in self._maps.snapshot(calls.open).items.items():
            assert isinstance(note, tuple) and isinstance(note[0], int)
            thread = None if calls.keys else key[0]
            assert thread is None or isinstance(thread, int)
            if thread is not None and not threads.are_in(thread, None, note[0]):
                loss.unfinished += 1
                continue
            values = (*key[: len(calls.keys)], *note[len(note) - calls.noted :], *_tuple(memory.get(key)))
            read = replace(calls, read=(*calls.keys, *calls.read))
            age = max(self._detached - note[0], 0)
            yield OpenCall(calls.functions[0], thread, age, _shown(self._program, read, values), True)

    def _number(self, counter: str) -> int:
        value = self._maps.snapshot(counter).items.get((), 0)
        return value if isinstance(value, int) else 0


def _tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _shown(program: Program, calls: Calls, values: tuple[object, ...]) -> tuple[str, ...]:
    """Writes each value as `args.n = 3`; those that are neither numbers nor text are left out."""
    texts = []
    # What a clause without a body shows has no text of its own.
    bare = {clause.spans[0].to(clause.spans[-1]) for clause in program.clauses if clause.spans}
    for (span, type), value in zip(calls.read, values, strict=False):
        text = " ".join(program.source.text[span.start : span.end].split())
        if span not in bare and (shown := _value(type, value)) is not None and 0 < len(text) <= _LONGEST:
            texts.append(f"{text} = {shown}")
    return tuple(dict.fromkeys(texts))


def _value(type: Type, value: object) -> str | None:
    if isinstance(value, int) and isinstance(type, PointerType):
        return f"{value:#x}"
    if isinstance(value, int) and isinstance(type, IntType | BoolType):
        return str(value).lower()
    if isinstance(value, bytes) and not isinstance(type, IntType):
        text = value.partition(b"\0")[0].decode(errors="replace")
        return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…").replace("'", '"')
    return None


class _Threads:
    """The threads whose calls had no end."""

    def __init__(self) -> None:
        self._stacks: dict[int, tuple[Sequence[Mapping], int]] = {}
        """The mappings of each, and its stack pointer where it waits in the kernel, else 0."""

    def are_in(self, thread: int, place: int | None, began: int) -> bool:
        """Whether a thread, or (None) a process of Go, may still be in the call whose return address lies there."""
        if has_ended(thread, began):
            return False
        if place is None:
            return True
        if thread not in self._stacks:
            self._stacks[thread] = _mapped(thread)
        mapped, pointer = self._stacks[thread]
        stack = next((mapping for mapping in mapped if mapping.start <= place < mapping.end), None)
        if stack is None:
            return not mapped  # it has exec'ed since, or freed the stack
        return not stack.start <= pointer < stack.end or pointer <= place


def _mapped(thread: int) -> tuple[Sequence[Mapping], int]:
    pointer = 0
    mapped: Sequence[Mapping] = ()
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{thread}/syscall") as file:
        pointer = int(file.read().split()[-2], 16)  # else it is "running"
    with suppress(OSError, TracerError):
        mapped = mappings(thread)
    return mapped, pointer


def told(calls: Sequence[OpenCall]) -> CallsTold:
    """The calls or spans under way, in words."""
    words = [_told(call) for call in calls[:_MOST]]
    words += [f"{len(calls) - _MOST} more"] if len(calls) > _MOST else []
    things = sorted({"span" if call.is_span else "call" for call in calls})
    count = counted(len(calls), *things) if len(things) == 1 else f"{len(calls)} {'s and '.join(things)}s"
    return CallsTold(f"{count} had not ended: {'; '.join(words)}", calls)


def _told(call: OpenCall) -> str:
    age = f"{call.age_ns / 1e9:.1f} s" if call.age_ns >= 100_000_000 else f"{call.age_ns / 1e6:.1f} ms"
    where = "" if call.thread is None else f" in thread {call.thread}"
    return f"{printable(call.function)}({', '.join(call.arguments)}){where}, begun {age} before the end"
