"""The state of lowering at its current place in a clause: which names hold which values.

A fetch and a read of a map are shared by all that come after them on every path, and so is what a variable is known to
hold. Knowledge from inside a branch or a loop is dropped after it.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.dataclass import NamedTuple
from tracer.errors import Span
from tracer.kinds import site as resolved
from tracer.kinds.site import Reg
from tracer.lang import typed
from tracer.lang.features import Feature
from tracer.lang.types import UINT64, StackType, Type
from tracer.lang.walk import walk
from tracer.steps import arithmetic
from tracer.steps.model import Ask, Block, Fetch, GetSlot, If, Let, MapGet, Step
from tracer.steps.values import (
    Argument,
    BuiltIn,
    Const,
    KernelStack,
    Name,
    Register,
    ReturnValue,
    Source,
    UserStack,
    Value,
)
from tracer.steps.walk import parts

_DEEPEST = 24  # operations inside each other; CPython's parser takes 200 parentheses, and people fewer
_FIXED = frozenset({"pid", "tid", "uid", "gid", "cpid"})


class _MapKey(NamedTuple):
    """A map at a key."""

    map: str
    key: tuple[Value, ...]


class Context:
    """The clause under construction."""

    def __init__(self, program: typed.Program, clause: typed.Clause) -> None:
        self.program = program
        self.clause = clause
        self.block: list[Step] = []
        self.asks: list[Ask] = []
        self.fixed: set[Name] = set()
        """Fetches that give the same value throughout one hit."""
        self.first: list[Step] = []
        """Fetches that come before all other steps."""
        self.names = 0
        self.sources: dict[Name, Source] = {}
        """The address that a name was fetched from, if memory can be read there."""
        self.choices: dict[Value, tuple[Value, Value, Value]] = {}
        """For a name that is one of two values: the condition and the two."""
        self._scopes: list[dict[object, Name]] = [{}]
        self._slots: dict[int, Value] = {}

    # --- writing ---

    def add(self, step: Step) -> None:
        """Writes a step."""
        self.block.append(step)

    def name(self, type: Type) -> Name:
        """A name not used before."""
        self.names += 1
        return Name(type, self.names - 1)

    def ask(self, feature: Feature, construct: str, span: Span) -> None:
        self.asks.append(Ask(feature, construct, span))

    def once(self, value: Value) -> Value:
        if arithmetic.atomic(value):
            return value
        name = self.find(value)
        if name is None:
            name = self.remember(value, self.name(value.type))
            if self.is_fixed(value):
                self.fixed.add(name)
            self.add(Let(name, value))
        return name

    def kept(self, value: Value) -> Value:
        """The value, under a name where it is nested too deeply to be written as one expression."""
        return self.once(value) if arithmetic.depth(value) > _DEEPEST else value

    def branches(self, *bodies: Callable[[], Value | None]) -> list[tuple[Block, Value | None]]:
        """Blocks of which at most one runs: the steps and the value of each."""
        outer, before = self.block, self._slots
        unchanged = dict(before)
        ran: list[tuple[Block, Value | None]] = []
        for body in bodies:
            self.block, self._slots = [], dict(before)
            self._scopes.append({})
            value = body()
            self._scopes.pop()
            ran.append((tuple(self.block), value))
            unchanged = {slot: held for slot, held in unchanged.items() if self._slots.get(slot) == held}
        self.block, self._slots = outer, unchanged
        return ran

    def cut(self) -> Block:
        """The steps of the current block so far; more will follow."""
        written, self.block = tuple(self.block), []
        return written

    def choice(self, condition: Value, then: Callable[[], Value], otherwise: Callable[[], Value], type: Type) -> Value:
        """Chooses one of two values. Only that one is computed."""
        if isinstance(condition, Const):
            return then() if condition.value else otherwise()
        condition = self.once(condition)
        (first, one), (second, other) = self.branches(then, otherwise)
        assert one is not None and other is not None
        if not first and not second:
            return arithmetic.select(condition, one, other)
        name = self.name(type)
        self.add(If(condition, first, second, name, (one, other)))
        self.choices[name] = condition, one, other
        return name

    def enter_loop(self, *nodes: typed.Expr | typed.Stmt) -> None:
        """Forgets what the rounds of a loop may change."""
        for scope in self._scopes:
            for key in [key for key in scope if isinstance(key, _MapKey)]:
                del scope[key]
        for root in nodes:
            for node in walk(root):
                if isinstance(node, (typed.VarSet, typed.VarIncr, typed.ForRange, typed.ForMap, typed.Find)):
                    self._slots.pop(node.slot, None)

    # --- variables and maps ---

    def slot(self, slot: int) -> Value:
        """The value of a variable."""
        held = self._slots.get(slot)
        if held is None:
            name = self.name(self.clause.slots[slot])
            self.add(GetSlot(name, slot))
            held = self._slots[slot] = name
        return held

    def set_slot(self, slot: int, value: Value) -> None:
        """Records what a variable holds from here on."""
        self._slots[slot] = value

    def map_value(self, map: str, key: tuple[Value, ...], type: Type, span: Span) -> Value:
        """The value of a map at a key: looked up once, until the clause changes the map."""
        name = self.find(_MapKey(map, key))
        if name is None:
            name = self.remember(_MapKey(map, key), self.name(type))
            self.add(MapGet(name, map, key, span))
        return name

    def forget_map(self, map: str) -> None:
        """The clause changes a map."""
        for scope in self._scopes:
            for key in [key for key in scope if isinstance(key, _MapKey) and key.map == map]:
                del scope[key]

    # --- what is read at the hit ---

    def fetch(self, source: Source, type: Type, span: Span) -> Name:
        """A value of the hit that is no memory at an address."""
        name = self.find(source)
        if name is None:
            name = self.name(type)
            step = Fetch(name, source, span=span)
            if self._is_always_there(source):
                # It costs nothing, so it is read first of all: then no branch needs a step for it.
                self.first.append(step)
                self._scopes[0][source] = name
            else:
                self.remember(source, name)
                self.add(step)
            walked = isinstance(source, UserStack | KernelStack)
            fixed = source.name in _FIXED if isinstance(source, BuiltIn) else not walked
            if fixed:
                self.fixed.add(name)
            self.sources[name] = source
        return name

    def built_in(self, name: str, span: Span, type: Type = UINT64) -> Name:
        """A built-in value."""
        return self.fetch(BuiltIn(name), type, span)

    def stack(self, type: StackType, span: Span) -> Name:
        source = KernelStack(type.frames) if type.kernel else UserStack(type.frames, type.interpreted)
        return self.fetch(source, type, span)

    def hoisted(self, steps: Block) -> bool:
        """Writes the steps of a branch before it, where they cannot fail and have no effect; whether they could be."""
        fetches = [step for step in steps if isinstance(step, Fetch) and isinstance(step.source, BuiltIn)]
        if len(fetches) < len(steps):
            return False
        for step in fetches:
            self.add(step)
            self.remember(step.source, step.name)
        return True

    def _is_always_there(self, source: Source) -> bool:
        if isinstance(source, ReturnValue | Register):
            return True
        if not isinstance(source, Argument):
            return False
        places = {id(site.args): site.args for site in self.clause.sites}.values()
        return bool(places) and all(
            source.index < len(args) and isinstance(args[source.index].operand, (Reg, resolved.Const))
            for args in places
        )

    def is_fixed(self, value: Value) -> bool:
        """Whether a value is the same whenever it is asked for at one hit."""
        return all(part in self.fixed for part in parts(value) if isinstance(part, Name))

    def find(self, key: object) -> Name | None:
        """The name that holds the value of `key`, if that is known."""
        return next((scope[key] for scope in reversed(self._scopes) if key in scope), None)

    def remember(self, key: object, name: Name) -> Name:
        """Records it for the rest of this block."""
        self._scopes[-1][key] = name
        return name
