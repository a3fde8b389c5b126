"""The C function under construction: its lines, its buffers, what it has computed already.

An expression becomes C in two parts: statements that are written at once, and a C expression without side effects that
is handed back. Whoever joins two such expressions must keep the order of evaluation (`Frame.settle`).

Buffers (strings, tuples, keys, stacks) are arrays of words. Small ones lie on BPF's stack of 512 bytes, others in the
invocation's scratch slot, whose layout is one for the whole program (`Scratch`): each function takes its buffers from
the front of the list of those of the same form. Strings there carry the length that is in use, so that clearing
a buffer of a kilobyte touches one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tracer.backends.bcc.codegen.site_text import SiteTexts
from tracer.backends.bcc.maps.layout import SHORT_TEXT, size_of, wrap
from tracer.backends.bcc.maps.tables import Table
from tracer.dataclass import dataclass, field
from tracer.lang.typed import Clause, Expr, Program
from tracer.lang.types import BoolType, IntType, StackType, StringType, TupleType, Type
from tracer.plan.model import Variant

_STACK_BUDGET = 224
"""Bytes of BPF's stack for buffers; the rest is for what the compiler spills and for the prelude's own."""

_STACK_LARGEST = 128


@dataclass(frozen=True, slots=True)
class Buffer:
    """Words of memory: `name` is a C expression of type u64 *. `used` maps the word where a long string (or the frames
    of a stack) begins to the C lvalue of its length in use; empty on BPF's stack.
    """

    name: str
    words: int
    used: dict[int, str] = field(default_factory=dict)

    def at(self, word: int) -> str:
        """Pointer to a word."""
        return f"{self.name} + {word}" if word else self.name

    def part(self, word: int, kind: Type) -> Buffer:
        """The buffer of an item that begins at a word."""
        words = size_of(kind) // 8
        return Buffer(
            f"({self.at(word)})" if word else self.name,
            words,
            {at - word: lvalue for at, lvalue in self.used.items() if word <= at < word + words},
        )


@dataclass(slots=True)
class Scratch:
    """The program's scratch slot: buffers by form (words, words where long parts begin), how many of each, and the size
    of the largest record.
    """

    forms: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)
    record_words: int = 0

    @property
    def empty(self) -> bool:
        """Whether no function needs a slot."""
        return not self.forms and not self.record_words

    def members(self) -> list[str]:
        """The members of struct scratch."""
        lines = ["u64 busy;"]
        for (words, longs), count in self.forms.items():
            for index in range(count):
                name = _member(words, longs, index)
                if longs:
                    lines.append(f"u64 {name}_used[{len(longs)}];")
                lines.append(f"u64 {name}[{words}];")
        if self.record_words:
            lines.append(f"u64 record[{self.record_words}];")
        return lines

    def size(self) -> int:
        """Bytes of a slot."""
        forms = sum(8 * (words + len(longs)) * count for (words, longs), count in self.forms.items())
        return 8 + forms + 8 * self.record_words


def _member(words: int, longs: tuple[int, ...], index: int) -> str:
    return "_".join(["b", str(words), *map(str, longs), str(index)]) if longs else f"p_{words}_{index}"


def long_words(kind: Type, start: int = 0) -> tuple[int, ...]:
    """The words at which long strings and stacks begin in a value of this type."""
    match kind:
        case StringType(size=size):
            return (start,) if size > SHORT_TEXT else ()
        case StackType(frames=frames):
            return (start + 2,) if 8 * frames > SHORT_TEXT else ()
        case TupleType(items=items):
            found: tuple[int, ...] = ()
            for item in items:
                found += long_words(item, start)
                start += size_of(item) // 8
            return found
        case _:
            return ()


def c_type(kind: Type) -> str:
    """The C type of a scalar value."""
    if isinstance(kind, IntType):
        return f"{'s' if kind.signed else 'u'}{kind.bits}"
    return "u64"


def literal(number: int, kind: Type) -> str:
    """An integer constant of a type."""
    number = wrap(kind, number)
    signed = isinstance(kind, IntType) and kind.signed
    if number == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    return (f"({number}LL)" if number < 0 else f"{number}LL") if signed else f"{number}ULL"


@dataclass(slots=True)
class Shared:
    """What all functions of a program share while it is generated."""

    program: Program
    tables: dict[str, Table]
    marks: dict[str, int]
    site_texts: SiteTexts
    scratch: Scratch = field(default_factory=Scratch)
    records: list[object] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MapValue:
    """What says that two reads of a map are of one element."""

    map: str
    key: tuple[object, ...]


class Frame:
    """One C function. `early` says that its scratch slot is taken before the predicate; `many` that it serves variants
    which differ in the texts of `probe` and `func` (`site_text`).
    """

    def __init__(self, shared: Shared, clause: Clause, variant: Variant, early: bool, many: bool = False) -> None:
        self.shared = shared
        self.clause = clause
        self.variant = variant
        self.many = many
        self.lines: list[str] = []
        self.declarations: list[str] = []
        self.depth = 1
        self.has_slot = early
        self.wants_slot = False
        self.unreadable = False
        self.done = False
        self.reads_memory = False
        self.slots: list[str | Buffer] = []
        self._fixed: set[str] = set()
        self._stack = 0
        self._names = 0
        self._taken: dict[tuple[int, tuple[int, ...]], int] = {}
        self._known: list[dict[object, str]] = [{}]
        self._texts: dict[str, Buffer] = {}
        self._told: dict[Expr, str] = {}

    # --- lines ---

    def line(self, text: str) -> None:
        """Writes one statement."""
        self.lines.append("\t" * self.depth + text)

    def name(self, stem: str) -> str:
        """A name not used before in this function."""
        self._names += 1
        return f"{stem}{self._names - 1}"

    def temporary(self, kind: str, value: str, stem: str = "t") -> str:
        """Computes a value now; returns the name that holds it."""
        name = self.name(stem)
        self.line(f"{kind} {name} = {value};")
        self._fixed.add(name)
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head {` … `}`: what becomes known inside is forgotten behind it."""
        self.line(f"{head} {{")
        self.depth += 1
        self._known.append({})
        yield
        self._known.pop()
        self.depth -= 1
        self.line("}")

    # --- order of evaluation ---

    def mark(self) -> int:
        """Where a following `settle` would insert."""
        return len(self.lines)

    def settle(self, mark: int, kind: str, value: str) -> str:
        """An expression made before `mark`, safe against statements written since: computed where the mark is."""
        if len(self.lines) == mark or value in self._fixed or _is_literal(value):
            return value
        name = self.name("t")
        self.lines.insert(mark, "\t" * self.depth + f"{kind} {name} = {value};")
        self._fixed.add(name)
        return name

    def known(self, key: object) -> str | None:
        """A value computed before, where that computation has surely happened."""
        for scope in reversed(self._known):
            if key in scope:
                return scope[key]
        return None

    def remember(self, key: object, value: str) -> str:
        """Notes a computed value for the rest of the current block."""
        self._known[-1][key] = value
        return value

    def forget_map(self, name: str | None = None) -> None:
        """What was read from a map, or from any, holds no longer."""
        for scope in self._known:
            for key in [key for key in scope if isinstance(key, MapValue) and name in (None, key.map)]:
                del scope[key]

    def remember_text(self, identity: object, length: str, buffer: Buffer) -> None:
        """Notes where a string of the process has been read to; nobody writes there any more."""
        if identity is not None:
            self.remember(("text", identity), length)
            self._texts[length] = buffer

    def known_text(self, identity: object) -> tuple[str, Buffer] | None:
        """Name of the length, and buffer, of a string that has surely been read before."""
        length = None if identity is None else self.known(("text", identity))
        return None if length is None else (length, self._texts[length])

    def told(self, cut: Expr | None) -> str | None:
        """The variable that says whether a cut has been counted at this hit, by what it is counted as."""
        if cut is None:
            return None
        if cut not in self._told:
            self._told[cut] = self.name("told")
            self.declarations.append(f"u64 {self._told[cut]} = 0;")
        return self._told[cut]

    # --- memory ---

    def buffer(self, words: int, longs: tuple[int, ...] = (), stem: str = "b") -> Buffer:
        """A new buffer; what is in it is undefined, but for the lengths in use of its long parts."""
        size = 8 * words
        if not longs and size <= _STACK_LARGEST and self._stack + size <= _STACK_BUDGET:
            self._stack += size
            name = self.name(stem)
            self.declarations.append(f"u64 {name}[{words}];")
            return Buffer(name, words)
        self.wants_slot = True
        form = (words, longs)
        index = self._taken.get(form, 0)
        self._taken[form] = index + 1
        forms = self.shared.scratch.forms
        forms[form] = max(forms.get(form, 0), index + 1)
        member = f"scratch->{_member(words, longs, index)}"
        return Buffer(member, words, {word: f"{member}_used[{at}]" for at, word in enumerate(longs)})

    def buffer_for(self, kind: Type, stem: str = "b") -> Buffer:
        """A new buffer for a value of this type."""
        return self.buffer(size_of(kind) // 8, long_words(kind), stem)

    def record(self, words: int) -> str:
        """The scratch slot's record area, at least this large."""
        self.wants_slot = True
        self.shared.scratch.record_words = max(self.shared.scratch.record_words, words)
        return "scratch->record"

    # --- ways out ---

    def leave(self) -> str:
        """The statement that ends the clause."""
        if not self.has_slot:
            return "return 0;"
        self.done = True
        return "goto done;"

    def leave_unreadable(self) -> str:
        """The statement for what could not be read."""
        self.unreadable = True
        return "goto unreadable;"


def scalar(kind: Type) -> bool:
    """Whether a value of this type is one C number."""
    return isinstance(kind, IntType | BoolType) or (size_of(kind) == 8 and not isinstance(kind, StringType | TupleType))


def _is_literal(value: str) -> bool:
    return value.strip("()-").rstrip("UL").isdigit()
