"""The index of a key in an array (`dense`), as a C expression."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.bcc.codegen.c import C, binary, cast, choice
from tracer.backends.bcc.codegen.function import CFunction
from tracer.backends.bcc.codegen.operands import constant
from tracer.backends.bcc.codegen.placement import bare
from tracer.backends.bcc.codegen.wide import computed
from tracer.backends.bcc.maps.dense import Numbers, Texts, cut
from tracer.backends.bcc.maps.tables import Table
from tracer.lang.types import StringType, operations
from tracer.steps.model import Let
from tracer.steps.values import Name, Op, SiteText, Value

FIRST = C("0")
"""The place of the key of a map without one."""


def index_of(function: CFunction, table: Table, key: Sequence[Value]) -> C:
    """The number of a key among all of the table's grid."""
    assert table.grid is not None
    total: C = FIRST
    step = table.grid.count
    for part, kind, value in zip(table.grid.parts, table.decl.key, key, strict=True):
        step //= part.count
        if isinstance(part, Numbers):
            index = cast("u32", computed(function, value))
            if part.low:
                index = binary("-" if part.low > 0 else "+", index, C(f"{abs(part.low)}"), "u32")
        else:
            assert isinstance(kind, StringType)
            index = _text(function, part, kind, value)
        if index != FIRST:
            index = index if step == 1 else binary("*", index, C(f"{step}"), "u32")
            total = index if total == FIRST else binary("+", total, index, "u32")
    return total


def _text(function: CFunction, part: Texts, kind: StringType, value: Value) -> C:
    text = constant(function, value)
    if text is not None:
        bytes = cut(text, kind)
        return C(f"{part.texts.index(bytes) if bytes in part.texts else 0}")  # a clause without sites has no text
    match bare(value):
        case SiteText(name=name):
            word = function.shared.site_texts.place_word(name, kind, part)
            return cast("u32", C(f"SITE_WORD({word})"))
        case Op(op=operations.SELECT, args=(condition, then, otherwise)):
            one, other = (_text(function, part, kind, branch) for branch in (then, otherwise))
            return choice(computed(function, condition), one, other, "u32")
        case Name(id=id):
            step = function.placement.defined[id]
            assert isinstance(step, Let)
            return _text(function, part, kind, step.value)
        case _:
            raise AssertionError(f"{value} is no constant text")
