"""`join()`: prints the strings that an array of pointers leads to, as `argv` does."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.fold import constant, convert
from tracer.lang.types import BOOL, UINT64, IntType, StringType
from tracer.lang.types.combine import a_type

MOST = 16
"""Strings, as in bpftrace."""


def _join(call: Call) -> tuple[typed.Stmt, ...] | None:
    """An `if` for each pointer, in the one before: where an array has its end is only known at the hit."""
    context, array, (separator,) = call.context, call.args[0], call.args[1:] or (" ",)
    if not isinstance(array.type, IntType):
        call.error(f"join() needs the address of an array of pointers, not {a_type(array.type)}", array.span)
        return None
    nothing = constant(array) == 0
    if not nothing and not context.reads_memory(call.span, "join them where the probe is hit", array):
        return None
    start = call.variable("array", call.spans[0], UINT64)
    kept = typed.VarSet(call.span, start.slot, convert(array, UINT64))
    text = StringType(context.config.max_strlen)
    zero = typed.IntLit(UINT64, call.span, 0)

    def prints(strings: tuple[typed.Expr, ...]) -> tuple[typed.Stmt, ...]:
        format = separator.replace("%", "%%").join(["%s"] * len(strings))
        index = context.format_index(format, tuple(string.type for string in strings), typed.Output("join", call.span))
        return (typed.Printf(call.span, index, strings),)

    def after(strings: tuple[typed.Expr, ...]) -> tuple[typed.Stmt, ...]:
        if len(strings) == MOST:
            return prints(strings)
        offset = typed.IntLit(UINT64, call.span, 8 * len(strings))
        place = typed.Binary(UINT64, call.span, "+", start, offset) if strings else start
        pointer = typed.Load(UINT64, call.span, place)
        there = typed.Binary(BOOL, call.span, "!=", pointer, zero)
        string = typed.Str(text, call.span, pointer, False, None)
        # Read here, and shared by all that print it: else each of them would read it anew.
        more = (typed.ExprStmt(call.span, string), *after((*strings, string)))
        return (typed.If(call.span, there, more, prints(strings)),)

    if nothing:
        return prints(())
    given = typed.Binary(BOOL, call.span, "!=", start, zero)
    return kept, typed.If(call.span, given, after(()), prints(()))


FUNCTIONS = (
    BuiltinFunction(
        "join", "statement", "join(array[, separator])",
        (Parameter("value"), Parameter("text", "the separator of join()")), None,
        f"prints the first {MOST} strings that an array of pointers points to, up to a null pointer",
        'join(arg1, ",");', optional=1, rule=_join,
    ),
)  # fmt: skip
