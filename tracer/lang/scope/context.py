"""The state of one pass over the program, and how it reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tracer.dataclass import dataclass, field, replace
from tracer.errors import Diagnostic, Source, Span
from tracer.kinds.model import ClauseKind
from tracer.kinds.registry import KINDS
from tracer.kinds.site import FileSite, Site, in_files
from tracer.lang import typed
from tracer.lang.config import asked_of
from tracer.lang.scope.facts import Facts
from tracer.lang.syntax import ast
from tracer.lang.types import IntType, PointerType, Type
from tracer.lang.types.combine import SmallType, settled
from tracer.lang.types.declared import Declared

_LOCAL = r"\$\w+\.(\w+)\.\d+"
"""A variable of a macro or a function, as `macros.expand` names it; compiled only when a message needs it."""
_RESULT = r"\$(\w+)\.result\.0\d+"
"""What a function returns, as `macros.functions` names it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One clause in one kind of place: `BEGIN, usdt:…` is two units, since built-ins mean different things there."""

    number: int
    clause: ast.Clause
    kind: ClauseKind
    points: tuple[ast.AttachPoint, ...]
    sites: tuple[Site, ...]
    until: Unit | None = None
    """Of a span the same clause at its end, of which `after()` and `retval` are; this one is at its start."""
    closes: bool = False
    """Whether it is that."""

    @property
    def places(self) -> Sequence[FileSite]:
        """The sites that are places in files: all, or () where they are of another sort."""
        return in_files(self.sites)

    @property
    def returns_only(self) -> bool:
        """Whether every site is the return of a function."""
        return self.has_result and not self.reads("call")

    @property
    def has_result(self) -> bool:
        """Whether what a function returns is known at every site."""
        if self.until is not None:
            return self.until.has_result
        points = {site.point for site in self.sites} or range(len(self.points))
        return all(self.reads("return", self.points[number]) for number in points)

    def reads(self, what: str, point: ast.AttachPoint | None = None) -> bool:
        """Whether a clause of the kind of an attach point, its first without one, may read it (`ProbeKind.reads`)."""
        if self.until is not None and what in ("call", "return"):
            return what == "call" or self.until.reads(what)
        if self.closes and what == "call":
            return True
        return what in KINDS[(point or self.points[0]).kind].reads

    def reading(self, what: str) -> list[Site]:
        """The sites at which a clause of their kind may read it."""
        points = {number for number, point in enumerate(self.points) if self.reads(what, point)}
        return [site for site in self.sites if site.point in points]

    @property
    def place(self) -> str:
        """The name of the unit's kind of probe in messages."""
        return KINDS[self.points[0].kind].where


@dataclass(slots=True)
class Variable:
    """A scratch variable in scope."""

    key: Hashable
    slot: int
    name: str
    span: Span


@dataclass(slots=True)
class Context:
    """The rules read the `known_facts` of the pass before, and write `facts`, in the last pass everything else too."""

    source: Source
    config: typed.Config
    known_facts: Facts
    final: bool
    expressions: Callable[[Context, ast.Expr], typed.Expr | None]
    bodies: Callable[[Context, tuple[ast.Stmt, ...]], tuple[typed.Stmt, ...]]
    types: Declared = field(default_factory=Declared)
    options: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)
    diagnostics: dict[Diagnostic, None] = field(default_factory=dict)
    formats: list[tuple[str, tuple[Type, ...], typed.Output | None]] = field(default_factory=list)
    shapes: list[Type] = field(default_factory=list)
    unit: Unit = field(init=False)
    words: frozenset[int] = field(init=False)
    """The bytes of an address in the programs of the unit's sites; 8 where these are in no files."""
    scopes: list[dict[str, Variable]] = field(default_factory=list)
    slots: dict[Hashable, int] = field(default_factory=dict)
    first_reads: dict[Hashable, Type | None] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)
    lost: bool = False
    """Whether the rest of the clause cannot be checked."""
    _unread: int = 0
    calls: list[tuple[str, Span]] = field(default_factory=list)
    """The enclosing calls of macros and functions, the innermost last."""
    given: list[Sequence[Any]] = field(default_factory=list)
    """The arguments of the functions that are said in the language, the innermost last: there `$1` is the first."""

    def begin(self, unit: Unit) -> None:
        """Goes on with a clause."""
        self.unit = unit
        self.words = frozenset([site.word for site in unit.places] or [8])
        self.types = replace(self.types, sites=tuple(unit.places))
        self.scopes, self.slots, self.loops, self.lost = [{}], {}, [], False

    @contextmanager
    def at_end(self) -> Iterator[None]:
        """Goes on, for a while, where a span ends; elsewhere nothing changes."""
        unit, words, types = self.unit, self.words, self.types
        if unit.until is not None:
            self.unit = unit.until
            self.words = frozenset([site.word for site in unit.until.places] or [8])
            self.types = replace(types, sites=tuple(unit.until.places))
        try:
            yield
        finally:
            self.unit, self.words, self.types = unit, words, types

    def expr(self, node: ast.Expr) -> typed.Expr | None:
        """A typed expression: what the rules make of a part of the tree."""
        return self.expressions(self, node)

    def statements(self, nodes: tuple[ast.Stmt, ...]) -> tuple[typed.Stmt, ...]:
        """Typed statements, in the scope that is open."""
        return self.bodies(self, nodes)

    def error(self, message: str, span: Span, hint: str | None = None) -> None:
        """Records a fault; only the last pass, which knows all types, speaks."""
        self.record(Diagnostic(message, span, hint))

    def misplaced(self, message: str, span: Span, hint: str | None = None) -> bool:
        """Whether this kind of probe does not know something; reports it. A function that nobody calls may be meant for
        another kind.
        """
        if not self.unit.clause.uncalled:
            self.error(message, span, hint)
        return not self.unit.clause.uncalled

    def untyped(self, message: str, span: Span, hint: str | None = None) -> None:
        """Reports a value whose type is known only at a site: without it nothing that follows can be checked."""
        if not self.misplaced(message, span, hint):
            self.lost = True

    def warn(self, message: str, span: Span, hint: str | None = None) -> None:
        """Records a warning."""
        self.record(Diagnostic(message, span, hint, "warning"))

    def stable(self, feature: str, word: str, span: Span) -> None:
        """Warns of, or refuses, a feature that bpftrace calls unstable, as the program's settings ask."""
        asked = asked_of(self.config, feature)
        if asked == "error":
            self.error(f"{word} is switched off by unstable_{feature}", span, "enable allows it")
        elif asked == "warn":
            self.warn(f"{word} is what bpftrace calls unstable", span, f"unstable_{feature} = enable says nothing")

    def record(self, diagnostic: Diagnostic) -> None:
        """Adds a warning, once."""
        if not self.final or self.lost:
            return
        if self.calls:
            diagnostic = self._of_call(diagnostic)
        self.diagnostics[diagnostic] = None

    def _of_call(self, diagnostic: Diagnostic) -> Diagnostic:
        """Says a diagnostic in words of the user: variables by their names, and where the call is, unless it shows."""
        callee, call = self.calls[-1]
        message, hint = (
            text and re.sub(_LOCAL, r"$\1", re.sub(_RESULT, r"the result of \1()", text))
            for text in (diagnostic.message, diagnostic.hint)
        )
        if not call.start <= diagnostic.span.start < call.end:
            message = f"{message} (in {callee}, called at {self.position_of(call)})"
        return replace(diagnostic, message=message or "", hint=hint)

    def position_of(self, span: Span | None) -> str:
        """A place in the text as `line:column`."""
        line, column = self.source.position(span.start if span else 0)
        return f"{line}:{column}"

    def text(self, span: Span) -> str:
        """The user's own text there."""
        return self.source.text[span.start : span.end]

    def format_index(self, text: str, types: tuple[Type, ...] = (), output: typed.Output | None = None) -> int:
        """The index of a format in `Program.formats`: one for each list of types that its values have, and for each
        place where the text becomes something else than printed.
        """
        wanted = text, tuple(map(settled, types)), output
        if wanted not in self.formats:
            self.formats.append(wanted)
        return self.formats.index(wanted)

    def shape_index(self, type: Type) -> int:
        """The index of a type in `Program.shapes`."""
        shape = settled(type)
        if shape not in self.shapes:
            self.shapes.append(shape)
        return self.shapes.index(shape)

    def reads_memory(self, span: Span, hint: str, address: typed.Expr) -> bool:
        """Whether there is memory of a hit process here, and this can be an address in it; reports it otherwise."""
        if self._unread:
            return True
        if not self.is_address(address):
            return False
        there = any(map(self.unit.reads, ("probe", "fields", "memory", "stack")))
        if not there:
            self.error(f"there is no memory to read in {self.unit.place}", span, hint)
        return there

    def is_address(self, value: typed.Expr) -> bool:
        """Whether a number can be an address; reports one that has too few bits for that."""
        type, bits = value.type, 64
        wanted = 8 * min(self.words)
        if isinstance(value, typed.Arg):
            sites = [site for site in self.unit.reading("note") if value.index < len(site.args)]
            bits = max([8 * site.args[value.index].size for site in sites], default=64)
        elif isinstance(type, IntType) and not isinstance(value, typed.IntLit):
            bits = 32 if isinstance(type, SmallType) else type.bits
        if bits < wanted and not isinstance(type, PointerType):
            written = self.text(value.span)
            what = f"{written} is a number of {bits} bits, and no address"
            self.error(what, value.span, f"(uint64){written} is taken as one")
        return bits >= wanted or isinstance(type, PointerType)

    @property
    def is_unread(self) -> bool:
        """Whether what is typed is asked for its type alone."""
        return self._unread > 0

    @contextmanager
    def unread(self) -> Iterator[None]:
        """Marks what is typed meanwhile as never computed: only its type is asked for."""
        self._unread += 1
        try:
            yield
        finally:
            self._unread -= 1

    # --- scopes and variables

    @contextmanager
    def scope(self, loop: str | None = None, call: tuple[str, Span] | None = None) -> Iterator[None]:
        """A scope of its own, the body of a loop where that is named, or a call of a macro or a function."""
        self.scopes.append({})
        if loop:
            self.loops.append(loop)
        if call:
            self.calls.append(call)
        try:
            yield
        finally:
            self.scopes.pop()
            if loop:
                self.loops.pop()
            if call:
                self.calls.pop()

    def lookup(self, name: str) -> Variable | None:
        """The variable of that name in the innermost scope that has one."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declare(self, name: str, declaration: object, span: Span) -> Variable:
        """A new variable in the innermost scope; `declaration` is the statement that makes it."""
        key = (self.unit.number, id(declaration))
        slot = self.slots.setdefault(key, len(self.slots))
        variable = Variable(key, slot, name, span)
        self.scopes[-1][name] = variable
        self.facts.variable(key).assigned = True
        return variable

    def variable_type(self, variable: Variable) -> Type | None:
        """The type of a variable, as far as the pass before found one, or else this one up to here."""
        facts = self.known_facts.variables.get(variable.key) or self.facts.variables.get(variable.key)
        type = facts.type() if facts else None
        self.first_reads.setdefault(variable.key, type)
        return type

    def map_type(self, name: str) -> Type | None:
        """The type of a map's values, as far as the pass before found one."""
        facts = self.known_facts.maps.get(name)
        return facts.type() if facts else None
