"""`vars` and `vars.name`: the variables of the program's text in scope at a probe, and where each is there; and `args`
at a probe that is no function's entry.

A clause has here only sites at which the asked variables are in the same place: see `check.variable_sites`.
"""

from __future__ import annotations

from tracer.errors import Span
from tracer.kinds.arch import native
from tracer.kinds.registry import kind_of
from tracer.kinds.site import FileSite
from tracer.lang import suggest, typed
from tracer.lang.check.expressions import memory
from tracer.lang.fold import cast, convert, fold, string
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    ArrayType,
    CharType,
    FloatType,
    IntType,
    StringType,
    TupleType,
    Type,
    is_block,
    memory_size,
)
from tracer.lang.types.combine import a_type
from tracer.lang.types.outside import INSIDE, Local, Piece, Tree

_KINDS = {"vars": "variable", "args": "parameter"}


def at_places(ctx: Context) -> bool:
    """Whether `args` means variables here: every probe is at a place inside a function, or a USDT probe."""
    unit = ctx.unit
    if ctx.types.outside is None or not unit.places or not unit.reads("probe"):
        return False
    return all(is_inside(ctx, site) for site in unit.places)


def is_inside(ctx: Context, site: FileSite) -> bool:
    """Whether parameters are not where a caller puts them, as they are at a function's entry."""
    if site.is_return_probe or site.is_at_return:
        return False
    assert ctx.types.outside is not None
    return not kind_of(site).enters or ctx.types.outside().parameters(site) == INSIDE


def whole(ctx: Context, word: str, span: Span) -> typed.Expr | None:
    """`vars`, or `args`: a record of all that can be read."""
    in_scope = _in_scope(ctx, word, span)
    if in_scope is None:
        return None
    if word == "args":
        in_scope = [local for local in in_scope if local.level == 0]
    if not in_scope:
        ctx.error(f"no {_KINDS[word]} is in scope here", span)
        return None
    named = [local for local in in_scope if not local.reason and _is_shown(ctx, local)]
    if not named:
        first = in_scope[0]
        names = ", ".join(local.name for local in in_scope)
        ctx.error(f"none of {names} can be read: {first.name} is {first.reason}", span)
        return None
    values = [_value(ctx, word, local, span) for local in named]
    items = [value for value in values if value is not None]
    if len(items) < len(values):
        return None
    fields = tuple(local.name for local in named)
    return typed.TupleExpr(TupleType(tuple(value.type for value in items), fields), span, tuple(items))


def named(ctx: Context, word: str, name: str, span: Span) -> typed.Expr | None:
    """`vars.name`, `args.name`."""
    in_scope = _in_scope(ctx, word, span)
    if in_scope is None:
        return None
    local = next((variable for variable in in_scope if variable.name == name), None)
    if local is not None:
        return _value(ctx, word, local, span)
    if word == "vars":
        assert ctx.types.outside is not None
        of_file = ctx.types.outside().variable(ctx.unit.places[0], name)
        if not isinstance(of_file, str):
            distance, type = of_file
            return memory.load(ctx, ctx.types.complete(type) or type, _tree(("here", distance), span), 0, span)
        if "thread-local" in of_file:
            ctx.error(f"vars.{name} cannot be read: {of_file}", span)
            return None
    names = [variable.name for variable in in_scope]
    hint = suggest.hint(name, names, f"there are {', '.join(names)}") if names else None
    ctx.error(f"no {_KINDS[word]} '{name}' is in scope here", span, hint)
    return None


def part(ctx: Context, path: list[ast.Field]) -> typed.Expr | None:
    """`vars.name.member` of a variable of which only some members can be read, if it is one; None elsewhere."""
    if ctx.types.outside is None or not ctx.unit.places:
        return None
    in_scope = ctx.types.outside().variables(ctx.unit.places[0])
    variables = in_scope if isinstance(in_scope, tuple) else ()
    local = next((variable for variable in variables if variable.name == path[0].name and not variable.hidden), None)
    if local is None or local.type is None or local.reference or not (local.reason and local.pieces):
        return None
    type, pieces = ctx.types.complete(local.type) or local.type, local.pieces
    held = [range(piece.offset, piece.offset + piece.size) for piece in pieces]
    return memory.held_member(ctx, path, type, held, lambda: _in_pieces(ctx, type, pieces, path[0].span))


def _in_scope(ctx: Context, word: str, span: Span) -> list[Local] | None:
    """The variables that a name can mean, the innermost first."""
    unit = ctx.unit
    if not unit.reads("probe"):
        ctx.untyped(f"{word} is not known in {unit.place}", span, f"{word} is for uprobe and usdt probes")
        return None
    if unit.until is not None or unit.closes:
        hint = "a clause of one of its probes knows it; a span has arg0, arg1, …"
        ctx.error(f"{word} is not known in a span", span, hint)
        return None
    if unit.reads("call") or any(site.is_return_probe or site.is_at_return for site in unit.places):
        hint = f"keep it from a line of the function: @v[tid] = {word}.name;"
        ctx.error(f"{word} is not known when the function returns", span, hint)
        return None
    if not unit.places or ctx.types.outside is None:
        ctx.error(f"{word} needs a place in a program, and there is none", span)
        return None
    site = unit.places[0]
    variables = ctx.types.outside().variables(site)
    if isinstance(variables, str):
        hint = "compile it with -g, or install its debug symbols"
        ctx.error(f"the variables at {site.shown} are not known: {variables}", span, hint)
        return None
    return [variable for variable in variables if not variable.hidden and (word == "vars" or variable.parameter)]


def _is_shown(ctx: Context, local: Local) -> bool:
    """Whether print() can show a variable of that type in a record."""
    type = local.type and (ctx.types.complete(local.type) or local.type)
    return isinstance(type, (IntType, FloatType)) or (type is not None and is_block(type) and memory_size(type) > 0)


def _value(ctx: Context, word: str, local: Local, span: Span) -> typed.Expr | None:
    what = f"{word}.{local.name} ({local.text})"
    if local.reason or local.type is None:
        hint = f"a member that is elsewhere can be: {word}.{local.name}.MEMBER" if local.pieces else None
        ctx.error(f"{what} cannot be read: {_why(ctx, local)}", span, hint)
        return None
    complete = ctx.types.complete(local.type)
    if local.reference:
        pointer = _in_pieces(ctx, memory.pointer_to(ctx, local.type), local.pieces, span)
        if complete is None or not (isinstance(complete, IntType) or is_block(complete)):
            return pointer
        return pointer and memory.load(ctx, complete, pointer, 0, span)
    return _in_pieces(ctx, complete or local.type, local.pieces, span)


def _why(ctx: Context, local: Local) -> str:
    """`optimised out at shop.c:41; readable at 38 and 44`."""
    assert ctx.types.outside is not None
    if not ctx.final:
        return local.reason
    lines = ctx.types.outside().readable(ctx.unit.places[0], local.name)
    text = f"{local.reason} at {lines.here}" if lines.here else local.reason
    if local.early and lines.after:
        return f"{text}; readable from {lines.here.rpartition(':')[0]}:{lines.after}"
    near = [str(line) for line in (lines.before, lines.after) if line]
    return f"{text}; readable at {' and '.join(near)}" if near else f"{text}, and at no other line of the function"


# --- places as expressions


def _in_pieces(ctx: Context, type: Type, pieces: tuple[Piece, ...], span: Span) -> typed.Expr | None:
    """A value of a type by its pieces."""
    if len(pieces) == 1 and pieces[0].memory and not pieces[0].offset:
        return memory.load(ctx, type, _tree(pieces[0].tree, span), 0, span)
    if isinstance(type, (IntType, FloatType)) and len(pieces) == 1:
        number = _tree(pieces[0].tree, span)
        if isinstance(type, IntType):
            return cast(number, type)
        return typed.Cast(type, span, convert(number, IntType(type.bits, False)))
    if isinstance(type, IntType):
        return cast(_joined(pieces, span), type)
    if not is_block(type):
        ctx.error(f"this is {a_type(type)} in {len(pieces)} places, which cannot be read", span)
        return None
    items: list[typed.Expr] = []
    end = 0
    for piece in sorted(pieces):
        items += [typed.IntLit(IntType(8, False), span, 0)] * (piece.offset - end)
        done = 0
        while done < piece.size:
            size = next(width for width in (8, 4, 2, 1) if width <= piece.size - done)
            items.append(_part(piece, done, size, span))
            done += size
        end = piece.offset + piece.size
    items += [typed.IntLit(IntType(8, False), span, 0)] * (memory_size(type) - end)
    packed = typed.Pack(type, span, tuple(items))
    if isinstance(type, ArrayType) and isinstance(type.item, CharType):
        return typed.Part(StringType(type.count + 1), span, packed, typed.IntLit(UINT64, span, 0))
    return packed


def _joined(pieces: tuple[Piece, ...], span: Span) -> typed.Expr:
    """An integer in several pieces, as one of 64 bits is in a 32-bit program."""
    value: typed.Expr = typed.IntLit(UINT64, span, 0)
    for piece in pieces:
        whole = convert(_part(piece, 0, piece.size, span), UINT64)
        moved = typed.Binary(UINT64, span, "<<", whole, typed.IntLit(UINT64, span, 8 * piece.offset))
        value = fold(typed.Binary(UINT64, span, "|", value, fold(moved)))
    return value


def _part(piece: Piece, start: int, size: int, span: Span) -> typed.Expr:
    """Some bytes of a piece."""
    tree, type = _tree(piece.tree, span), IntType(8 * size, False)
    if piece.memory:
        address = fold(typed.Binary(UINT64, span, "+", tree, typed.IntLit(UINT64, span, start))) if start else tree
        return typed.Load(type, span, address)
    word = fold(typed.Binary(UINT64, span, ">>", tree, typed.IntLit(UINT64, span, 8 * start))) if start else tree
    return convert(word, type)


def _tree(tree: Tree, span: Span) -> typed.Expr:
    """A place as an expression of uint64."""
    match tree:
        case ("reg", name):
            return typed.Call(UINT64, span, "reg", (string(name.encode(), span),))
        case ("const", number):
            return typed.IntLit(UINT64, span, number % (1 << 64))
        case ("here", distance):
            arch = native()
            here = "ip" if arch is None or "ip" in arch.registers else "pc"
            return _tree(("+", ("reg", here), ("const", distance)), span)
        case ("read", size, address):
            return convert(typed.Load(IntType(8 * size, False), span, _tree(address, span)), UINT64)
        case ("cast", bits, signed, inner):
            return convert(cast(_tree(inner, span), IntType(bits, bool(signed))), UINT64)
        case (op, left, right):
            type = INT64 if op[-1] == "s" else UINT64
            op = op.removesuffix("s")
            sides = convert(_tree(left, span), type), convert(_tree(right, span), type)
            result = BOOL if op in ("==", "!=", "<", ">", "<=", ">=") else type
            return convert(fold(typed.Binary(result, span, op, *sides)), UINT64)
    raise AssertionError(tree)
