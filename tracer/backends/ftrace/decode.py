"""From a record in a ring to the tuple that a compiled clause takes: one decoder for each event, written for its
layout.

A record is `struct perf_event_header` and then, in this order, what the sample type asks for: pid and tid, time, CPU,
call chain, raw data, registers, stack (perf_event_open(2)). The raw data is the event as its tracefs `format` file
describes it. Here it becomes a flat *sample*, a tuple with these items:

    record type, misc, size, pid, tid, time [, cpu, 0], event id, the event's fields …, resolved values …

*Resolved* are the values that take more than unpacking: strings, guarded numbers, call chains. Fields of an event
without any of these are unpacked by `struct` alone, many records at a time. The functions are Python text with nothing
in it but numbers of this module's making.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import CodeType
from typing import TYPE_CHECKING, Any

from tracer.backends.ftrace.fetchargs import (
    THREAD_NAME,
    Block,
    ChildPid,
    Constant,
    FromSample,
    Number,
    Source,
    Text,
    ThreadName,
    UserStack,
)
from tracer.clock import ahead_ns
from tracer.dataclass import dataclass
from tracer.kernel import perf
from tracer.kernel.uprobe_events.format import EventFormat, FieldAt
from tracer.kernel.uprobe_events.model import Fetch
from tracer.lang.types import Stack
from tracer.steps.python.runtime import NO_ROOM, Compiled, NoRoom, Reach, Runtime, measured

if TYPE_CHECKING:
    from tracer.backends.base import Unwinder

Sample = tuple[Any, ...]

PID, TID, TIME, CPU = 3, 4, 5, 6
"""Where these stand in a sample."""

_ALL = (1 << 64) - 1
_COMM = _ALL - 69
"""Where the kernel reads `$comm` if told to fetch a string there (FETCH_TOKEN_COMM, -ECOMM; seen on 6.18)."""
_PAGE = 4000  # less what an event has beside its fetch arguments, and the sentinel
_CODES = {(1, False): "B", (2, False): "H", (4, False): "I", (8, False): "Q"}
_CODES |= {(size, True): code.lower() for (size, _), code in _CODES.items()}


@dataclass(frozen=True, slots=True)
class Shape:
    """What every sample of a session carries beside its fields: the CPU, the call chain as the kernel walks it by frame
    pointers. Behind the fields those of clauses that want stacks have the registers in the mask `registers`, unless it
    is 0, and a copy of the stack.
    """

    cpu: bool
    callchain: bool
    registers: int = 0

    @property
    def sample_type(self) -> int:
        """For `perf_event_attr`."""
        wanted = perf.SAMPLE_TID | perf.SAMPLE_TIME | perf.SAMPLE_RAW
        return wanted | (perf.SAMPLE_CPU if self.cpu else 0) | (perf.SAMPLE_CALLCHAIN if self.callchain else 0)

    @property
    def prefix(self) -> str:
        """Struct's codes up to the time or CPU, 24 or 32 bytes."""
        return "=IHHIIQ" + ("II" if self.cpu else "")

    @property
    def event(self) -> int:
        """Where the event's number stands in a sample; the fields follow."""
        return 8 if self.cpu else 6


@dataclass(frozen=True, slots=True)
class Decoder:
    """How to read the samples of one event: `unpack` is a struct's codes for a record without its padding where that
    alone does (`decode` None), else `decode` takes the ring's bytes and the start of the record. `run` hands a
    sample to the clauses.
    """

    id: int
    codes: str
    decode: Callable[[bytes, int], Sample] | None
    run: Callable[[Sample], None]


Branch = Sequence[tuple[Compiled, Sequence[Source]]]
"""Clauses in the order of the program, each with the sources of its hit tuple."""


def build(
    format: EventFormat,
    fetches: Sequence[Fetch],
    branches: Sequence[Branch],
    shape: Shape,
    runtime: Runtime,
    *,
    time_offset: int,
    child_pid: int,
    unwinder: Unwinder | None = None,
) -> Decoder:
    """The decoder of one event. Where it has several branches, one more field says which; `time_offset` is added to
    times where a clause wants them; `unwinder` walks the stacks of samples that have a copy.
    """
    if len(branches) > 1:
        fetches = (*fetches, Fetch("", "u16"))
    decoders: list[Decoder] = []
    for runs in branches:
        writer = _Writer(format, fetches, shape, time_offset, child_pid, unwinder)
        calls = [(function, writer.hit(sources)) for function, sources in runs]
        decoders.append(Decoder(format.id, writer.codes, writer.decoder(), _runner(calls, runtime)))
    if len(branches) == 1:
        return decoders[0]
    return _branching(decoders, format.fields[f"f{len(fetches) - 1}"], shape, shape.event + len(fetches))


def _branching(branches: Sequence[Decoder], field: FieldAt, shape: Shape, index: int) -> Decoder:
    """The decoder of an event with branches: their number stands at `field` of the raw data, at `index` of a sample."""
    runners = [branch.run for branch in branches]

    def run(sample: Sample) -> None:
        runners[sample[index]](sample)

    first = branches[0]
    if all(branch.decode is None for branch in branches):
        return Decoder(first.id, first.codes, None, run)
    plain = struct.Struct(first.codes).unpack_from
    decoders = [branch.decode or plain for branch in branches]
    number = struct.Struct("=H").unpack_from
    chain = struct.calcsize(shape.prefix)
    count = struct.Struct("=Q").unpack_from

    def decode(data: bytes, at: int) -> Sample:
        raw = at + chain + 4
        if shape.callchain:
            raw += 8 + 8 * int(count(data, at + chain)[0])
        branch: int = number(data, raw + field.offset)[0]
        return decoders[branch](data, at)

    return Decoder(first.id, first.codes, decode, run)


def _runner(calls: Sequence[tuple[Compiled, str]], runtime: Runtime) -> Callable[[Sample], None]:
    if len(calls) == 1:
        text = f"def run(t):\n    clause0({calls[0][1]})\n"
    else:
        lines = ["def run(t):"]
        for number, (_, hit) in enumerate(calls):
            lines += [f"    clause{number}({hit})", "    if runtime.exiting: return"]
        text = "\n".join(lines)
    names: dict[str, Any] = {f"clause{number}": function for number, (function, _) in enumerate(calls)}
    names["runtime"] = runtime
    return _define(text, "run", names)


@lru_cache(maxsize=64)
def _code(text: str, name: str) -> CodeType:
    return compile(text, f"<ftrace {name}>", "exec")


def _define(text: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    exec(_code(text, name), names)
    function: Callable[..., Any] = names[name]
    return function


class _Writer:
    """Writes the functions of one event."""

    def __init__(
        self, format: EventFormat, fetches: Sequence[Fetch], shape: Shape, time_offset: int, child_pid: int,
        unwinder: Unwinder | None,
    ) -> None:  # fmt: skip
        self.shape = shape
        self.unwinder = unwinder
        self.fetches = fetches
        self.time_offset = time_offset
        self.child_pid = child_pid
        self.fields = [format.fields[f"f{number}"] for number in range(len(fetches))]
        self.strings = [number for number, fetch in enumerate(fetches) if fetch.is_string]
        self.has_sentinel = any(fetches[number] != THREAD_NAME for number in self.strings)
        self.first = shape.event + 1
        self.resolved: list[Source] = []
        self.raw_codes = self._raw_codes()
        self.codes = f"{shape.prefix}4x{self.raw_codes}"

    def hit(self, sources: Sequence[Source]) -> str:
        """The expression for a clause's hit tuple."""
        return f"({''.join(f'{self._value(source)}, ' for source in sources)})"

    def decoder(self) -> Callable[[bytes, int], Sample] | None:
        """The decode function, or None where unpacking is enough."""
        if not self.resolved and not self.shape.callchain:
            return None
        codes = "=" + self.raw_codes if self.shape.callchain else self.codes
        names: dict[str, Any] = {
            "prefix": struct.Struct(self.shape.prefix + "Q").unpack_from,
            "raw": struct.Struct(codes).unpack_from,
            "stack": _user_stack,
            "unwound": partial(_unwound, self.shape.registers.bit_count(), self.unwinder),
            "last": _last_true,
            "no_room": NO_ROOM,
            "reach": _reach,
            "cut": _cut,
            "measured": measured,
        }
        if self.has_sentinel:
            names["starved"] = _define(self._function("starved"), "starved", dict(names))
        return _define(self._function("decode"), "decode", names)

    def _function(self, name: str) -> str:
        """`decode`, or `starved`: the same for an event in which a long string took the room of others."""
        size = struct.calcsize(self.shape.prefix)
        lines = [f"def {name}(b, o):"]
        if self.shape.callchain:
            lines += ["p = prefix(b, o)", f"c = o + {size + 8}", "r = c + 8 * p[-1] + 4", "t = p[:-1] + raw(b, r)"]
        else:
            lines += ["t = raw(b, o)", f"r = o + {size + 4}"]
        for number in self.strings:
            at = f"t[{self.first + number}]"
            lines.append(f"o{number} = {at} & 0xffff; n{number} = {at} >> 16; e{number} = o{number} + n{number}")
        if self.has_sentinel and name == "decode":
            lines.append(f"if not n{self.strings[-1]}: return starved(b, o)")
        for number, following in zip(self.strings, self.strings[1:], strict=False):
            lines.append(f"v{number} = n{number} and e{number} == o{following}")
        if name == "starved":
            flags = "".join(f"v{number}, " for number in self.strings[:-1])
            lines.append(f"k = ({', '.join(map(str, self.strings))})[last(({flags}))]")
        values = "".join(f"{self._resolved(source, name == 'starved')}, " for source in self.resolved)
        lines.append(f"return t + ({values})")
        return "\n    ".join(lines) + "\n"

    def _raw_codes(self) -> str:
        """Struct's codes of the raw data: the event's number, then the fields with what lies between them left out."""
        codes, end = "H", 2
        for field, fetch in zip(self.fields, self.fetches, strict=True):
            codes += f"{field.offset - end}x" if field.offset > end else ""
            codes += f"{field.size}s" if fetch.is_array else _CODES[field.size, field.signed and not field.dynamic]
            end = field.offset + field.size
        return codes

    def _value(self, source: Source) -> str:
        match source:
            case Constant(value):
                return repr(value)
            case ChildPid():
                return str(self.child_pid)
            case FromSample(name="nsecs"):
                return f"t[{TIME}] + {self.time_offset}" if self.time_offset else f"t[{TIME}]"
            case FromSample(name="monotonic" | "tai" as clock):
                return f"t[{TIME}] + ({self.time_offset + ahead_ns(clock)})"
            case FromSample(name=name):
                return f"t[{ {'pid': PID, 'tid': TID, 'cpu': CPU}[name] }]"
            case Number(guard=None):
                return self._number(source)
        if source not in self.resolved:
            self.resolved.append(source)
        return f"t[{self.first + len(self.fetches) + self.resolved.index(source)}]"

    def _number(self, number: Number) -> str:
        return f"t[{self.first + number.fetch}]"

    def _resolved(self, source: Source, starved: bool) -> str:
        match source:
            case Number(guard=guard):
                return f"{self._number(source)} if v{guard} else {self._absent(guard or 0, starved)}"
            case Block(arrays, size, guards):
                whole = " + ".join(f"t[{self.first + number}]" for number in arrays)
                valid, absent = " and ".join(f"v{guard}" for guard in guards), self._absent(guards[0], starved)
                return f"({whole})[:{size}] if {valid} else {absent}"
            case ThreadName(fetch):
                return f"b[r + o{fetch} : r + e{fetch} - 1] if n{fetch} else None"
            case UserStack(frames) if self.shape.registers:
                return f"unwound(b, r, t[{PID}], {frames})"
            case UserStack(frames):
                return f"stack(b, c, p[-1], t[{PID}], {frames})"
            case Text(fetch, base, offset, need, arrays=()):
                valid = self._is_whole(source)
                if starved:
                    valid += f" and (k != {fetch} or n{fetch} - 1 > {need})"
                null, absent = self._is_at(base, offset, 0), self._absent(fetch, starved)
                return f"b[r + o{fetch} : r + e{fetch} - 1] if {valid} else b'' if {null} else {absent}"
            case Text():
                return self._sized(source, starved)
        raise AssertionError(source)

    def _sized(self, text: Text, starved: bool) -> str:
        """A string whose size the program gives: where it is not whole, as far as its arrays reach."""
        fetch, base = text.fetch, text.base
        here, whole = f"b[r + o{fetch} : r + e{fetch} - 1]", self._is_whole(text)
        start = self._number(base) if isinstance(base, Number) else repr(base.value)
        arrays = " + ".join(f"t[{self.first + number}]" for number in text.arrays)
        arrays += f", ({start}) + {text.offset}"
        known = f"reach({arrays}, {self._absent(fetch, starved)})"
        if starved:
            known = f"cut({arrays}, {here}, {_PAGE} - o{fetch}) if {whole} and k == {fetch} else {known}"
            whole += f" and k != {fetch}"
        if isinstance(base, Number) and base.guard is not None:
            known = f"(({known}) if v{base.guard} else (b'', {self._absent(base.guard, starved)}))"
        null = self._is_at(base, text.offset, 0)
        reach = f"({here}, b'') if {whole} else (b'', b'') if {null} else {known}"
        return reach if text.any_size else f"measured({reach}, {text.need + 1}, {text.need + 1})"

    def _absent(self, string: int, starved: bool) -> str:
        """For what is not there: in a starved event there was no room from the string that was cut on."""
        return f"no_room if k <= {string} else None" if starved else "None"

    def _is_whole(self, text: Text) -> str:
        comm = self._is_at(text.base, text.offset, _COMM)
        return f"v{text.fetch}" if comm == "False" else f"v{text.fetch} and not ({comm})"

    def _is_at(self, base: Number | Constant, offset: int, address: int) -> str:
        """Whether base and offset make an address."""
        wanted = (address - offset) & _ALL
        if isinstance(base, Constant):
            return repr(isinstance(base.value, int) and base.value & _ALL == wanted)
        test = f"{self._number(base)} & {_ALL} == {wanted}"
        return test if base.guard is None else f"v{base.guard} and {test}"


def _last_true(flags: Sequence[object]) -> int:
    """The index of the last true flag; -1, the sentinel, where there is none."""
    return max((place for place, flag in enumerate(flags) if flag), default=-1)


def _reach(arrays: bytes, address: int, behind: NoRoom | None) -> Reach:
    """Of a string that the event does not hold: what arrays have of it up to the first byte that is 0 or unreadable.
    The latter is the first of all or that of a page; elsewhere a 0 is the string's end.
    """
    known, end, _ = arrays.partition(b"\0")
    return known, b"" if end and known and 0 < (address + len(known)) % 4096 <= 4088 else behind


def _cut(arrays: bytes, address: int, kept: bytes, room: int) -> Reach:
    """The same where the kernel `kept` no more of it than the room of those behind it: it is so long that it was not
    measured, or unreadable further on. The latter, where a string that ended there had found room.
    """
    known, behind = _reach(arrays, address, NO_ROOM)
    if len(known) == len(arrays):
        return max(known, kept, key=len), NO_ROOM
    return known, None if behind is NO_ROOM and len(known) < room else behind


def _unwound(registers: int, unwinder: Unwinder | None, data: bytes, raw: int, pid: int, frames: int) -> Stack:
    """The stack of a sample whose raw data begins at `raw`, by its registers and the copy of its stack."""
    at = raw + _U32(data, raw - 4)[0]
    if not _U64(data, at)[0] or unwinder is None:  # PERF_SAMPLE_REGS_ABI_NONE
        return Stack(pid, ())
    values = struct.unpack_from(f"={registers}Q", data, at + 8)
    at += 8 + 8 * registers
    size = _U64(data, at)[0]
    filled = _U64(data, at + 8 + size)[0] if size else 0
    return Stack(pid, unwinder.unwind(pid, values, memoryview(data)[at + 8 : at + 8 + (filled & ~7)].cast("Q"), frames))


_U32, _U64 = struct.Struct("=I").unpack_from, struct.Struct("=Q").unpack_from


def _user_stack(data: bytes, at: int, count: int, pid: int, frames: int) -> Stack:
    """The call chain of `count` entries at `at`; without frames where the kernel could not walk it."""
    chain = struct.unpack_from(f"={count}Q", data, at)
    addresses = tuple(address for address in chain if address < perf.CALLCHAIN_MARKS)
    return Stack(pid, addresses[:frames])
