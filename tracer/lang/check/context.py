"""The state of one pass over the program, and how it reports."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from tracer.dataclass import dataclass, field
from tracer.errors import Diagnostic, Source, Span
from tracer.lang import typed
from tracer.lang.check.facts import Facts
from tracer.lang.syntax import ast
from tracer.lang.types import Type
from tracer.resolve.model import Site


@dataclass(frozen=True, slots=True)
class Unit:
    """One clause in one kind of place: `BEGIN, usdt:…` is two units, since built-ins mean different things there."""

    number: int
    clause: ast.Clause
    kind: Literal["begin", "end", "interval", "probe"]
    points: tuple[ast.AttachPoint, ...]
    sites: tuple[Site, ...]

    @property
    def returns_only(self) -> bool:
        """Whether every site is the return of a function."""
        if self.sites:
            return all(site.kind in ("uretprobe", "ret") for site in self.sites)
        return self.kind == "probe" and all(point.kind == "uretprobe" for point in self.points)

    @property
    def place(self) -> str:
        """How a message names the unit's kind of probe."""
        return {"begin": "BEGIN", "end": "END", "interval": "an interval clause", "probe": "a probe"}[self.kind]


@dataclass(slots=True)
class Variable:
    """A scratch variable in scope."""

    key: Hashable
    slot: int
    name: str
    span: Span


@dataclass(slots=True)
class Context:
    """What the rules read (`known`, from the pass before) and write (`found`, and in the last pass everything else)."""

    source: Source
    config: typed.Config
    known: Facts
    final: bool
    found: Facts = field(default_factory=Facts)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    formats: list[tuple[str, tuple[Type, ...]]] = field(default_factory=list)
    shapes: list[Type] = field(default_factory=list)
    unit: Unit = field(init=False)
    scopes: list[dict[str, Variable]] = field(default_factory=list)
    slots: dict[Hashable, int] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)
    unrolled: int = 0

    def error(self, message: str, span: Span, hint: str | None = None) -> None:
        """Records a fault; only the last pass, which knows all types, speaks."""
        self._record(Diagnostic(message, span, hint))

    def warn(self, message: str, span: Span, hint: str | None = None) -> None:
        """Records a warning."""
        self._record(Diagnostic(message, span, hint, "warning"))

    def _record(self, diagnostic: Diagnostic) -> None:
        if self.final and diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    def at(self, span: Span | None) -> str:
        """A place in the text as `line:column`."""
        line, column = self.source.position(span.start if span else 0)
        return f"{line}:{column}"

    def text(self, span: Span) -> str:
        """What the user wrote there."""
        return self.source.text[span.start : span.end]

    def format_index(self, text: str, types: tuple[Type, ...] = ()) -> int:
        """The index of a format in `Program.formats`: one for each list of types that its values have."""
        if (text, types) not in self.formats:
            self.formats.append((text, types))
        return self.formats.index((text, types))

    def shape_index(self, type: Type) -> int:
        """The index of a type in `Program.shapes`."""
        if type not in self.shapes:
            self.shapes.append(type)
        return self.shapes.index(type)

    # --- variables

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
        self.found.variable(key).assigned = True
        return variable

    def variable_type(self, variable: Variable) -> Type | None:
        """Its type, as far as the pass before found one."""
        facts = self.known.variables.get(variable.key)
        return facts.type() if facts else None
