"""Functions that print."""

from __future__ import annotations

from collections.abc import Callable

from tracer.lang import typed
from tracer.lang.builtins import formats
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.types import IntType, PointerType
from tracer.lang.types.combine import a_type


def formatted(call: Call, output: typed.Output | None = None) -> typed.Printf | None:
    """A format with its values, and what becomes of the text: without an `output` it is printed."""
    text, *values = call.args
    if text is None:
        return None
    parsed = list(formats.conversions(text))
    faults = [fault for fault in map(formats.fault, parsed) if fault is not None]
    for message, hint in faults:
        call.error(message, call.spans[0], hint)
    if faults:
        return None
    wanted: list[tuple[formats.Conversion, bool]] = []
    """What the values are for: a conversion, and whether as the number of a `*` in it."""
    for conversion in parsed:
        if conversion.kind != "%":
            wanted += [(conversion, True)] * conversion.stars + [(conversion, False)]
    invalid = formats.conversions(text, valid=False)
    strays = [conversion.text.encode("unicode_escape").decode() for conversion in invalid]
    for stray in strays:
        if len(wanted) == len(values):
            call.context.warn(f"'{stray}' is not a conversion: shown as it is", call.spans[0], "%% is a percent sign")
        else:
            listed = "known are %d %i %u %x %X %o %c %p %f %e %g %s and %%"
            call.error(f"unknown conversion '{stray}'", call.spans[0], listed)
    if strays and len(wanted) != len(values):
        return None
    if len(wanted) != len(values):
        takes = f"the format takes {len(wanted)} value{'s' if len(wanted) != 1 else ''}, {len(values)} given"
        hint = "each value needs a conversion, such as %d"
        if len(values) < len(wanted):
            hint = "give a value for each conversion; %% is a percent sign"
        call.error(takes, call.span, hint)
        return None
    for (conversion, starred), value in zip(wanted, values, strict=True):
        if value is None:
            return None
        if starred and (not isinstance(value.type, IntType) or isinstance(value.type, PointerType)):
            call.error(f"the * of '{conversion.text}' takes an integer, not {a_type(value.type)}", value.span)
            return None
        if not starred and not formats.accepts(conversion.kind, value.type):
            hint = formats.fitting(value.type)
            call.error(f"'{conversion.text}' cannot show {a_type(value.type)}", value.span, hint)
            return None
    index = call.context.format_index(text, tuple(value.type for value in values), output)
    return typed.Printf(call.span, index, tuple(values))


def _system(call: Call) -> typed.Stmt | None:
    return formatted(call, typed.Output("system", call.span)) if allowed(call) else None


def allowed(call: Call) -> bool:
    """Whether --unsafe was given; reports it otherwise."""
    if not call.context.config.unsafe:
        message = f"{call.name}() is unsafe: it acts on the machine or the traced program"
        call.error(message, call.span, "--unsafe allows it")
    return call.context.config.unsafe


def _print(call: Call) -> typed.Stmt | None:
    shown, *numbers = call.args
    if isinstance(shown, typed.Expr):
        if numbers:
            hint = "print((a, b)) prints several values"
            call.error("only print() of a map takes more arguments", call.span, hint)
            return None
        return typed.PrintValue(call.span, call.context.shape_index(shown.type), shown)
    top, div = (*numbers, 0, 0)[:2]
    if top < 0 or div < 0 or max(top, div) >= 1 << 63:
        call.error("the numbers of print() must not be negative", call.span, "write print(@map, top, div)")
        return None
    return typed.PrintMap(call.span, shown, top, div)


def formatting(name: str, help: str, example: str, rule: Callable[[Call], typed.Stmt | None]) -> BuiltinFunction:
    """A function of a format and values to show."""
    return BuiltinFunction(
        name, "statement", f"{name}(format, …)", (Parameter("text", f"the format of {name}()"), Parameter("shown")),
        None,
        help, example, optional=1, variadic=True, partial=True, rule=rule,
    )  # fmt: skip


FUNCTIONS = (
    formatting("printf", "prints values as C's printf does", 'printf("%d %s\\n", arg0, comm);', formatted),
    formatting(
        "cat", "prints the file of that name as it is when the hit is shown", 'cat("/proc/%d/cmdline", pid);',
        lambda call: formatted(call, typed.Output("cat", call.span)),
    ),
    formatting(
        "system", "runs a command in a shell when the hit is shown, and prints what it prints; needs --unsafe",
        'system("ps -p %d", pid);', _system,
    ),
    BuiltinFunction(
        "print", "statement", "print(value) or print(@map[, top[, div]])",
        (Parameter("map or shown"), *(Parameter("constant", f"the {word} of print()") for word in ("top", "div"))),
        None,
        "prints a value or a map", "print(@x, 10);", optional=2, rule=_print,
    ),
)  # fmt: skip
