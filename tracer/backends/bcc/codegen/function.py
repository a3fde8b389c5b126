"""The C function under construction: its lines, its buffers, and what the names of its steps are in C.

Buffers (strings, tuples, keys, stacks) are arrays of words. Small ones lie on BPF's stack of 512 bytes, others in the
invocation's scratch slot, whose layout is one for the whole program (`Scratch`): each function takes its buffers from
the front of the list of those of the same form. Strings there carry the length that is in use, so that clearing
a buffer of a kilobyte touches one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol

from tracer.backends.bcc.codegen.c import C, c_type
from tracer.backends.bcc.codegen.placement import KeyStep, Part, place
from tracer.backends.bcc.codegen.sites import SiteTexts
from tracer.backends.bcc.events.records import Record
from tracer.backends.bcc.maps.element_bytes import SHORT_TEXT, size_of
from tracer.backends.bcc.maps.tables import Table
from tracer.dataclass import dataclass, field
from tracer.lang.typed import Program
from tracer.lang.types import StackType, StringType, TupleType, Type
from tracer.plan.model import Variant
from tracer.steps.model import Each, Range, Round, Step, Steps, While
from tracer.steps.values import Name, Value
from tracer.steps.walk import defined, walk

STACK_BUDGET = 224
"""Bytes of BPF's stack for buffers; the rest is for what the compiler spills and for the prelude's own."""

STACK_LARGEST = 128
"""Bytes of the largest buffer there."""

ROUNDS = "rounds"
"""The variable that counts the rounds of a hit's loops."""

_BESIDE_CALLBACKS = 64
"""Bytes for buffers where the kernel calls functions back from this one: all of them share the stack's 512 bytes."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Words of memory, from the word `first` of the array `base` on. `used` maps the word where a long string (or the
    frames of a stack) begins to the C lvalue of its length in use; empty on BPF's stack.
    """

    base: str
    first: int
    words: int
    used: dict[int, str] = field(default_factory=dict)

    def address(self, word: int) -> str:
        """The address of a word."""
        return f"{self.base} + {self.first + word}" if self.first + word else self.base

    def word(self, index: int) -> str:
        """The lvalue of a word."""
        return f"{self.base}[{self.first + index}]"

    def part(self, word: int, kind: Type) -> Buffer:
        """The buffer of a value that begins at a word."""
        return self.behind(word, size_of(kind) // 8)

    def behind(self, word: int, words: int | None = None) -> Buffer:
        """The part of a buffer that begins at a word: all of it, or so many words."""
        words = self.words - word if words is None else words
        used = {index - word: lvalue for index, lvalue in self.used.items() if word <= index < word + words}
        return Buffer(self.base, self.first + word, words, used)


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
        case StackType(words=words):
            return (start + 2,) if 8 * words > SHORT_TEXT else ()
        case TupleType(items=items):
            inside: tuple[int, ...] = ()
            for item in items:
                inside += long_words(item, start)
                start += size_of(item) // 8
            return inside
        case _:
            return ()


@dataclass(slots=True)
class Shared:
    """The state that all functions of a program share while it is generated."""

    program: Program
    tables: dict[str, Table]
    marks: dict[str, int]
    site_texts: SiteTexts
    scratch: Scratch = field(default_factory=Scratch)
    records: list[Record] = field(default_factory=list)
    unwinds: bool = False
    """Whether stacks are walked by rules rather than frame pointers."""
    places: bool = False
    """Whether an address is kept with what lies there."""
    tasks: bool = False
    """Whether the program reads the kernel's task structures."""
    interprets: bool = False
    """Whether stacks show an interpreter's functions."""
    kernel: bool = False
    """Whether what it reads may be memory of the kernel."""
    threads: bool = False
    """Whether it is known of each thread whether it is traced."""
    repeats: bool = False
    """Whether the kernel runs the rounds of loops, so that its verifier goes through one of them alone."""


@dataclass(slots=True)
class Sending:
    """A record that is being written: its place, its bytes so far (in C), and how many of its leaves are written."""

    to: str
    end: str
    done: int = 0


class Context(Protocol):
    """The context that the C function of a probe is given at a hit: a pointer to a struct of that name, `ctx`."""

    struct: str

    result: int
    """The value that the function returns to the kernel."""

    stopped: bool
    """Whether the program that was hit is stopped in the kernel, or anywhere; else `ctx` has its registers."""

    def argument(self, function: CFunction, index: int, name: Name) -> C:
        """The C that reads `argN`."""

    def held_bytes(self, function: CFunction, index: int) -> C | None:
        """How many bytes a hit holds for `argN`, where only the hit tells."""


class CFunction:
    """A C function that is being written. `many`: it serves variants which differ in the texts of `probe` and `func`
    (`site_text`).
    """

    def __init__(self, shared: Shared, steps: Steps, variant: Variant, many: bool, context: Context) -> None:
        self.shared = shared
        self.placement = place(steps, shared.tables)
        self.kinds = steps.slots
        self.variant = variant
        self.many = many
        self.context = context
        self.lines: list[str] = []
        self.variables: dict[str, str] = {}
        """The variables here, with their types; of an array that of the pointer to it."""
        self.changing: set[str] = set()
        """The variables that are assigned more than once."""
        self.declarations: list[str] = []
        for flag in range(steps.flags):
            self.declare_changing(f"told{flag}", "u64")
        if any(isinstance(step, Round) for step in walk(steps.body)):
            self.declare_changing(ROUNDS, "u64")
        self.callbacks: list[str] = []
        """The functions that the kernel calls back from this one, those first that others name."""
        self.walking = False
        """Whether the innermost loop is one whose rounds are such a function."""
        self.quick = False
        """Whether a map is being walked around this."""
        self.wants_slot = False
        self.unreadable = False
        self.leaves = False
        self.reads_memory = False
        self.numbers: dict[int, C] = {}
        self.buffers: dict[int, Buffer] = {}
        self.in_buffers: dict[Value, Buffer] = {}
        self.slots: dict[int, C | Buffer] = {}
        self.records: dict[int, Sending] = {}
        self.read_texts: set[int] = set()
        """The names of strings in buffers of their own whose length in use is the one that was read."""
        self.depth = 1
        self._names = 0
        self._wholes: dict[tuple[int, str], Buffer] = {}
        called = (Each, While, Range) if shared.repeats else (Each,)
        calls = any(isinstance(step, called) for step in walk(steps.body))
        self.stack = STACK_BUDGET - _BESIDE_CALLBACKS if calls else 0
        self.made_callbacks = 0
        self._taken: dict[tuple[int, tuple[int, ...]], int] = {}

    # --- lines ---

    def line(self, text: str) -> None:
        """Writes one statement."""
        self.lines.append("\t" * self.depth + text)

    def name(self, stem: str) -> str:
        """A name not used before in this function."""
        self._names += 1
        return f"{stem}_{self._names - 1}"

    def temporary(self, stem: str, value: C, type: str = "u64") -> C:
        """Computes a value now; what holds it."""
        name = self.name(stem)
        self.line(f"{type} {name} = {value};")
        self.variables[name] = type
        return C(name, type)

    def once(self, stem: str, value: C, type: str = "u64") -> C:
        """The value in a form that is not computed again: a name or a literal."""
        return value if value.text.isalnum() else self.temporary(stem, value, type)

    def declare(self, number: int, kind: Type, value: C | str) -> C:
        """The variable of a name of the steps; it is assigned later where the value is empty."""
        self.line(f"{c_type(kind)} t{number}{f' = {value}' if value else ''};")
        self.numbers[number] = C(f"t{number}", c_type(kind))
        self.variables[f"t{number}"] = c_type(kind)
        return self.numbers[number]

    def declare_changing(self, name: str, type: str) -> None:
        """A variable that is 0 at each hit."""
        self.declarations.append(f"{type} {name} = 0;")
        self.variables[name] = type
        self.changing.add(name)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head {` … `}`."""
        self.line(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """A loop of C."""
        outer, self.walking = self.walking, False
        with self.block(head):
            yield
        self.walking = outer

    def end_round(self, word: Literal["break", "continue"]) -> None:
        """`break` or `continue`."""
        if self.walking and word == "break":
            self.line("ended = 1;")
        self.line("goto next;" if self.walking else f"{word};")

    def leave(self, *conditions: C) -> None:
        """Ends the clause, if there is a condition only if that holds."""
        self.leaves = True
        self._go("done", *conditions)

    def leave_unreadable(self, *conditions: C) -> None:
        """Ends the clause because a read failed, and counts that."""
        self.unreadable = True
        self._go("unreadable", *conditions)

    def _go(self, label: str, *conditions: C) -> None:
        for condition in conditions:
            self.line(f"if ({condition})")
        self.line("\t" * bool(conditions) + f"goto {label};")

    # --- memory ---

    def buffer(self, words: int, longs: tuple[int, ...] = (), stem: str = "b") -> Buffer:
        """A new buffer; what is in it is undefined, but for the lengths in use of its long parts."""
        size = 8 * words
        if not longs and size <= STACK_LARGEST and self.stack + size <= STACK_BUDGET:
            self.stack += size
            name = self.name(stem)
            self.declarations.append(f"u64 {name}[{words}];")
            self.variables[name] = "u64 *"
            return Buffer(name, 0, words)
        self.wants_slot = True
        form = (words, longs)
        index = self._taken.get(form, 0)
        self._taken[form] = index + 1
        forms = self.shared.scratch.forms
        forms[form] = max(forms.get(form, 0), index + 1)
        member = f"scratch->{_member(words, longs, index)}"
        return Buffer(member, 0, words, {word: f"{member}_used[{number}]" for number, word in enumerate(longs)})

    def buffer_for(self, kind: Type, stem: str = "b") -> Buffer:
        """A new buffer for a value of this type."""
        return self.buffer(size_of(kind) // 8, long_words(kind), stem)

    def record(self, words: int) -> str:
        """The scratch slot's record area, at least this large."""
        self.wants_slot = True
        self.shared.scratch.record_words = max(self.shared.scratch.record_words, words)
        return "scratch->record"

    def home(self, name: Name) -> Buffer:
        """The buffer in which a wide value is to be made: that of a later step, or in one of its own."""
        if name.id not in self.buffers:
            home = self.placement.homes.get(name.id)
            if isinstance(home, Part):
                self.buffers[name.id] = self.whole(home.step, home.of).part(home.word, home.kind)
            else:
                self.buffers[name.id] = self.buffer_for(name.type)
        return self.buffers[name.id]

    def whole(self, step: Step, of: Literal["key", "value"]) -> Buffer:
        """The buffer of a step's key or value: some of it may have been made before."""
        name = defined(step)
        if of == "value" and name is not None:
            return self.home(name)
        whole = self._wholes.get((id(step), of))
        if whole is None:
            assert isinstance(step, KeyStep)
            table = self.shared.tables[step.map]
            if of == "key":
                assert table.key is not None
                places = zip(table.key.parts, table.key.offsets, strict=True)
                longs = tuple(word for kind, offset in places for word in long_words(kind, offset // 8))
                whole = self.buffer(table.key.size // 8, longs, "key")
            else:
                whole = self.buffer_for(table.decl.value)
            self._wholes[id(step), of] = whole
        return whole
