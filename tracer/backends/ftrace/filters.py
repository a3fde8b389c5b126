"""The part of a predicate that the kernel's event filter expresses exactly.

A hit that the kernel drops must be one for which user space would have found the predicate false, without counting
anything as unreadable on the way. So the parts of the `&&` chain are taken up to the first one that could fail, and of
these the comparisons with constants: of numbers from registers, and of `comm`; and `arg0 & 4`, `(int32)arg0 < 0`. The
filter compares numbers in the field's own size and sign (`trace/events.rst`), so the constant must fit it, and the
order of the values must be the same there as in the type of the comparison. It does not compare two fields.

What the kernel could test too, but not as we do:

* A string in memory. Where it cannot be read the filter compares what happens to stand in the event's buffer, and a hit
  that it drops can no longer be counted as unreadable.
* `pid`, `tid`. `common_pid` is the thread, and numbered in the first pid namespace, which may not be ours.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.backends.ftrace.fetchargs import (
    ChildPid,
    Constant,
    FromSample,
    Number,
    Source,
    ThreadName,
    ToldName,
)
from tracer.dataclass import dataclass
from tracer.kernel.uprobe_events.events import Fetch
from tracer.lang.types import IntType, operations
from tracer.steps import model as steps_model
from tracer.steps.model import Let, MapGet, Require, Step, Steps
from tracer.steps.values import BuiltIn, Const, Op, Value

SourceOf = Callable[[Value], Source | None]
"""Where a name's value comes from; None for anything else, and for what is no fetch."""

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}

_LONGEST_NAME = 15  # TASK_COMM_LEN less the NUL


@dataclass(frozen=True, slots=True)
class Filter:
    """An event filter; `whole` if nothing of the predicate is left to user space."""

    text: str
    whole: bool


def push_down(
    steps: Steps, source_of: SourceOf, fetches: tuple[Fetch, ...]
) -> tuple[Filter | None, tuple[Require, ...]]:
    """The filter for as much of the predicate as goes (None where nothing does), and the parts that it leaves."""
    conditions = [step for step in steps.body if isinstance(step, Require)]
    texts: list[str] = []
    remaining: list[Require] = []
    for step in steps.body:
        if len(texts) + len(remaining) == len(conditions):
            break
        if isinstance(step, Require):
            text = _text(step.condition, source_of, fetches)
            if text is None:
                remaining.append(step)
            else:
                texts.append(text)
        elif not _cannot_fail(step, source_of):
            remaining += conditions[len(texts) + len(remaining) :]
            break
    return Filter(" && ".join(texts), not remaining) if texts else None, tuple(remaining)


def _cannot_fail(step: Step, source_of: SourceOf) -> bool:
    """Whether a step does nothing but give a value, at every hit: then later conditions may be tested before it."""
    if not isinstance(step, steps_model.Fetch):
        return isinstance(step, (Let, MapGet))
    match source_of(step.name):
        case Number(guard=None) | ThreadName() | ToldName() | FromSample() | ChildPid():
            return True
        case Constant(value):
            return value is not None
    return step.unused or step.source == BuiltIn("started")


def _text(value: Value, source_of: SourceOf, fetches: tuple[Fetch, ...]) -> str | None:
    match value:
        case Op(op=operations.BOTH | operations.EITHER as op, args=(left, right)):
            first, second = _text(left, source_of, fetches), _text(right, source_of, fetches)
            return None if first is None or second is None else f"({first} {op.sign} {second})"
        case Op(op=operations.NOT, args=(Op(op=operations.SAME, args=(left, right)),)):
            return _named("!=", left, right, source_of) or _named("!=", right, left, source_of)
        case Op(op=operations.NOT, args=(operand,)):
            inner = _text(operand, source_of, fetches)
            return None if inner is None else f"!({inner})"
        case Op(op=operations.SAME, args=(left, right)):
            return _named("==", left, right, source_of) or _named("==", right, left, source_of)
        case Op(op=op, args=(left, right)) if op in operations.COMPARISONS.values():
            if (text := _comparison(op.sign, left, right, source_of, fetches)) is not None:
                return text
            return _comparison(_MIRRORED[op.sign], right, left, source_of, fetches)
    return None


def _named(op: str, left: Value, right: Value, source_of: SourceOf) -> str | None:
    """`comm == "app"`. The filter compares the whole name, wildcards are none there; it has no way to escape quotes."""
    left, right = plain(left), plain(right)
    if not isinstance(right, Const) or not isinstance(right.value, bytes):
        return None
    source = source_of(left)
    if not isinstance(source, ThreadName) and not (isinstance(source, ToldName) and source.late):
        return None  # of samples there is no filter
    name = right.value.decode("ascii", "replace")
    if len(name) > _LONGEST_NAME or not name.isascii() or not name.isprintable() or set(name) & set("\"'\\"):
        return None
    return f'COMM {op} "{name}"'


def _comparison(op: str, left: Value, right: Value, source_of: SourceOf, fetches: tuple[Fetch, ...]) -> str | None:
    type, uncut = left.type, _uncut(plain(left), source_of, fetches)
    source = source_of(uncut)
    if not isinstance(right, Const) or not isinstance(type, IntType) or type.bits != 64:
        return None
    if right.value == 0 and isinstance(uncut, Op):
        return _of_bits(op, uncut, source_of, fetches)
    if not isinstance(source, Number) or source.guard is not None:
        return None
    fetch, constant = fetches[source.fetch], int(right.value)
    if _is_memory(fetch):
        return None
    signed, bits = fetch.type[0] == "s", int(fetch.type[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if type.signed or not signed:
        value = constant
    else:
        # Sign-extended and read as unsigned: equal numbers stay equal, but the order is another.
        if op not in ("==", "!="):
            return None
        value = constant - (1 << 64) if constant >> 63 else constant
    if type.signed and not signed and bits == 64:
        if op not in ("==", "!="):
            return None
        value = constant & high
    return f"{fetch.name(source.fetch)} {op} {value}" if low <= value <= high else None


def _uncut(value: Value, source_of: SourceOf, fetches: tuple[Fetch, ...]) -> Value:
    """A value without a cast that cuts nothing, since what is fetched has that size and sign."""
    if isinstance(value, Op) and value.op is operations.WRAP and is_word(value.type):
        (narrow,) = value.args
        inner = _uncut(narrow, source_of, fetches)
        return value if inner is narrow else inner
    if isinstance(value, Op) and value.op is operations.WRAP and isinstance(value.type, IntType):
        inner = plain(value.args[0])
        source = source_of(inner)
        if isinstance(source, Number):
            fits = fetches[source.fetch].type == f"{'s' if value.type.signed else 'u'}{value.type.bits}"
            return inner if fits else value
    return value


def _of_bits(op: str, tested: Op, source_of: SourceOf, fetches: tuple[Fetch, ...]) -> str | None:
    """`(arg0 & 4) == 0`, `(int32)arg0 < 0`: whether any of some bits is set, which is what the filter's `&` tells. None
    for bits that its field has not, or that its sign is in: where the number is extended, these are others.
    """
    name: Value | None = None
    mask = 0
    if tested.op is operations.AND:
        name, constant = tested.args if isinstance(tested.args[1], Const) else tested.args[::-1]
        mask = int(constant.value) if isinstance(constant, Const) else 0
    elif tested.op is operations.WRAP and isinstance(cast := tested.args[0], Op) and cast.op is operations.WRAP:
        assert isinstance(cast.type, IntType)
        (name,), narrow = cast.args, cast.type.bits
        mask = (1 << narrow) - 1
        if cast.type.signed and op in ("<", ">="):
            op, mask = "!=" if op == "<" else "==", 1 << narrow - 1
    if name is None or op not in ("==", "!=") or not is_word(name.type):
        return None
    source = source_of(plain(name))
    if not isinstance(source, Number) or source.guard is not None or _is_memory(fetches[source.fetch]):
        return None
    fetch = fetches[source.fetch]
    if not 0 < mask < 1 << int(fetch.type[1:]) - (fetch.type[0] == "s"):
        return None
    text = f"{fetch.name(source.fetch)} & {mask}"
    return text if op == "!=" else f"!({text})"


def _is_memory(fetch: Fetch) -> bool:
    """Whether it is 0 where it cannot be read, or no part of the event."""
    return fetch.beside or "(" in fetch.place or "@" in fetch.place


def plain(value: Value) -> Value:
    """A value without casts between 64-bit integers, whose bits stay, and between widths of strings."""
    while isinstance(value, Op) and value.op in (operations.WRAP, operations.AS):
        (inner,) = value.args
        if value.op is operations.WRAP and not (is_word(value.type) and is_word(inner.type)):
            break
        value = inner
    return value


def is_word(type: object) -> bool:
    """Whether values of a type are integers of 64 bits."""
    return isinstance(type, IntType) and type.bits == 64
