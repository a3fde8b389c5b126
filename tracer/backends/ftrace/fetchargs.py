"""Fetch arguments of uprobe_events for what a clause reads at a hit, and the sources that take its values out of a
sample.

A fetch argument is a name, a place and a type, `f0=+0(%di):s32`. The kernel reads all of them at the hit, one after the
other, into one buffer. Two things it does not tell, so the event must be laid out to show them (tried on 6.18):

* A number whose memory is unreadable is 0, the readable bytes of it and zeros, or (behind a second dereference)
  whatever an earlier hit left in the buffer. So each number from memory that could be absent has a *guard*: its last
  byte as a string.
* Strings stand in the buffer in the order of the arguments. One that could be read takes its length and the NUL; one
  that could not takes nothing, whatever length its descriptor states. So a string was read exactly if the next one
  begins where it ends, and the last argument is a *sentinel* that can always be read: the thread's name.

A string of 4,096 bytes or more is taken for empty when the kernel adds up how much room the strings of a hit need; so
it takes the room of those after it, down to the sentinel, which then has length 0. The same where the strings together
are more than a page. In such an event the last string that has a length was cut, and those after it, readable or not,
had no room (tried alike on 6.1, 6.12 and 6.18). See `decode`; what they would have been, `read.long_strings` knows.

What this cannot avoid: the kernel copies a string up to 4,096 bytes, whatever is asked for, and puts all of a hit into
one page. Where that is too little, a kernel with the fix of CVE-2024-50067 cuts, and warns once in its log; one without
writes past the page: there strings are refused (`bounds`), as where a warning would stop the machine
(`kernel.panic_on_warn`).

A string of which the program gives the size may have no NUL at all, and end at the end of mapped memory. So its bytes
are fetched as arrays of numbers too. Each number is copied by itself, and what of it cannot be read is 0 (tried on 6.18
at a page's end): the bytes up to the first 0 are there. Whether that 0 is the text's own end, the fetch as a string
says, where it is asked: these come last, as one without an end near would leave no room for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from tracer.backends.ftrace.attach.model import Attacher, NotExpressible
from tracer.backends.ftrace.attach.uprobe import IN_FILES
from tracer.dataclass import dataclass, field, replace
from tracer.kernel.uprobe_events.events import Fetch
from tracer.kinds.site import ArgSpec, Const, Mem, OwnOperand, Reg, Unreadable
from tracer.lang.fixed_width import wrap_int
from tracer.lang.types import IntType
from tracer.steps import values

SENTINEL = Fetch("$comm", "string")
THREAD_NAME = Fetch("$comm", "string")


@dataclass(frozen=True, slots=True)
class Number:
    """An integer: the index of its fetch, and that of its guard (None where it is always readable)."""

    fetch: int
    guard: int | None


@dataclass(frozen=True, slots=True)
class Text:
    """A string: the index of its fetch, and its address (the base, to which `offset` is added) to tell NULL.

    `need` is how many bytes of it can be of use: of a string that the kernel cut, more than that is as good as all. Of
    one whose size the program gives, `arrays` are the fetches of its bytes; `any_size`: it gives it at the hit, so
    the value is a `Reach`.
    """

    fetch: int
    base: Number | Constant
    offset: int
    need: int
    arrays: tuple[int, ...] = ()
    any_size: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of a struct or array: the fetches of its words, how many of their bytes count, and its guards: its
    first and last bytes as strings.
    """

    arrays: tuple[int, ...]
    size: int
    guards: tuple[int, int]


_NUMBERS = 64
"""Elements of an array at most, 8 bytes each (MAX_ARRAY_LEN)."""

_MOST_IN_ARRAYS = 2560
"""Bytes of an event: it has a page with its strings together, and from 6.12 on 3,072 bytes without them."""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of a field of the event, or with `start` bytes that its field locates, counted from there.

    From `offset` on so many bytes: a number, signed or not (`sort` is its code for struct), a "block", or a "text",
    which ends at its NUL; `any_size`: the program gives its size at the hit, so the value is a `Reach`.
    """

    fetch: int
    start: int | None
    offset: int
    size: int
    sort: str
    any_size: bool = False


@dataclass(frozen=True, slots=True)
class ThreadName:
    """`comm`: the index of its fetch."""

    fetch: int


@dataclass(frozen=True, slots=True)
class ToldName:
    """`comm` at what does not carry it: by what the kernel tells of threads. `late`: see `FromSample`."""

    late: bool


@dataclass(frozen=True, slots=True)
class Constant:
    """A value known beforehand; None for an argument that cannot be read at these sites."""

    value: int | bytes | None


@dataclass(frozen=True, slots=True)
class FromSample:
    """A value that every sample carries, or can: the process, the thread, the time, the CPU.

    `late`: the thread may have ended but for its last switch. Perf has no number for it then, and the event's record
    does.
    """

    name: Literal["pid", "tid", "nsecs", "monotonic", "tai", "cpu", "moment", "usermode"]
    late: bool = False


@dataclass(frozen=True, slots=True)
class UserStack:
    """The call chain of the sample, cut to `frames`."""

    frames: int


@dataclass(frozen=True, slots=True)
class KernelStack:
    """The kernel's part of the call chain of the sample, cut to `frames`."""

    frames: int


@dataclass(frozen=True, slots=True)
class ChildPid:
    """`cpid`: known once the session is open."""


_Stack = UserStack | KernelStack
Source = Number | Text | Block | Held | ThreadName | ToldName | Constant | FromSample | _Stack | ChildPid
"""Where the value of a leaf comes from; `fetch` and `guard` index the fetches of the event."""


@dataclass(slots=True)
class Fetches:
    """Collects the fetch arguments of one site, each once; `finish` puts the sentinel behind them. `sized` are the
    places of strings whose size the program gives, with how many bytes that is: `settled` puts their fetches behind the
    others.
    """

    args: dict[int, ArgSpec]
    retval: str
    attacher: Attacher = IN_FILES
    fetches: list[Fetch] = field(default_factory=list)
    sized: dict[tuple[str, int], int] = field(default_factory=dict)

    def leaf(self, source: values.Source) -> Source:
        """The source of the value of one of `steps.walk.leaves`; raises `NotExpressible`.

        `comm` must be asked for first of all, so that no string can take its room.
        """
        if is_absent(source, self.args):
            return Constant(None)
        match source:
            case values.BuiltIn(name="pid" | "tid" | "nsecs" | "monotonic" | "tai" | "cpu" | "moment" as name):
                return FromSample(name, self.attacher.late and name in ("pid", "tid"))
            case values.BuiltIn(name="usermode" as name):
                return FromSample(name)
            case values.BuiltIn(name="comm") if self.attacher.thread_name is not None:
                return ThreadName(self.index(self.attacher.thread_name))
            case values.BuiltIn(name="comm"):
                return ToldName(self.attacher.late)
            case values.BuiltIn(name="cpid"):
                return ChildPid()
            case values.Register() if self.attacher.unread:
                raise NotExpressible("a sample does not hold the registers of what was interrupted")
            case values.Argument() | values.ReturnValue() | values.Register():
                return self.value(source)
            case values.Memory() | values.Text() | values.Bytes() if (index := self._holding(source.base)) is not None:
                return self._held(source, index)
            case values.Memory(base=base, offset=offset, type=type) if base is not None:
                place = self._pointed(base)
                number = self.index(Fetch(_offset_by(place, offset), f"{'s' if type.signed else 'u'}{type.bits}"))
                return Number(number, self._guard(place, offset, type.bits // 8))
            case values.Bytes(base=base, offset=offset, size=size) if base is not None:
                if size > _MOST_IN_ARRAYS:
                    raise NotExpressible(f"it has {size} bytes, and an event has room for {_MOST_IN_ARRAYS}")
                place = self._pointed(base)
                arrays = tuple(map(self.index, _arrays(place, offset, size)))
                return Block(arrays, size, (self._guard(place, offset, 1), self._guard(place, offset, size)))
            case values.Text(size=1, sized=True):
                return Constant(b"")
            case values.Text(base=base, offset=offset, size=size, sized=sized, measured=measured) if base is not None:
                place = self._pointed(base)
                if not sized and not measured:
                    text = self.index(Fetch(_offset_by(place, offset), "string"))
                    return Text(text, self._pointer(base), offset, size - 1)
                wanted = size - 1 if sized else size
                self.sized[place, offset] = max(wanted, self.sized.get((place, offset), 0))
                number = -1 - list(self.sized).index((place, offset))
                return Text(number, self._pointer(base), offset, size - 1, any_size=measured)
            case values.UserStack(frames=frames):
                return UserStack(frames)
            case values.KernelStack(frames=frames):
                return KernelStack(frames)
        raise NotExpressible("ftrace events do not carry it")

    def prepare(self, source: values.Source) -> None:
        """Asks for what must stand before the strings, as one of them may take the room of all guards behind it."""
        with suppress(NotExpressible):
            if not isinstance(source, values.Text) or self._holding(source.base) is not None:
                self.leaf(source)
            elif source.base is not None and not is_absent(source, self.args):
                self._pointer(source.base)

    def settled(self, source: Source) -> Source:
        """A source of `leaf`, once all leaves have been asked for: with the numbers of fetches that come last."""
        if not isinstance(source, Text) or source.fetch >= 0:
            return source
        place, offset = list(self.sized)[-1 - source.fetch]
        share = _MOST_IN_ARRAYS // len(self.sized)
        for bytes_of, wanted in self.sized.items():
            for fetch in _arrays(*bytes_of, min(wanted, share)):
                self.index(fetch)
        for bytes_of in self.sized:
            self.index(Fetch(_offset_by(*bytes_of), "string"))
        arrays = tuple(map(self.index, _arrays(place, offset, min(self.sized[place, offset], share))))
        return replace(source, fetch=self.index(Fetch(_offset_by(place, offset), "string")), arrays=arrays)

    def value(self, source: values.Argument | values.ReturnValue | values.Register) -> Number | Constant:
        """The source of an argument, of the return value or of a register."""
        if isinstance(source, values.Register):
            return Number(self.index(Fetch(f"%{source.name}", "u64")), None)
        if isinstance(source, values.ReturnValue):
            return Number(self.index(Fetch(self.retval, "u64")), None)
        spec = self.args[source.index]
        of_type = isinstance(source.type, IntType) and source.type.signed
        # The widest integers have all bits, and the sign that all sites agree on.
        signed = spec.signed if spec.size < 8 else of_type
        sort = f"{'s' if signed else 'u'}{spec.size * 8}"
        match spec.operand:
            case Const(value):
                return Constant(_extended(value, spec, of_type))
            case Unreadable():
                return Constant(None)
            case Mem(base=str(base), disp=disp, index=None):
                # The stack is there as long as the thread is; anything else is guarded.
                number = self.index(Fetch(_offset_by(f"%{base}", disp), sort))
                guard = None if base in ("sp", "bp") else self._guard(f"%{base}", disp, spec.size)
                return Number(number, guard)
            case operand:
                return Number(self.index(self.attacher.number(operand, source.index, sort)), None)

    def index(self, fetch: Fetch) -> int:
        """The number of a fetch argument, which is added if it is new."""
        if fetch not in self.fetches:
            self.fetches.append(fetch)
        return self.fetches.index(fetch)

    def _holding(self, base: values.Source | None) -> int | None:
        """The argument that a base is, where the hit itself holds what is there."""
        if not isinstance(base, values.Argument):
            return None
        operand = self.args[base.index].operand
        return base.index if isinstance(operand, OwnOperand) and operand.held else None

    def _held(self, source: values.InMemory, index: int) -> Held:
        fetch, start = self.attacher.bytes(self.args[index].operand)
        number = self.index(fetch)
        match source:
            case values.Memory(offset=offset, type=type):
                code = "bhiq"[(type.bits // 8).bit_length() - 1]
                return Held(number, start, offset, type.bits // 8, code if type.signed else code.upper())
            case values.Bytes(offset=offset, size=size):
                return Held(number, start, offset, size, "block")
            case values.Text(offset=offset, size=size, sized=sized, measured=measured):
                return Held(number, start, offset, size - 1 if sized else 1 << 16, "text", measured)

    def _pointer(self, base: values.Source) -> Number | Constant:
        if isinstance(base, values.Zero):
            return Constant(0)
        if isinstance(base, (values.Argument, values.ReturnValue, values.Register)):
            return self.value(base)
        assert isinstance(base, values.Memory) and base.base is not None
        place = self._pointed(base.base)
        return Number(self.index(Fetch(_offset_by(place, base.offset), "u64")), self._guard(place, base.offset, 8))

    def _guard(self, place: str, offset: int, size: int) -> int:
        return self.index(Fetch(_offset_by(place, offset + size - 1), "string"))

    def _pointed(self, base: values.Source) -> str:
        """The place that holds the base of an address."""
        if isinstance(base, values.Memory):
            assert base.base is not None
            return _offset_by(self._pointed(base.base), base.offset)
        if isinstance(base, values.ReturnValue):
            return self.retval
        if isinstance(base, values.Register):
            return f"%{base.name}"
        if isinstance(base, values.Zero):
            if self.attacher.unread:
                raise NotExpressible(self.attacher.unread)
            return ""
        assert isinstance(base, values.Argument)
        spec = self.args[base.index]
        match spec.operand:
            case Const(value):
                return f"\\{_extended(value, spec, signed=False)}"
            case Unreadable():
                raise NotExpressible(f"arg{base.index} cannot be read here")
            case Reg() if spec.size == spec.word:
                return self.attacher.pointer(spec.operand, base.index)  # the upper half is 0 in a 32-bit program
            case _ if spec.size != 8:
                place = f"at {spec.text}" if spec.text else "on the stack"
                reason = f"arg{base.index} has {spec.size} bytes {place}, and the kernel takes 8 for a pointer"
                raise NotExpressible(reason)
            case operand:
                return self.attacher.pointer(operand, base.index)


def is_absent(source: values.Source, args: dict[int, ArgSpec]) -> bool:
    """Whether a value depends on an argument that cannot be read at these sites."""
    match source:
        case values.Argument(index=index):
            return isinstance(args[index].operand, Unreadable)
        case values.Memory(base=base) | values.Text(base=base) | values.Bytes(base=base):
            return base is not None and is_absent(base, args)
    return False


def finish(fetches: list[Fetch]) -> tuple[Fetch, ...]:
    """The fetch arguments with the sentinel behind them, where there is a string that can fail."""
    needed = any(fetch.is_string and fetch != THREAD_NAME for fetch in fetches)
    return (*fetches, SENTINEL) if needed else tuple(fetches)


def _arrays(place: str, offset: int, size: int) -> Iterator[Fetch]:
    """The bytes of a string, `size` or some more."""
    numbers = -(-size // 8)
    for first in range(0, numbers, _NUMBERS):
        yield Fetch(_offset_by(place, offset + 8 * first), f"u64[{min(_NUMBERS, numbers - first)}]")


def _offset_by(place: str, offset: int) -> str:
    """Memory at an offset from what a place holds; without one the offset is the address."""
    return f"{offset:+d}({place})" if place else f"@0x{offset % (1 << 64):x}"


def _extended(value: int, spec: ArgSpec, signed: bool) -> int:
    """A constant cut to the argument's size and extended to 64 bits."""
    return wrap_int(wrap_int(value, spec.size * 8, spec.signed), 64, signed)
