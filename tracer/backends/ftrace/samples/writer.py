"""Writes the functions that decode the samples of an event, for its layout: Python text with nothing in it but numbers
of this module's making.
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
    Held,
    KernelStack,
    Number,
    Source,
    Text,
    ThreadName,
    ToldName,
    UserStack,
)
from tracer.backends.ftrace.samples.sample_functions import (
    cut,
    held,
    kernel_stack,
    last_true,
    nobody,
    reach,
    reached,
    unwound,
    user_stack,
)
from tracer.backends.ftrace.samples.shape import CPU, MISC, PID, TID, TIME, Bytes, Sample, Shape
from tracer.host.clock import ahead_ns
from tracer.kernel import perf
from tracer.kernel.uprobe_events.events import EventFormat, Fetch
from tracer.steps.python.runtime import NO_ROOM, measured

if TYPE_CHECKING:
    from tracer.backends import Unwinder
    from tracer.backends.ftrace.samples.decoder import Near

_ALL = (1 << 64) - 1
_NONE = (1 << 32) - 1
"""Perf's number for a thread that has none any more."""
COMM_TOKEN = _ALL - 69
"""Where the kernel reads `$comm` if told to fetch a string there (FETCH_TOKEN_COMM, -ECOMM; seen on 6.18)."""
_LARGEST_NUMBER = (1 << 16) - 1  # of a trace event
_PAGE = 4000  # less what an event has beside its fetch arguments, and the sentinel
_CODES = {(1, False): "B", (2, False): "H", (4, False): "I", (8, False): "Q"}
_CODES |= {(size, True): code.lower() for (size, _), code in _CODES.items()}


@lru_cache(maxsize=64)
def _code(text: str, name: str) -> CodeType:
    return compile(text, f"<ftrace {name}>", "exec")


def define(text: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function of that name in a text, in which other `names` are known."""
    exec(_code(text, name), names)
    function: Callable[..., Any] = names[name]
    return function


class Writer:
    """Writes the functions of one event."""

    def __init__(
        self, format: EventFormat, fetches: Sequence[Fetch], shape: Shape, time_offset: int, child_pid: int,
        unwinder: Unwinder | None, late: bool = False, near: Near | None = None,
        others: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`late`: the number of the thread in the record is read too, in the place before the fields. `near`: see
        `decoder.build`.
        """
        self.near, self.others = (near if others else None), others
        self.shape = shape
        self.unwinder = unwinder
        self.fetches = fetches
        self.time_offset = time_offset
        self.child_pid = child_pid
        self.fields = [format.fields[f"f{number}"] for number in range(len(fetches))]
        self.strings = [number for number, fetch in enumerate(fetches) if fetch.is_string]
        self.has_sentinel = any(fetches[number] != THREAD_NAME for number in self.strings)
        self.late = late
        self.number = format.id if format.id > _LARGEST_NUMBER else None
        self.first = shape.event + 1 + late
        self.resolved: list[Source] = []
        self.raw_codes = self._raw_codes()
        self.codes = f"{shape.prefix}4x{self.raw_codes}"

    def hit(self, sources: Sequence[Source]) -> str:
        """The expression for a clause's hit tuple."""
        return f"({''.join(f'{self._value(source)}, ' for source in sources)})"

    def slots(self) -> dict[int, list[int]]:
        """The places of the strings in a sample whose size the program does not give, by their fetch arguments."""
        places: dict[int, list[int]] = {}
        for place, source in enumerate(self.resolved, self.first + len(self.fetches)):
            if isinstance(source, Text) and not source.arrays:
                places.setdefault(source.fetch, []).append(place)
        return places

    def decoder(self) -> Callable[[Bytes, int], Sample] | None:
        """The decode function, or None where unpacking is enough."""
        if not self.resolved and not self.shape.callchain and self.number is None:
            return None
        codes = "=" + self.raw_codes if self.shape.callchain else self.codes
        names: dict[str, Any] = {
            "prefix": struct.Struct(self.shape.prefix + "Q").unpack_from,
            "raw": struct.Struct(codes).unpack_from,
            "stack": user_stack,
            "kstack": kernel_stack,
            "near": self.near,
            "nobody": nobody,
            "unwound": partial(unwound, self.shape.registers.bit_count(), self.unwinder),
            "last": last_true,
            "no_room": NO_ROOM,
            "reach": reach,
            "cut": cut,
            "held": held,
            "reached": reached,
            "measured": measured,
        }
        if self.has_sentinel:
            names["starved"] = define(self._function("starved"), "starved", dict(names))
        return define(self._function("decode"), "decode", names)

    def _function(self, name: str) -> str:
        """`decode`, or `starved`: the same for an event in which a long string took the room of others."""
        size = struct.calcsize(self.shape.prefix)
        lines = [f"def {name}(b, o):"]
        if self.shape.callchain:
            lines += ["p = prefix(b, o)", f"c = o + {size + 8}", "r = c + 8 * p[-1] + 4", "t = p[:-1] + raw(b, r)"]
        else:
            lines += ["t = raw(b, o)", f"r = o + {size + 4}"]
        if self.number is not None:  # its record has none
            lines.append(f"t = t[:-1] + ({self.number:d},)")
        for number in self.strings:
            field = f"t[{self.first + number}]"
            lines.append(f"o{number} = {field} & 0xffff; n{number} = {field} >> 16; e{number} = o{number} + n{number}")
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
        codes, end = ("H2xI", 8) if self.late else ("H", 2)
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
            case FromSample(name="pid" | "tid" as name, late=True):
                from tracer.host.first_namespace import in_first_pid_namespace  # of events of the kernel alone

                number = f"t[{PID if name == 'pid' else TID}]"
                # The record's is of the first pid namespace; perf says 0 of a thread that ours does not see.
                other = f"t[{self.first - 1}]" if in_first_pid_namespace() else "0"
                return f"({number} if {number} != {_NONE} else {other})"
            case FromSample(name="pid" | "tid" as name) if self.number is not None:
                number = f"t[{PID if name == 'pid' else TID}]"
                return f"({number} if {number} != {_NONE} else None)"  # a thread that has ended
            case ToldName(late=late):
                return f"named({self._value(FromSample('tid', late))}, t[{CPU}])"
            case FromSample(name="usermode"):
                return f"int(t[{MISC}] & {perf.CPU_MODES} == {perf.USER_MODE})"
            case FromSample(name=name):
                return f"t[{ {'pid': PID, 'tid': TID, 'cpu': CPU, 'moment': TIME}[name] }]"
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
            case Held():
                return self._held(source)
            case ThreadName(fetch):
                return f"{self._text(fetch)} if n{fetch} else None"
            case UserStack(frames) if self.shape.registers and self.near is not None:
                whole = f"unwound(b, r, t[{PID}], t[{TIME}], {frames})"
                others = [f"t[{self.first + n}]" for n, fetch in enumerate(self.fetches) if fetch.place in self.others]
                return f"({whole} if near({', '.join([f't[{TID}]', *others])}) else nobody(t[{PID}]))"
            case UserStack(frames) if self.shape.registers:
                return f"unwound(b, r, t[{PID}], t[{TIME}], {frames})"
            case UserStack(frames):
                return f"stack(b, c, p[-1], t[{PID}], {frames})"
            case KernelStack(frames):
                return f"kstack(b, c, p[-1], {frames})"
            case Text(fetch, base, offset, need, arrays=()):
                valid = self._is_whole(source)
                if starved:
                    valid += f" and (k != {fetch} or n{fetch} - 1 > {need})"
                null, absent = self._is_at(base, offset, 0), self._absent(fetch, starved)
                return f"{self._text(fetch)} if {valid} else b'' if {null} else {absent}"
            case Text():
                return self._sized(source, starved)
        raise AssertionError(source)

    def _held(self, held: Held) -> str:
        """The bytes that a field holds, or that lie where it says; None where that is not all there."""
        field = f"t[{self.first + held.fetch}]"
        offset, size = int(held.offset), int(held.size)
        if held.start is None:
            whole = field
        else:
            place = f"(r + {int(held.start)} + ({field} & 0xffff))"
            whole = f"bytes(b[{place} : {place} + ({field} >> 16)])"
        value = f"held({whole}, {offset}, {size}, {held.sort!r})"
        return f"reached({value})" if held.any_size else value

    def _sized(self, text: Text, starved: bool) -> str:
        """A string whose size the program gives: where it is not whole, as far as its arrays reach."""
        fetch, base = text.fetch, text.base
        here, whole = self._text(fetch), self._is_whole(text)
        start = self._number(base) if isinstance(base, Number) else repr(base.value)
        arrays = " + ".join(f"t[{self.first + number}]" for number in text.arrays)
        arrays += f", ({start}) + {text.offset}"
        reached = f"reach({arrays}, {self._absent(fetch, starved)})"
        if starved:
            reached = f"cut({arrays}, {here}, {_PAGE} - o{fetch}) if {whole} and k == {fetch} else {reached}"
            whole += f" and k != {fetch}"
        if isinstance(base, Number) and base.guard is not None:
            reached = f"(({reached}) if v{base.guard} else (b'', {self._absent(base.guard, starved)}))"
        null = self._is_at(base, text.offset, 0)
        reach = f"({here}, b'') if {whole} else (b'', b'') if {null} else {reached}"
        return reach if text.any_size else f"measured({reach}, {text.need + 1}, {text.need + 1})"

    def _absent(self, string: int, starved: bool) -> str:
        """The value for an absent string: in a starved event there was no room after the string that was cut."""
        return f"no_room if k <= {string} else None" if starved else "None"

    def _text(self, string: int) -> str:
        """A string without its NUL; samples with copies of stacks lie where the copier has put them."""
        text = f"b[r + o{string} : r + e{string} - 1]"
        return f"bytes({text})" if self.shape.registers else text

    def _is_whole(self, text: Text) -> str:
        comm = self._is_at(text.base, text.offset, COMM_TOKEN)
        return f"v{text.fetch}" if comm == "False" else f"v{text.fetch} and not ({comm})"

    def _is_at(self, base: Number | Constant, offset: int, address: int) -> str:
        """Whether base and offset make an address."""
        wanted = (address - offset) & _ALL
        if isinstance(base, Constant):
            return repr(isinstance(base.value, int) and base.value & _ALL == wanted)
        test = f"{self._number(base)} & {_ALL} == {wanted}"
        return test if base.guard is None else f"v{base.guard} and {test}"
