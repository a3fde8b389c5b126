"""The place of a key in an array (`dense`), as a C expression."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.bcc.codegen import expressions
from tracer.backends.bcc.codegen.frame import Frame
from tracer.backends.bcc.maps.dense import Numbers, Texts, cut, text_of_site
from tracer.backends.bcc.maps.tables import Table
from tracer.lang.typed import Builtin, Cast, Expr, StrLit, Ternary
from tracer.lang.types import StringType


def place(frame: Frame, table: Table, key: Sequence[Expr]) -> str:
    """The number of a key among all of the table's grid; "0" for a map without key."""
    assert table.grid is not None
    terms: list[str] = []
    step = table.grid.count
    for part, kind, expr in zip(table.grid.parts, table.decl.key, key, strict=True):
        step //= part.count
        if isinstance(part, Numbers):
            at = _number(frame, part, expr)
        else:
            assert isinstance(kind, StringType)
            at = _text(frame, part, kind, expr)
        # What follows may wait for a page; a part is what it was at its turn.
        at = at if at.isdigit() else frame.temporary("u32", at, "place")
        if at != "0":
            terms.append(at if step == 1 else f"{at} * {step}")
    return " + ".join(terms) or "0"


def _number(frame: Frame, part: Numbers, expr: Expr) -> str:
    value = expressions.value(frame, expr)
    if part.low == 0:
        return f"(u32)({value})"
    return f"(u32)({value}) - {part.low}" if part.low > 0 else f"(u32)({value}) + {-part.low}"


def _text(frame: Frame, part: Texts, kind: StringType, expr: Expr) -> str:
    match expr:
        case StrLit(value=text):
            return f"{part.texts.index(cut(text, kind))}"
        case Builtin(name=name):
            if frame.many:
                return f"(u32)SITE_WORD({frame.shared.site_texts.place_word(name, kind, part)})"
            return f"{part.texts.index(text_of_site(frame.variant, name, kind))}"
        case Cast(operand=operand):
            return _text(frame, part, kind, operand)
        case Ternary():
            name = frame.temporary("u32", "0", "place")
            with frame.block(f"if ({expressions.truth(frame, expr.condition)})"):
                frame.line(f"{name} = {_text(frame, part, kind, expr.then)};")
            with frame.block("else"):
                frame.line(f"{name} = {_text(frame, part, kind, expr.otherwise)};")
            return name
        case _:
            raise AssertionError(f"{type(expr).__name__} is no constant text")
