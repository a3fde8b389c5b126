"""`retval` where its register says too little: results in two registers, and types by debug information."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.errors import Span
from tracer.kinds.site import FileSite
from tracer.lang import typed
from tracer.lang.builtins.hit.probe import FEW
from tracer.lang.fold import cast, string
from tracer.lang.scope.context import Context
from tracer.lang.types import UINT8, UINT64, BoolType, EnumType, IntType, PointerType, Type


def has_type(context: Context) -> bool:
    """Whether `retval` has the type of debug information: in a uretprobe it is bpftrace's uint64, unless the program
    says otherwise.
    """
    return context.config.typed_retval or context.unit.reads("call")


def of_functions(context: Context, span: Span) -> typed.Expr:
    """`retval`, of the type that all functions of the clause return, else the uint64 that is in the register."""
    unit = context.unit
    places = {site.probe: site for site in (unit.until or unit).places}
    whole = _in_two(context, [*places.values()], span) or typed.Retval(UINT64, span)
    if not has_type(context) or context.types.outside is None or not 0 < len(places) <= FEW:
        return whole
    outside = context.types.outside()
    types = {shown: outside.result_type(site) for shown, site in places.items()}
    type, *others = types.values()
    if any(other != type for other in others):
        _warn_of_types(context, types, span)
        return whole
    if isinstance(type, BoolType):
        return cast(cast(whole, UINT8), type)  # the ABI says nothing of the register's other bytes
    return cast(whole, type) if isinstance(type, IntType) and type.bits <= 64 else whole


def _warn_of_types(context: Context, types: dict[str, Type | str], span: Span) -> None:
    """Where one type is signed or narrow, and another is not that, a number of it looks like another."""
    numbers = {
        shown: f"{type}" for shown, type in types.items()
        if isinstance(type, IntType) and not isinstance(type, PointerType | EnumType)
    }  # fmt: skip
    if len(set(numbers.values())) < 2:
        return
    (one, type), *others = numbers.items()
    other, another = next(pair for pair in others if pair[1] != type)
    what = f"retval is {type} in {one} and {another} in {other}: here it is uint64, the whole register"
    context.warn(what, span, "write a clause for each type, or a cast")


def _in_two(context: Context, places: Sequence[FileSite], span: Span) -> typed.Expr | None:
    """`retval` of 32-bit functions that return 64 bits; None of others."""
    narrow = {site.probe: site for site in places if site.word == 4} if min(context.words) < 8 else {}
    if not narrow or context.types.outside is None or len(narrow) > FEW:
        return None
    outside = context.types.outside()
    wide = [name for name, site in narrow.items() if outside.is_in_two(site)]
    other = next((site.probe for site in places if site.probe not in wide), None)
    if not wide:
        return None
    if other is not None:
        what = f"the retval of {wide[0]} is in two registers, and that of {other} in one"
        context.error(what, span, "write a clause for each of them")
        return None
    high = typed.Call(UINT64, span, "reg", (string(b"dx", span),))
    above = typed.Binary(UINT64, span, "<<", high, typed.IntLit(UINT64, span, 32))
    low = typed.Binary(UINT64, span, "&", typed.Retval(UINT64, span), typed.IntLit(UINT64, span, (1 << 32) - 1))
    return typed.Binary(UINT64, span, "|", above, low)
