"""Memory of the hit process as values: what pointers lead to, members and elements.

A place is an address and a type, so `$p->a.b[2]` is one read at `$p` and a constant. Of a struct or array that has been
read already, in a variable, a map or a tuple, the same names give parts of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.fold import bits, cast, constant, convert, fold, laid_out, literal
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import (
    BOOL,
    UINT64,
    ArrayType,
    BoolType,
    CharType,
    FloatType,
    IntType,
    NamedType,
    PointerType,
    StringType,
    StructType,
    Type,
    VariablePointer,
    is_block,
    memory_size,
)
from tracer.lang.types.combine import a_type, join
from tracer.lang.types.sizes import placed_words

_BYTE = IntType(8, False)
_MOST_WHOLE = 256
"""Bytes of an array in memory that is read as a whole, where an element of it is known only at the hit. One of one
element can be the start of more, as structs of C have them at their end.
"""

MOST_BYTES = 1 << 16
"""Of a value that is taken apart."""


def pointed(ctx: Context, operand: typed.Expr, span: Span) -> typed.Expr | None:
    """`*operand`: of an integer that is no pointer, the uint64 there."""
    if not isinstance(operand.type, IntType):
        ctx.error(f"'*' needs an address, not {a_type(operand.type)}", operand.span)
        return None
    target = UINT64 if not isinstance(operand.type, PointerType) else _target(ctx, operand)
    return None if target is None else load(ctx, target, operand, 0, span)


def held_member(
    ctx: Context, path: Sequence[ast.Field], type: Type, held: Iterable[range], make: Callable[[], typed.Expr | None]
) -> typed.Expr | None:
    """The member that `path` leads to, behind its first name, in a value of a type of which only the bytes that are
    `held` can be read; `make` makes the value. None where the path leads to no member, or to one that is not held.
    """
    start = 0
    for step in path[1:]:
        field = type.field(step.name) if isinstance(type, StructType) else None
        if field is None:
            return None
        start, type = start + field.offset, ctx.types.complete(field.type) or field.type
    if not set().union(*held).issuperset(range(start, start + memory_size(type))):
        return None
    value = make()
    for step in path[1:]:
        value = value and member(ctx, value, step.name, step.span)
    return value


def member(ctx: Context, operand: typed.Expr, name: str, span: Span) -> typed.Expr | None:
    """`operand.name`, `operand->name`."""
    type = _target(ctx, operand) if isinstance(operand.type, PointerType) else operand.type
    if type is None:
        return None
    if not isinstance(type, StructType):
        ctx.error(f"{a_type(type)} has no members", span, f"cast it: ((struct name *){ctx.text(operand.span)})->{name}")
        return None
    field = type.field(name)
    if field is None:
        names = [field.name for field in type.fields if field.name]
        from tracer.lang import suggest

        listed = suggest.listed(names, "none is known: it is empty or only declared")
        ctx.error(f"{type.name} has no member '{name}'", span, suggest.hint(name, names, listed))
        return None
    if len(places := [str(twin.offset) for twin in type.fields if twin.name == name]) > 1:  # of several base classes
        what = f"{type.name} has several members '{name}', at its bytes {' and '.join(places)}"
        ctx.error(what, span, "read the one that you mean at its address, as in *(int32 *)(arg0 + 4)")
        return None
    holder = IntType(8, False) if field.width and isinstance(field.type, BoolType) else field.type
    if field.width and 0 < type.size - field.offset < memory_size(holder):
        value = _in_parts(ctx, operand, field.offset, type.size - field.offset, span)
    else:
        value = _value_at(ctx, holder, operand, _constant(field.offset, span), span)
    return value if value is None or not field.width else bits(value, field, span)


def _in_parts(ctx: Context, operand: typed.Expr, start: int, size: int, span: Span) -> typed.Expr | None:
    """The integer in the last bytes of a packed struct, where they are not as many as an integer has."""
    whole: typed.Expr = _constant(0, span)
    for offset, part in placed_words(size):
        part_value = _value_at(ctx, IntType(8 * part, False), operand, _constant(start + offset, span), span)
        if part_value is None:
            return None
        moved = typed.Binary(UINT64, span, "<<", convert(part_value, UINT64), _constant(8 * offset, span))
        whole = fold(typed.Binary(UINT64, span, "|", whole, fold(moved)))
    return whole


def element(ctx: Context, operand: typed.Expr, index: typed.Expr, span: Span) -> typed.Expr | None:
    """`operand[index]`: of an array, with an index inside it, or of what a pointer leads to."""
    if isinstance(operand.type, PointerType):
        item = _target(ctx, operand)
        return None if item is None else _value_at(ctx, item, operand, scaled(ctx, index, item), span)
    in_memory = isinstance(operand, typed.Load) or (isinstance(operand, typed.Str) and operand.array)
    if isinstance(operand.type, ArrayType):
        item, count = operand.type.item, operand.type.count
        what = a_type(operand.type)
    elif isinstance(operand.type, StringType):
        is_array = isinstance(operand, typed.Part) or in_memory
        item, count = CharType(), operand.type.size - is_array
        what = f"a char[{count}]" if is_array else f"{a_type(operand.type)} of {count} bytes"
    else:
        ctx.error(f"{a_type(operand.type)} has no elements", span, "arrays, pointers, tuples and strings have")
        return None
    if not in_memory or count > 1:  # one of one item, or of none, can be the start of more
        inside = _inside(ctx, index, count, what)
        if inside is None:
            return None
        index = inside
    offset, position = scaled(ctx, index, item), constant(index)
    if isinstance(operand.type, StringType) and not (in_memory or isinstance(operand, typed.Part)):
        if position is not None and isinstance(operand, typed.StrLit):
            return cast(literal((operand.value + b"\0")[position], span), CharType())
        return typed.Part(CharType(), span, operand, offset)
    if in_memory and position is None and count > 1 and count * memory_size(item) <= _MOST_WHOLE:  # no computed address
        if isinstance(operand, typed.Str):
            operand = typed.Load(ArrayType(_BYTE, count), operand.span, operand.address)
        return typed.Part(_shown(item), span, operand, offset)
    if isinstance(operand, typed.Str):
        return load(ctx, item, operand.address, offset, span)
    return _value_at(ctx, item, operand, offset, span)


def _inside(ctx: Context, index: typed.Expr, count: int, what: str) -> typed.Expr | None:
    """An index of so many elements: a constant one is checked here, any other at the hit."""
    position = constant(index)
    if position is None:
        number = index if isinstance(index.type, IntType) else convert(index, UINT64)
        return typed.Within(number.type, index.span, number, count)
    if 0 <= position < count:
        return index
    ctx.error(f"there is no element {position} in {what}", index.span, "elements are counted from 0")
    return None


def scaled(ctx: Context, count: typed.Expr, item: Type) -> typed.Expr:
    """Multiplies an index by the size of a type: bytes, as uint64."""
    size = step(ctx, PointerType(target=item))
    return fold(typed.Binary(UINT64, count.span, "*", convert(count, UINT64), _constant(size, count.span)))


def step(ctx: Context, type: Type, span: Span | None = None) -> int:
    """The step of `++`: for a pointer the size of what it leads to. With `span` it is reported there that nobody knows
    that size.
    """
    if not isinstance(type, PointerType) or type.target is None:
        return 1
    complete = ctx.types.complete(type.target)
    if complete is None and span is not None:
        _undeclared(ctx, type.target, span)
    return memory_size(complete or UINT64)


def _undeclared(ctx: Context, target: Type, span: Span) -> None:
    assert isinstance(target, NamedType)
    from tracer.lang import suggest

    hint = suggest.hint(target.name, ctx.types.types, f"declare it before the first probe: {target.name} {{ … }};")
    if target.name == "struct task_struct" and ctx.types.kernel() is None:
        # As a Linux 6.1 that is built without BPF.
        hint = f"this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), which says it; {hint}"
    ctx.error(f"'{target.name}' is not declared", span, hint)


def _target(ctx: Context, pointer: typed.Expr) -> Type | None:
    """The type that a pointer leads to."""
    assert isinstance(pointer.type, PointerType)
    target = pointer.type.target
    if target is None:
        ctx.error("a void * does not say what it points to", pointer.span, "cast it, as in (int32 *)")
        return None
    complete = ctx.types.complete(target)
    if complete is None:
        _undeclared(ctx, target, pointer.span)
    return complete


def _value_at(ctx: Context, type: Type, operand: typed.Expr, offset: typed.Expr, span: Span) -> typed.Expr | None:
    """The value that lies so many bytes behind a pointer's target, or behind the beginning of a struct or array."""
    complete = ctx.types.complete(type)
    if complete is None:
        ctx.error(f"'{type}' is not declared", span)
        return None
    if isinstance(operand.type, PointerType):
        return load(ctx, complete, operand, offset, span)
    if isinstance(operand, typed.Load):
        return load(ctx, complete, operand.address, offset, span)
    if _shown(complete) != complete:
        return typed.Part(_shown(complete), span, operand, offset)
    if isinstance(operand, typed.Part):
        offset = fold(typed.Binary(UINT64, span, "+", operand.offset, offset))
        operand = operand.operand
    packed = _unpacked(operand, constant(offset), complete, span) if isinstance(operand, typed.Pack) else None
    return packed or typed.Part(complete, span, operand, offset)


def _shown(type: Type) -> Type:
    """The type of a part of a block: an array of chars is a string."""
    if isinstance(type, ArrayType) and isinstance(type.item, CharType):
        return StringType(type.count + 1)
    return type


def _unpacked(pack: typed.Pack, start: int | None, type: Type, span: Span) -> typed.Expr | None:
    """An integer out of the one that holds it among those of a block; None where there is none such."""
    if start is None or not isinstance(type, IntType):
        return None
    for item in pack.items:
        size = memory_size(item.type)
        if start >= 0 and start + memory_size(type) <= size:
            word = convert(item, UINT64)
            if start:
                word = fold(typed.Binary(UINT64, span, ">>", word, typed.IntLit(UINT64, span, 8 * start)))
            return cast(word, type)
        start -= size
    return None


def pointer_to(ctx: Context, type: Type) -> PointerType:
    """The type of an address that lies in the memory of the clause's programs."""
    return PointerType(8 * min(ctx.words), target=type)


def load(
    ctx: Context, type: Type, address: typed.Expr, offset: typed.Expr | int, span: Span
) -> typed.Expr | None:
    """The value of a type at an address and so many bytes behind it."""
    if isinstance(address.type, VariablePointer):
        if ctx.is_unread:
            return typed.Load(type, span, address)

        def read(pointer: VariablePointer) -> typed.Expr | None:
            wanted = pointer.held if isinstance(type, StringType) and isinstance(pointer.held, StringType) else type
            return _in_variable(ctx, wanted, address, pointer, offset, span)

        return _in_one(ctx, address, read)
    if not ctx.reads_memory(span, "memory is read where a probe is hit", address):
        return None
    if isinstance(offset, int):
        offset = _constant(offset, span)
    if isinstance(address, typed.Cast) and isinstance(address.type, PointerType):
        address = address.operand
    place = convert(address, UINT64)
    if constant(offset) != 0:
        place = fold(typed.Binary(UINT64, span, "+", place, offset))
    if isinstance(type, ArrayType) and isinstance(type.item, CharType):
        return typed.Str(StringType(type.count + 1), span, place, True, array=True)
    if isinstance(type, IntType | FloatType) or is_block(type):
        return typed.Load(type, span, place)
    if isinstance(type, BoolType):
        return convert(typed.Load(IntType(8, False), span, place), type)
    ctx.error(f"{a_type(type)} cannot be read from memory", span)
    return None


def _in_one(
    ctx: Context, address: typed.Expr, read: Callable[[VariablePointer], typed.Expr | None]
) -> typed.Expr | None:
    """The result of `read` for the variable that an address leads to: of several, for the one whose bytes hold it."""
    assert isinstance(address.type, VariablePointer)
    first, *others = address.type.others or (address.type,)
    result = read(replace(first, moved=first.moved or address.type.moved))
    for variable in others:
        value = read(replace(variable, moved=variable.moved or address.type.moved))
        common = None if value is None or result is None else join(value.type, result.type)
        if value is None or result is None or common is None:
            return None
        there = typed.Binary(BOOL, address.span, "<", _in(address, variable), _constant(1 << 24, address.span))
        result = typed.Ternary(common, address.span, there, convert(value, common), convert(result, common))
    return result


def _in_variable(
    ctx: Context, type: Type, address: typed.Expr, pointer: VariablePointer, offset: typed.Expr | int, span: Span
) -> typed.Expr | None:
    """The value of a type in a variable: all of it, or a part of its bytes."""
    behind = offset if isinstance(offset, int) else constant(offset)
    if type == pointer.held and behind == 0 and not pointer.moved:
        return typed.Var(type, span, pointer.slot, pointer.name)
    whole = variable_bytes(ctx, pointer, span)
    if whole is None:
        return None
    more = _constant(offset, span) if isinstance(offset, int) else offset
    position = fold(typed.Binary(UINT64, span, "+", _in(address, pointer), more))
    start, size = constant(position), memory_size(whole.type)
    if start is not None and start + memory_size(type) > size:
        ctx.error(f"{pointer.name} has {size} bytes, and this is beyond them", span)
        return None
    return _value_at(ctx, type, whole, position, span)


def variable_bytes(ctx: Context, pointer: VariablePointer, span: Span) -> typed.Expr | None:
    """The bytes of the variable that an address leads to, as one value."""
    held = pointer.held
    if held is None:
        what = "this can be the address of a map: nothing can be read there"
        ctx.error(what, span, "read at &$x, or at a variable that keeps it alone")
        return None
    whole = laid_out(typed.Var(held, span, pointer.slot, pointer.name))
    if whole is None or memory_size(whole.type) > MOST_BYTES:
        hint = "it can be read there as a whole, by a pointer of its own type"
        ctx.error(f"{pointer.name} is {a_type(held)}, which cannot be read by bytes", span, hint)
        return None
    return whole


def read_there(ctx: Context, address: typed.Expr) -> typed.Expr | None:
    """The bytes from an address on, where that is in a variable; else the address."""
    if not isinstance(address.type, VariablePointer):
        return address
    from tracer.lang.types.sizes import size_of

    held = [variable.held for variable in address.type.others or (address.type,)]
    most = max([size_of(type) for type in held if type is not None], default=1)

    def read(pointer: VariablePointer) -> typed.Expr | None:
        whole = variable_bytes(ctx, pointer, address.span)
        if whole is None:
            return None
        offset = _in(address, pointer)
        return _value_at(ctx, ArrayType(_BYTE, max(most - (constant(offset) or 0), 1)), whole, offset, address.span)

    return _in_one(ctx, address, read)


def _in(address: typed.Expr, pointer: VariablePointer) -> typed.Expr:
    """The offset of an address in its variable."""
    start = _constant(pointer.start, address.span)
    return fold(typed.Binary(UINT64, address.span, "-", convert(address, UINT64), start))


def _constant(number: int, span: Span) -> typed.Expr:
    return typed.IntLit(UINT64, span, number)
