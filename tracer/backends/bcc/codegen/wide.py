"""Values wider than a number: strings, tuples, stacks, symbols. They are written into buffers of words, in the form
that `layout` gives: zeros behind every text, so that they can be keys and be compared by words.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.backends.bcc.codegen.c import ATOM, C, call, cast, plain
from tracer.backends.bcc.codegen.function import Buffer, CFunction
from tracer.backends.bcc.codegen.operands import constant, item_part, number, operands, part
from tracer.backends.bcc.codegen.placement import bare, item, scalar
from tracer.backends.bcc.maps.element_bytes import SHORT_TEXT, size_of
from tracer.lang.types import StringType, TupleType, Type, memory_size, operations
from tracer.lang.types.operations import Operation
from tracer.steps.values import Const, Name, Op, SiteText, Value


def prepare(function: CFunction, value: Value) -> None:
    """Puts the operands into memory that an expression compares or searches there."""
    if not isinstance(value, Op):
        return
    for arg in value.args:
        if scalar(arg.type):
            prepare(function, arg)
    for arg in operands(function, value):
        function.in_buffers[bare(arg)] = pointer(function, arg)


def computed(function: CFunction, value: Value) -> C:
    """The C expression of a number, behind the statements that it needs."""
    prepare(function, value)
    return number(function, value)


def pointer(function: CFunction, value: Value) -> Buffer:
    """A buffer that holds the value: where it stands already, or a new one."""
    value = bare(value)
    match value:
        case Name(id=id):
            return function.buffers[id]
        case Op(op=operations.ITEM, args=(whole, Const(value=int(index)))):
            return item_part(pointer(function, whole), whole.type, index)
        case _:
            held = function.buffer_for(value.type)
            into(function, value, held, value.type)
            return held


def into(function: CFunction, value: Value, to: Buffer, kind: Type) -> None:
    """Writes a value into the buffer of a value of `kind`: its own type, or one with wider strings."""
    if scalar(kind):
        prepare(function, value)
        function.line(f"{to.word(0)} = {number(function, value)};")
        return
    value = bare(value)
    text = constant(function, value)
    match value, kind:
        case _, StringType() if text is not None:
            _literal(function, text, to, kind)
        case SiteText(name=name), StringType():
            _site_text(function, name, to)
        case Op(op=operations.SELECT, args=(condition, then, otherwise)), _:
            prepare(function, condition)
            with function.block(f"if ({number(function, condition)})"):
                into(function, then, to, kind)
            with function.block("else"):
                into(function, otherwise, to, kind)
        case _, TupleType(items=items) if value.type != kind or not isinstance(value, Name):
            word = 0
            for index, part_type in enumerate(items):
                into(function, item(value, index), to.part(word, part_type), part_type)
                word += size_of(part_type) // 8
        case Op(op=op), _ if op in SPELLED:
            SPELLED[op](function, value, to)
        case Op(op=op), _ if op.c:
            _called(function, value, to)
        case Const(value=bytes(raw)), _:
            for index in range(to.words):
                word = int.from_bytes(raw[8 * index : 8 * index + 8].ljust(8, b"\0"), "little")
                function.line(f"{to.word(index)} = {plain(word)};")
        case _, StringType():
            _copy_text(function, pointer(function, value), to)
        case _:
            copy_words(function, pointer(function, value), to)


def symbol(function: CFunction, args: tuple[Value, ...]) -> tuple[C, C]:
    """The two words of a symbol: the process with a number for what lies at the address, and the address. The moment is
    now.
    """
    process, address, _ = args
    function.shared.places = True
    once = function.once("address", computed(function, address))
    return call("place_of", computed(function, process), once), once


def _part(function: CFunction, value: Op, to: Buffer) -> None:
    """A part of a block that is no number: by words, as its place need not be a word's."""
    whole, offset = value.args
    text = isinstance(value.type, StringType)
    length = value.type.size - 1 if isinstance(value.type, StringType) else memory_size(value.type)
    held, whole_size = pointer(function, whole), memory_size(whole.type)
    last = whole_size - length
    zero(function, to)
    start = None if isinstance(offset, Const) else function.once("at", computed(function, offset))
    if start is not None and last <= 0:
        function.line(f"part_behind({to.address(0)}, {to.words}, {held.address(0)}, {whole_size}, {start});")
    for index in range(-(-length // 8)):
        size = min(8, length - 8 * index)
        if start is not None and last <= 0:
            break
        if start is not None:
            block = f"(char *)({held.address(0)}) + {8 * index}"
            function.line(f"{to.word(index)} = part_at({block}, {last}, {size}, {start});")
        elif isinstance(offset, Const) and (size := min(size, whole_size - int(offset.value) - 8 * index)) > 0:
            word = part(held, int(offset.value) + 8 * index, size).within(ATOM)
            function.line(f"{to.word(index)} = {word} & {(1 << 8 * size) - 1:#x}ULL;")
    if text:
        function.line(f"end_text({to.address(0)}, {to.words});")
        set_used(function, to, f"{8 * to.words}")


def _buffer(function: CFunction, value: Op, to: Buffer) -> None:
    """The length, then so many bytes; zeros behind."""
    block, length = value.args
    source, size = pointer(function, block), function.once("length", computed(function, length))
    words = min(source.words, to.words - 1)
    zero(function, to, from_word=1 + words)
    function.line(f"{to.word(0)} = {size};")
    if words:
        function.line(f"copy_kernel({to.address(1)}, {8 * words}, {source.address(0)});")
        function.line(f"end_bytes({to.address(1)}, {words}, {size});")


def _padded(function: CFunction, value: Op, to: Buffer) -> None:
    (narrower,) = value.args
    zero(function, to)
    copy_words(function, pointer(function, narrower), to.behind(0, size_of(narrower.type) // 8))


def _pack(function: CFunction, value: Op, to: Buffer) -> None:
    zero(function, to)
    end = 0
    for arg in value.args:
        size = memory_size(arg.type)
        prepare(function, arg)
        bits = cast(f"u{8 * size}", number(function, arg)).within(ATOM)
        function.line(f"{to.word(end // 8)} |= (u64){bits} << {8 * (end % 8)};")
        end += size


def _symbol(function: CFunction, value: Op, to: Buffer) -> None:
    for index, word in enumerate(symbol(function, value.args)):
        function.line(f"{to.word(index)} = {word};")


def _called(function: CFunction, value: Op, to: Buffer) -> None:
    """A text that a function of the prelude makes, in an empty buffer."""
    given: list[object] = []
    for arg in value.args:
        if isinstance(arg.type, StringType):
            given += pointer(function, arg).address(0), arg.type.size
        else:
            given.append(computed(function, arg))
    clear(function, to)
    called = C(f"{value.op.c}((char *)({to.address(0)}), {', '.join(map(str, given))})")
    set_used(function, to, function.temporary("length", called).text)


def _literal(function: CFunction, text: bytes, to: Buffer, kind: StringType) -> None:
    text = text[: kind.size - 1]
    count = -(-len(text) // 8) if to.used else to.words
    clear(function, to, from_word=count)
    padded = text.ljust(8 * count, b"\0")
    for index in range(count):
        # How the user's text reaches C.
        function.line(f"{to.word(index)} = {plain(int.from_bytes(padded[8 * index : 8 * index + 8], 'little'))};")
    set_used(function, to, f"{len(text)}")


def _site_text(function: CFunction, name: str, to: Buffer) -> None:
    """`probe` or its like, from the words of the site's texts."""
    texts = function.shared.site_texts
    first, count = texts.first(name), min(texts.sizes[name], to.words)
    clear(function, to, from_word=count)
    for index in range(count):
        function.line(f"{to.word(index)} = SITE_WORD({first + index});")
    set_used(function, to, f"{8 * count}")


def _copy_text(function: CFunction, source: Buffer, to: Buffer) -> None:
    """Short ones by words, between long buffers as far as the source is used."""
    if source.address(0) == to.address(0):
        return
    words = min(source.words, to.words)
    short = 8 * words <= SHORT_TEXT
    clear(function, to, from_word=words if short else 0)
    if short:
        for index in range(words):
            function.line(f"{to.word(index)} = {source.word(index)};")
        set_used(function, to, f"{8 * words}")
    else:
        function.line(f"copy_lines({to.address(0)}, {8 * words}, {source.address(0)}, &{source.used[0]});")
        set_used(function, to, f"in_use(&{source.used[0]})")


def copy_words(function: CFunction, source: Buffer, to: Buffer) -> None:
    """Copies all words from buffer to buffer."""
    if source.address(0) == to.address(0):
        return
    if to.words <= 2:
        for index in range(to.words):
            function.line(f"{to.word(index)} = {source.word(index)};")
        return
    function.line(f"copy_kernel({to.address(0)}, {8 * to.words}, {source.address(0)});")
    all_used(function, to, 8 * to.words)


def clear(function: CFunction, to: Buffer, from_word: int = 0) -> None:
    """Makes a string, or the frames of a stack, empty: a short one from a word on, a long one as far as it was used."""
    if to.used:
        function.line(f"clear_text((char *)({to.address(0)}), {8 * to.words}, &{to.used[0]});")
    else:
        zero(function, to, from_word)


def zero(function: CFunction, to: Buffer, from_word: int = 0) -> None:
    """Zeros in every word from one on."""
    rest = 8 * (to.words - from_word)
    if rest > 128:
        function.line(f"zero_words({to.address(from_word)}, {rest // 8});")
    elif rest > 0:
        function.line(f"__builtin_memset({to.address(from_word)}, 0, {rest});")
    all_used(function, to, 0)


def all_used(function: CFunction, to: Buffer, size: int) -> None:
    """Notes how much of every long part may be in use."""
    for lvalue in to.used.values():
        function.line(f"{lvalue} = {size};")


def set_used(function: CFunction, to: Buffer, length: str) -> None:
    """Notes how much of a long string or stack is in use."""
    if 0 in to.used:
        function.line(f"{to.used[0]} = {length};")


SPELLED: dict[Operation, Callable[[CFunction, Op, Buffer], None]] = {
    operations.SYMBOL: _symbol,
    operations.PART: _part,
    operations.PACK: _pack,
    operations.BUFFER: _buffer,
    operations.PAD: _padded,
}
"""Those that no function of the prelude makes in one call."""
