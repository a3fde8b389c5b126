"""The objects of built-in values and functions.

To add a function, write one `BuiltinFunction` in the module of its family, and a test. The checker asks it for its
arguments and its rule, the parser for its name, the reference page for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from tracer.dataclass import dataclass, field
from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.features import Feature
from tracer.lang.types import UINT64, IntType, StackType, StringType, Type
from tracer.lang.types.operations import Operation

if TYPE_CHECKING:
    from tracer.lang.scope.context import Context

Place = Literal["anywhere", "probe", "return", "call", "signal", "registers"]
"""Where a built-in may be used: everywhere; where a probe is hit; where a function returns; in a clause of calls."""

Role = Literal["value", "statement", "aggregation"]

V = TypeVar("V")
"""A value of the steps, which is opaque to the language."""


class Lowering(Protocol[V]):
    """The clause under construction, as `lower` of an object sees it: its operations add to the steps."""

    clause: typed.Clause

    def ask(self, feature: Feature, construct: str, span: Span) -> None:
        """Notes that not every backend can do this."""

    def value(self, expr: typed.Expr) -> V:
        """The value of an expression."""

    def constant(self, number: int | bool | bytes, type: Type) -> V:
        """A constant."""

    def op(self, op: Operation, type: Type, *args: V) -> V:
        """An operation of `tracer/lang/types/operations.py`, or one of its own."""

    def arithmetic(self, op: str, left: V, right: V, type: IntType) -> V:
        """`+ - * / % & | ^ << >>` in a type."""

    def wrap(self, value: V, type: IntType) -> V:
        """An integer in another type."""

    def compare(self, op: str, left: V, right: V) -> V:
        """`== != < <= > >=` on integers of one type."""

    def select(self, condition: V, then: V, otherwise: V) -> V:
        """`then` where the condition holds, else `otherwise`."""

    def once(self, value: V) -> V:
        """The value in a form that may be used more than once."""

    def built_in(self, name: str, span: Span, type: Type = UINT64) -> V:
        """The value of a hit with this name."""

    def site_text(self, name: str, type: Type) -> V:
        """The name of the probe, or of its function."""

    def return_value(self, span: Span) -> V:
        """The result of the function."""

    def register(self, name: str, span: Span) -> V:
        """A register at the hit."""

    def random(self) -> V:
        """A random number: another one each time."""

    def signal(self, number: V, thread: bool) -> V:
        """Sends a signal to the process that hit, or to its thread; 0, or the negative number of an error."""

    def stack(self, type: StackType, span: Span) -> V:
        """The user stack, or the kernel's."""

    def string_at(self, address: V, type: StringType, sized: bool, length: V | None, span: Span) -> V:
        """A string in memory, see `typed.Str`."""

    def bytes_at(self, address: typed.Expr, type: Type, length: V, span: Span) -> V:
        """The bytes at an address as a block of that length; zeros behind."""

    def map_has(self, map: str, key: tuple[typed.Expr, ...], span: Span) -> V:
        """Whether a map holds a key."""

    def map_delete(self, map: str, key: tuple[typed.Expr, ...], span: Span) -> V:
        """Removes a key; whether it was there."""

    def map_find(self, map: str, key: tuple[typed.Expr, ...], slot: int, span: Span) -> V:
        """Whether a map holds a key; a variable becomes its value where it does."""

    def map_length(self, map: str, type: Type, span: Span) -> V:
        """The number of keys of a map."""


Lower = Callable[[Lowering[Any], Any], Any]
"""How a node becomes steps: the value of it."""

NodeClass = type[typed.Expr]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: what it takes there, and what its rule gets for it. `what` names it in messages.

    | kind | takes | the rule gets |
    |---|---|---|
    | integer | an integer or bool | the typed expression |
    | unsigned | an integer or bool | the typed expression as uint64 |
    | constant | an integer that is known before the first hit | int |
    | string | a string | the typed expression |
    | percentage | a number, which may have a fraction, or a string in quotes | str |
    | text | a string in quotes | str, with surrogate escapes for bytes that are not UTF-8 |
    | shown | anything that can be shown, a floating-point number too | the typed expression |
    | source | what `str()` takes | bytes of a text in the program or on the command line, else the typed expression |
    | word | one of `words`, bare | str, "" where it is left out |
    | mode | one of `words`, bare | str |
    | map | a map without a key that some clause assigns | its name |
    | map of values | a map whose keys have a single value, without a key | its name |
    | map or value | such a map, or anything else that can be computed with | its name, else the typed expression |
    | map or shown | such a map, or anything that can be shown | its name, else the typed expression |
    | type | a type, or an expression, which is not computed: its type | the type |
    | members | `a`, `a.b` | list of names |
    | key | the key of the map before it | its typed parts |
    | variable | a variable | itself |
    | value | anything that can be computed with | the typed expression |
    | bytes | a text in quotes, or anything else | bytes, NULs too, or the typed expression |
    | optional constant | a constant where there are as many arguments as places, else nothing | int |
    | element | `@map, key` or `@map[key]`, so one argument or two | (name, typed parts of the key) |
    """

    kind: str
    what: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call with checked arguments, from which the rule of a function makes a node.

    `args` hold what `Function.args` say, `spans` where each of them stands.
    """

    context: Context
    name: str
    span: Span
    args: list[Any]
    spans: list[Span]

    def error(self, message: str, span: Span, hint: str | None = None) -> None:
        """Reports a fault."""
        self.context.error(message, span, hint)

    def variable(self, name: str, declaration: object, type: Type) -> typed.Var:
        """A variable that no program can name; `declaration` is an object of the call, another for each variable."""
        variable = self.context.declare(f"${self.name}.{name}", declaration, self.span)
        self.context.facts.variable(variable.key).add(type, self.span)
        return typed.Var(type, self.span, variable.slot, variable.name)


def said(text: str) -> Callable[[Call], typed.Expr | tuple[typed.Stmt, ...] | None]:
    """The rule of a function that is said in the language: what the statements of the text do, or the value of its
    expression. `$1`, `$2`, … are the arguments, each of which is computed wherever it stands.
    """

    def rule(call: Call) -> typed.Expr | tuple[typed.Stmt, ...] | None:
        from tracer.lang.macros.said import evaluated

        return evaluated(call.context, text, call.span, call.args)

    return rule


@dataclass(frozen=True, slots=True)
class Value:
    """A built-in value such as `pid`; `type` is its type or finds it, `shown` its name in the reference.

    `node` is its node where that is no `typed.Builtin`. `lower`: how that becomes steps; without one it is what a hit
    says under its name. `needs`: of the backend, wherever it is used. `ours`: bpftrace 0.27.1 has none of that name;
    then an enumerator of that name is meant before it. `check`: whether it is known at the clause's sites; reports it
    otherwise.
    """

    name: str
    type: Type | Callable[[Context], Type]
    help: str
    example: str
    place: Place = "anywhere"
    shown: str = ""
    node: NodeClass | None = None
    needs: Feature | None = None
    ours: bool = False
    lower: Lower = lambda ctx, node: ctx.built_in(node.name, node.span)
    check: Callable[[Context, str, Span], bool] = lambda context, name, span: True


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    """A function: how it is called, what it takes and gives.

    `optional` of `args` may be left out at the end; the last is repeated where it is `variadic`. An "aggregation" is
    assigned to a map; a "statement" stands alone; a "value" is an expression. `rule` makes the typed node, or several
    of a statement, None where it has reported why there is none; with `partial` it also gets None for arguments without
    a type. Of a function without a rule the node is a `typed.Call` of type `type`. `fold(type, *values)` says in Python
    what constants give. `lower`: how its node becomes steps, a `typed.Call` or that of the class `node`; an operation:
    of the call's arguments. `needs`: of the backend, wherever it is used. `ours`: bpftrace 0.27.1 has none of that
    name. The value of one that `acts` may be left unused.
    """

    name: str
    role: Role
    call: str
    args: tuple[Parameter, ...]
    type: Type | None
    help: str
    example: str
    shown: str = ""
    optional: int = 0
    variadic: bool = False
    partial: bool = False
    acts: bool = False
    place: Place = "anywhere"
    aliases: tuple[str, ...] = field(default=())
    rule: Callable[[Call], typed.Expr | typed.Stmt | tuple[typed.Stmt, ...] | None] | None = None
    fold: Callable[..., int | bool | bytes] | None = None
    lower: Lower | Operation | None = None
    node: NodeClass | None = None
    needs: Feature | None = None
    ours: bool = False

    @property
    def least(self) -> int:
        """The fewest arguments."""
        return len(self.args) - self.optional

    @property
    def most(self) -> int:
        """The most arguments, -1 where there is no limit."""
        return -1 if self.variadic else len(self.args)
