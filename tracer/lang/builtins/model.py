"""What the object of a built-in says.

Who adds a function writes one `Function` in the module of its family, and a test. The checker asks it for its arguments
and its rule, the parser for its name, the reference page for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from tracer.dataclass import dataclass, field
from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.types import Type

if TYPE_CHECKING:
    from tracer.lang.check.context import Context

Place = Literal["anywhere", "probe", "return"]
"""Where a built-in may be used: everywhere; where a probe is hit; where a function returns."""

Role = Literal["value", "statement", "aggregation"]


@dataclass(frozen=True, slots=True)
class Argument:
    """What a function takes in one place, and what its rule gets for it. `what` names it in messages.

    | kind | takes | the rule gets |
    |---|---|---|
    | integer | an integer or bool | the typed expression |
    | unsigned | an integer or bool | the typed expression as uint64 |
    | constant | an integer that is known before the first hit | int |
    | string | a string | the typed expression |
    | text | a string in quotes | str, with surrogate escapes for bytes that are not UTF-8 |
    | shown | anything that can be shown, a floating-point number too | the typed expression |
    | source | what `str()` takes | bytes of a text in the program or on the command line, else the typed expression |
    | word | one of `words`, bare | str, "" where it is left out |
    | map | a map without a key that some clause assigns | its name |
    | map or value | such a map, or anything else that can be computed with | its name, else the typed expression |
    | map or shown | such a map, or anything that can be shown | its name, else the typed expression |
    | key | the key of the map before it | its typed parts |
    | element | `@map, key` or `@map[key]`, so one argument or two | (name, typed parts of the key) |
    """

    kind: str
    what: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call whose arguments are checked: what the rule of a function makes a node of.

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


@dataclass(frozen=True, slots=True)
class Value:
    """A built-in value such as `pid`; `type` is its type or finds it, `shown` its name in the reference.

    `make` gives its node where that is no `typed.Builtin`. `lower`: how it becomes steps.
    """

    name: str
    type: Type | Callable[[Context], Type]
    help: str
    example: str
    place: Place = "anywhere"
    shown: str = ""
    make: Callable[[Type, Span], typed.Expr] | None = None
    lower: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function: how it is called, what it takes and gives.

    `optional` of `args` may be left out at the end; the last is repeated where it is `variadic`. An "aggregation" is
    assigned to a map; a "statement" stands alone; a "value" is an expression. `rule` makes the typed node, None where
    it has reported why there is none; with `partial` it also gets None for arguments without a type. Of a function
    without a rule the node is a `typed.Call` of type `type`. `fold(type, *values)` says in Python what constants give.
    `lower`: how a `typed.Call` becomes steps.
    """

    name: str
    role: Role
    call: str
    args: tuple[Argument, ...]
    type: Type | None
    help: str
    example: str
    shown: str = ""
    optional: int = 0
    variadic: bool = False
    partial: bool = False
    place: Place = "anywhere"
    aliases: tuple[str, ...] = field(default=())
    rule: Callable[[Call], typed.Expr | typed.Stmt | None] | None = None
    fold: Callable[..., int | bool | bytes] | None = None
    lower: Callable[..., Any] | None = None

    @property
    def least(self) -> int:
        """The fewest arguments."""
        return len(self.args) - self.optional

    @property
    def most(self) -> int:
        """The most arguments, -1 where there is no limit."""
        return -1 if self.variadic else len(self.args)
