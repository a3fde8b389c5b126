"""Values of steps → C expressions: as the table of operations says, or by a function of their own.

Operands wider than a number (strings, tuples) stand in memory by then; `wide.prepare` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.backends.bcc.codegen.c import C, binary, c_type, call, cast, choice, literal, plain, unary, word_type
from tracer.backends.bcc.codegen.function import Buffer, CFunction
from tracer.backends.bcc.codegen.placement import bare, scalar
from tracer.backends.bcc.maps.element_bytes import size_of
from tracer.lang.types import BoolType, StringType, TupleType, Type, memory_size, operations
from tracer.lang.types.operations import Operation
from tracer.steps.values import Const, Name, Op, SiteText, Value


def number(function: CFunction, value: Value) -> C:
    """The C expression of a number or bool."""
    match value:
        case Const(value=bool() as truth):
            return C("1" if truth else "0", "bool")
        case Const(value=int(constant)):
            return literal(constant, value.type)
        case Name(id=id):
            return function.numbers[id]
        case SiteText(name=name) if function.many:
            return C(f"SITE_WORD({function.shared.site_texts.first(name)})", "u64")
        case SiteText(name=name):
            return literal(int(function.variant.told[name]), value.type)
        case Op(op=op):
            return SPELLED[op](function, value) if op in SPELLED else _as_the_table_says(function, value)
        case _:
            raise AssertionError(f"{value} is no number")


def _as_the_table_says(function: CFunction, value: Op) -> C:
    """Computes in 64 bits: what leaves its type is wrapped before anybody looks at it."""
    op, word = value.op, word_type(value.type)
    if op.c:
        given = [part for arg in value.args for part in _given(function, arg)]
        return call(op.c + "_signed" * (word == "s64"), *given, type=word)
    first, *rest = [number(function, arg) for arg in value.args]
    if isinstance(value.type, BoolType):
        word = "bool"
    else:
        first = cast(word, first)
    return binary(op.sign, first, rest[0], word) if rest else unary(op.sign, first, word)


def _given(function: CFunction, value: Value) -> tuple[C | str | int, ...]:
    """The arguments that a function of the prelude takes for an operand."""
    if scalar(value.type):
        return (number(function, value),)
    held = in_memory(function, value)
    return held.address(0), held.words


def _select(function: CFunction, value: Op) -> C:
    test, then, otherwise = (number(function, arg) for arg in value.args)
    return choice(test, then, otherwise, then.type if then.type == otherwise.type else word_type(value.type))


def constant(function: CFunction, value: Value) -> bytes | None:
    """A string that is known when the C is written."""
    match bare(value):
        case Const(value=bytes(text), type=StringType()):
            return text
        case SiteText(name=name) if not function.many:
            told = function.variant.told[name]
            return told if isinstance(told, bytes) else None
        case _:
            return None


def in_memory(function: CFunction, value: Value) -> Buffer:
    """The buffer in which an operand stands."""
    value = bare(value)
    if value in function.in_buffers:
        return function.in_buffers[value]
    match value:
        case Name(id=id):
            return function.buffers[id]
        case Op(op=operations.ITEM, args=(whole, Const(value=int(index)))):
            return item_part(in_memory(function, whole), whole.type, index)
        case _:
            raise AssertionError(f"{value} has not been prepared")


def item_part(tuple: Buffer, kind: Type, index: int) -> Buffer:
    """The buffer in which one of the values of a tuple stands."""
    assert isinstance(kind, TupleType)
    return tuple.part(sum(map(size_of, kind.items[:index])) // 8, kind.items[index])


def operands(function: CFunction, value: Op) -> list[Value]:
    """The operands that must stand in memory; a literal is compared with as it is."""
    wide = [arg for arg in value.args if not scalar(arg.type)]
    if value.op in (operations.SAME, operations.STARTS):
        constants = [index for index, arg in enumerate(wide) if constant(function, arg) is not None]
        return [arg for index, arg in enumerate(wide) if index not in constants[:1]]
    return wide[:1] if value.op is operations.GLOB else wide


def _item(function: CFunction, value: Op) -> C:
    return cast(c_type(value.type), C(in_memory(function, value).word(0)))


def part(held: Buffer, offset: int, size: int) -> C:
    """The number in up to eight bytes of a block, from a byte on."""
    word, shift = divmod(offset, 8)
    bits = C(held.word(word))
    if shift:
        bits = binary(">>", bits, C(str(8 * shift)), "u64")
    if shift + size > 8 and word + 1 < held.words:
        bits = binary("|", bits, binary("<<", C(held.word(word + 1)), C(str(64 - 8 * shift)), "u64"), "u64")
    return bits


def _part(function: CFunction, value: Op) -> C:
    held, size = in_memory(function, value.args[0]), memory_size(value.type)
    match value.args[1]:
        case Const(value=int(offset)):
            inside = offset + size <= memory_size(value.args[0].type)
            bits = part(held, offset, size) if inside else C("0")
        case offset:
            most = memory_size(value.args[0].type) - size
            bits = call("part_at", held.address(0), most, size, number(function, offset))
    if isinstance(value.type, BoolType):
        return binary("!=", binary("&", bits, C("255"), "u64"), C("0"), "bool")
    return cast(c_type(value.type), bits)


def _memcmp(function: CFunction, value: Op) -> C:
    left, right = (in_memory(function, side) for side in value.args[:2])
    count = value.args[2]
    # Zeros stand behind the bytes of both.
    compared = count.value if isinstance(count, Const) else 8 * max(left.words, right.words)
    assert isinstance(compared, int)
    common = min(compared, 8 * min(left.words, right.words))
    rest = min(compared, 8 * max(left.words, right.words)) - common
    longer, sign = (left, 1) if left.words > right.words else (right, -1)
    arguments = left.address(0), right.address(0), common, longer.address(common // 8 if rest else 0), rest, sign
    most = compared if isinstance(count, Const) else number(function, count)
    return call("compare_bytes", *arguments, most, type="s64")


def _frames(function: CFunction, value: Op) -> C:
    return binary(">>", C(in_memory(function, value.args[0]).word(1)), C("3"), "u64")


def _same(function: CFunction, value: Op) -> C:
    held = [in_memory(function, side) for side in operands(function, value)]
    if len(held) == 1:
        text = next(text for side in value.args if (text := constant(function, side)) is not None)
        return _same_bytes(held[0], text + b"\0")
    one, other = held
    compare = "same_text" if isinstance(value.args[0].type, StringType) else "same_words"
    return call(compare, one.address(0), other.address(0), min(one.words, other.words), type="bool")


def _starts(function: CFunction, value: Op) -> C:
    size = value.args[2]
    assert isinstance(size, Const) and isinstance(size.value, int)
    held = [in_memory(function, side) for side in operands(function, value)]
    if len(held) == 1:
        text = next(text for side in value.args[:2] if (text := constant(function, side)) is not None)
        return _same_bytes(held[0], (text + b"\0")[: max(size.value, 0)])
    # Both texts end inside their buffers, so that the shorter buffer decides.
    count = min(max(size.value, 0), *(8 * side.words for side in held))
    return call("same_start", held[0].address(0), held[1].address(0), count // 8, count % 8, type="bool")


def _same_bytes(held: Buffer, text: bytes) -> C:
    """Compares a string with a constant, by words."""
    if len(text) > 8 * held.words:
        return C("0", "bool")
    tests = C("1", "bool")
    for offset in range(0, len(text), 8):
        part = text[offset : offset + 8]
        mask, wanted = C(f"{(1 << 8 * len(part)) - 1:#x}ULL"), C(plain(int.from_bytes(part, "little")))
        read = C(held.word(offset // 8))
        test = binary("==", read if len(part) == 8 else binary("&", read, mask, "u64"), wanted, "bool")
        tests = binary("&&", tests, test, "bool") if offset else test
    return tests


def _find(function: CFunction, value: Op) -> C:
    text, sought = (in_memory(function, side) for side in value.args)
    text_sought = constant(function, value.args[1])
    length = len(text_sought) if text_sought is not None else call("text_length", sought.address(0), sought.words)
    # Every text ends inside its buffer: one that fills more words than there are differs in one of these.
    words = min(text.words, sought.words)
    return call("find", text.address(0), text.words, sought.address(0), words, length, type="s64")


def _glob(function: CFunction, value: Op) -> C:
    """A bit of the state for each place up to which the text may have come; a byte moves it on where it may stand."""
    from tracer.lang.builtins.data.globs import parse_glob

    text, pattern = value.args
    assert isinstance(pattern, Const) and isinstance(pattern.value, bytes)
    glob, held = parse_glob(pattern.value), in_memory(function, text)
    bits: dict[tuple[int, int], int] = {}
    for place, ranges in enumerate(glob.places):
        for bounds in ranges:
            bits[bounds] = bits.get(bounds, 0) | 2 << place
    moves = " | ".join(f"BETWEEN({low}, {high}, {places:#x}ULL)" for (low, high), places in sorted(bits.items()))
    stays = sum(1 << place for place in glob.stars)
    return call("GLOB", held.address(0), held.words, moves or 0, f"{stays:#x}ULL", len(glob.places), type="bool")


SPELLED: dict[Operation, Callable[[CFunction, Op], C]] = {
    operations.WRAP: lambda function, value: cast(c_type(value.type), number(function, value.args[0])),
    operations.INT: lambda function, value: cast(word_type(value.type), number(function, value.args[0])),
    operations.AS: lambda function, value: number(function, value.args[0]),
    operations.SELECT: _select,
    operations.SAME: _same,
    operations.STARTS: _starts,
    operations.FIND: _find,
    operations.GLOB: _glob,
    operations.FRAMES: _frames,
    operations.MEMCMP: _memcmp,
    operations.ITEM: _item,
    operations.PART: _part,
}
"""Numbers whose C is more than an operator or a call."""
