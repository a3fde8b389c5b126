"""What is wider than a number: strings, tuples, stacks, symbols. They are written into buffers of words, in the form
that `layout` gives: zeros behind every text, so that they can be keys and be compared by words.
"""

from __future__ import annotations

from tracer.backends.bcc.codegen import expressions, maps, reading
from tracer.backends.bcc.codegen.frame import Buffer, Frame, scalar
from tracer.backends.bcc.maps.layout import SHORT_TEXT, size_of
from tracer.lang.typed import (
    Builtin,
    Cast,
    Expr,
    MapGet,
    Str,
    Strcontains,
    Strlen,
    StrLit,
    Strncmp,
    Ternary,
    TupleExpr,
    TupleItem,
    UStack,
    USym,
    Var,
)
from tracer.lang.types import StackType, StringType, SymbolType, TupleType, Type


def into(frame: Frame, expr: Expr, to: Buffer, word: int = 0) -> None:
    """Writes a value of any type into a buffer, all of its words."""
    kind = expr.type
    if scalar(kind):
        frame.line(f"{index_of(to, word)} = {expressions.value(frame, expr)};")
        return
    match kind:
        case StringType():
            text_into(frame, expr, to, word, kind)
        case TupleType():
            _tuple_into(frame, expr, to, word, kind)
        case StackType():
            _stack_into(frame, expr, to, word, kind)
        case SymbolType() if isinstance(expr, USym):
            frame.line(f"{index_of(to, word)} = {process(frame)};")
            frame.line(f"{index_of(to, word + 1)} = {expressions.value(frame, expr.address)};")
        case _:
            _copy(frame, expr, to, word, kind)


def pointer(frame: Frame, expr: Expr) -> Buffer:
    """A buffer that holds the value: the variable's own, or a new one."""
    if isinstance(expr, Var):
        held = frame.slots[expr.slot]
        assert isinstance(held, Buffer)
        return held
    if isinstance(expr, TupleItem):
        whole, word = item_place(frame, expr)
        return whole.part(word, expr.type)
    if isinstance(expr, Str) and (read := reading.read_before(frame, expr)) is not None:
        return read[0]
    buffer = frame.buffer_for(expr.type)
    into(frame, expr, buffer)
    return buffer


def item_place(frame: Frame, expr: TupleItem) -> tuple[Buffer, int]:
    """The tuple's buffer, and the word at which the item begins."""
    kind = expr.operand.type
    assert isinstance(kind, TupleType)
    return pointer(frame, expr.operand), sum(size_of(item) for item in kind.items[: expr.index]) // 8


def process(frame: Frame) -> str:
    """The pid of the hit process."""
    return expressions.builtin(frame, "pid")


# --- strings ---


def text_into(frame: Frame, expr: Expr, to: Buffer, word: int, kind: StringType) -> None:
    """Writes a string into a buffer for type `kind`, which is at least as wide as the string's own."""
    match expr:
        case Cast(operand=operand):
            text_into(frame, operand, to, word, kind)
        case Ternary():
            with frame.block(f"if ({expressions.truth(frame, expr.condition)})"):
                text_into(frame, expr.then, to, word, kind)
            with frame.block("else"):
                text_into(frame, expr.otherwise, to, word, kind)
        case Str():
            reading.read(frame, expr, to, word, kind)
        case StrLit(value=text):
            _literal(frame, text, to, word, kind)
        case Builtin(name="comm"):
            clear_place(frame, to, word, kind)
            frame.line(f"current_comm({to.at(word)}, 16);")
            set_used(frame, to, word, "16")
        case Builtin(name="probe"):
            _site_text(frame, frame.variant.probe, 0, frame.shared.site_texts.probe_words, to, word, kind)
        case Builtin(name="func"):
            texts = frame.shared.site_texts
            _site_text(frame, frame.variant.function, texts.probe_words, texts.function_words, to, word, kind)
        case MapGet():
            clear_place(frame, to, word, kind)
            found = maps.find(frame, expr.map, expr.key)
            with frame.block(f"if ({found})"):
                _copy_text(frame, found, to, word, size_of(expr.type))
        case _:
            _copy_buffer(frame, pointer(frame, expr), to, word, kind)


def _literal(frame: Frame, text: bytes, to: Buffer, word: int, kind: StringType) -> None:
    text = text[: kind.size - 1]
    if kind.size > SHORT_TEXT:
        clear_place(frame, to, word, kind)
        count = -(-len(text) // 8)
    else:
        count = size_of(kind) // 8
    for index, number in enumerate(words(text, count)):
        frame.line(f"{index_of(to, word + index)} = {number};")
    if len(text) > SHORT_TEXT or kind.size > SHORT_TEXT:
        set_used(frame, to, word, f"{len(text)}")


def _site_text(
    frame: Frame, text: str | None, first: int, count: int, to: Buffer, word: int, kind: StringType
) -> None:
    """`probe` or `func`: a literal, or `count` words of the site's texts from the `first` on."""
    if not frame.many:
        _literal(frame, (text or "").encode(errors="surrogateescape"), to, word, kind)
        return
    count = min(count, size_of(kind) // 8)
    if kind.size > SHORT_TEXT:
        clear_place(frame, to, word, kind)
    else:
        for index in range(count, size_of(kind) // 8):
            frame.line(f"{index_of(to, word + index)} = 0;")
    for index in range(count):
        frame.line(f"{index_of(to, word + index)} = SITE_WORD({first + index});")
    set_used(frame, to, word, f"{8 * count}")


def words(text: bytes, count: int) -> list[str]:
    """A string as `count` word constants, zeros behind it: how the user's text reaches C."""
    padded = text.ljust(8 * count, b"\0")
    return [f"{int.from_bytes(padded[at : at + 8], 'little'):#x}ULL" for at in range(0, 8 * count, 8)]


def clear_place(frame: Frame, to: Buffer, word: int, kind: Type, size: int | None = None) -> None:
    """Zeros where a value of this type stands; of a long part as far as it was used."""
    size = size_of(kind) if size is None else size
    used = to.used.get(word)
    if used is not None:
        frame.line(f"clear_text((char *)({to.at(word)}), {size}, &{used});")
    else:
        _zero(frame, to.at(word), size)


def set_used(frame: Frame, to: Buffer, word: int, length: str) -> None:
    """Notes how much of a long part is in use."""
    used = to.used.get(word)
    if used is not None:
        frame.line(f"{used} = {length};")


def _copy_text(frame: Frame, source: str, to: Buffer, word: int, size: int) -> None:
    """`size` is the source's: every text ends inside its buffer."""
    if word in to.used:
        frame.line(f"{to.used[word]} = {size};")
    frame.line(f"copy_kernel_text({to.at(word)}, {size}, {source});")


def _copy_buffer(frame: Frame, source: Buffer, to: Buffer, word: int, kind: StringType) -> None:
    """Between long buffers as far as the source is used."""
    clear_place(frame, to, word, kind)
    if 0 in source.used and word in to.used:
        frame.line(f"copy_lines({to.at(word)}, {8 * source.words}, {source.name}, &{source.used[0]});")
        set_used(frame, to, word, source.used[0])
    else:
        _copy_text(frame, source.name, to, word, 8 * source.words)


def copy_text(frame: Frame, source: Buffer, to: Buffer, kind: StringType) -> None:
    """From buffer to buffer."""
    _copy_buffer(frame, source, to, 0, kind)


def clear(frame: Frame, to: Buffer, kind: Type) -> None:
    """Makes a value empty: zeros everywhere."""
    size = size_of(kind)
    if len(to.used) == 1 and 0 in to.used:
        clear_place(frame, to, 0, kind)
        return
    _zero(frame, to.name, size)
    for lvalue in to.used.values():
        frame.line(f"{lvalue} = 0;")


def copy_words(frame: Frame, source: Buffer, to: Buffer, kind: Type) -> None:
    """From buffer to buffer, all words."""
    frame.line(f"copy_kernel({to.name}, {size_of(kind)}, {source.name});")
    for lvalue in to.used.values():
        frame.line(f"{lvalue} = {size_of(kind)};")


def _zero(frame: Frame, place: str, size: int) -> None:
    if size <= 128:
        frame.line(f"__builtin_memset({place}, 0, {size});")
    else:
        frame.line(f"zero_words({place}, {size // 8});")


# --- tuples, stacks, whatever else ---


def _tuple_into(frame: Frame, expr: Expr, to: Buffer, word: int, kind: TupleType) -> None:
    if isinstance(expr, TupleExpr):
        for part in expr.items:
            into(frame, part, to, word)
            word += size_of(part.type) // 8
    else:
        _copy(frame, expr, to, word, kind)


def _stack_into(frame: Frame, expr: Expr, to: Buffer, word: int, kind: StackType) -> None:
    if not isinstance(expr, UStack):
        _copy(frame, expr, to, word, kind)
        return
    frame.line(f"{index_of(to, word)} = {process(frame)};")
    clear_place(frame, to, word + 2, kind, size_of(kind) - 16)
    length = frame.temporary("s64", f"user_stack(ctx, {to.at(word + 2)}, {8 * kind.frames}, USER_STACK)", "length")
    with frame.block(f"if ({length} < 0)"):
        frame.line("lose(LOST_STACKS);")
        frame.line(f"{length} = 0;")
    frame.line(f"{index_of(to, word + 1)} = {length};")
    set_used(frame, to, word + 2, length)


def _copy(frame: Frame, expr: Expr, to: Buffer, word: int, kind: Type) -> None:
    """From a variable, a map, another tuple, or either arm of a choice."""
    size = size_of(kind)
    place = f"({to.at(word)})"
    if isinstance(expr, Ternary):
        with frame.block(f"if ({expressions.truth(frame, expr.condition)})"):
            into(frame, expr.then, to, word)
        with frame.block("else"):
            into(frame, expr.otherwise, to, word)
        return
    if isinstance(expr, MapGet):
        found = maps.find(frame, expr.map, expr.key)
        with frame.block(f"if ({found})"):
            frame.line(f"copy_kernel({place}, {size}, {found});")
        with frame.block("else"):
            _zero(frame, place, size)
    else:
        source = pointer(frame, expr)
        frame.line(f"copy_kernel({place}, {size}, {source.name});")
    for at in to.used:
        if word <= at < word + size // 8:
            frame.line(f"{to.used[at]} = {size};")


def index_of(to: Buffer, word: int) -> str:
    """One word of a buffer."""
    return f"{to.name}[{word}]"


# --- comparisons and string functions ---


def same_text(frame: Frame, left: Expr, right: Expr) -> str:
    """A C condition: whether two strings are equal."""
    for one, other in ((left, right), (right, left)):
        text = _constant(one)
        if text is not None:
            return _same_literal(frame, other, text)
    first, second = pointer(frame, left), pointer(frame, right)
    return f"same_text({first.name}, {second.name}, {min(first.words, second.words)})"


def _constant(expr: Expr) -> bytes | None:
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr.value if isinstance(expr, StrLit) else None


def _same_literal(frame: Frame, expr: Expr, text: bytes, length: int | None = None) -> str:
    """Compares the literal's words, its NUL included, or only its first `length` bytes."""
    while isinstance(expr, Cast):
        expr = expr.operand
    buffer = pointer(frame, expr)
    count = len(text) + 1 if length is None else length
    if count > 8 * buffer.words:
        return "0"
    tests = []
    for at in range(0, count, 8):
        mask = (1 << 8 * min(8, count - at)) - 1
        number = int.from_bytes(text[at : at + 8].ljust(8, b"\0"), "little") & mask
        whole = mask == 0xFFFF_FFFF_FFFF_FFFF
        read = f"{buffer.name}[{at // 8}]"
        tests.append(f"{read} == {number:#x}ULL" if whole else f"({read} & {mask:#x}ULL) == {number:#x}ULL")
    return " && ".join(tests) if len(tests) == 1 else f"({' && '.join(tests)})"


def same_words(frame: Frame, left: Expr, right: Expr) -> str:
    """A C condition: whether two tuples are equal."""
    first, second = pointer(frame, left), pointer(frame, right)
    return f"same_words({first.name}, {second.name}, {first.words})"


def same_start(frame: Frame, expr: Strncmp) -> str:
    """A C condition: whether the first `length` bytes agree, as strncmp(3) reads them."""
    if expr.length <= 0:
        for side in (expr.left, expr.right):
            pointer(frame, side)  # one that cannot be read ends the clause all the same
        return "1"
    for one, other in ((expr.left, expr.right), (expr.right, expr.left)):
        text = _constant(one)
        if text is not None:
            return f"({_same_literal(frame, other, text, min(expr.length, len(text) + 1))})"
    first, second = pointer(frame, expr.left), pointer(frame, expr.right)
    # Both texts end inside their buffers, so that the shorter buffer decides.
    count = min(expr.length, 8 * first.words, 8 * second.words)
    return f"same_start({first.name}, {second.name}, {count // 8}, {count % 8})"


def length(frame: Frame, expr: Strlen) -> str:
    """The length of a string."""
    buffer = pointer(frame, expr.operand)
    return f"text_length({buffer.name}, {buffer.words})"


def contains(frame: Frame, expr: Strcontains) -> str:
    """Whether one string holds another."""
    haystack = pointer(frame, expr.haystack)
    needle = pointer(frame, expr.needle)
    text = _constant(expr.needle)
    known = f"{len(text)}" if text is not None else f"text_length({needle.name}, {needle.words})"
    # Every text ends inside its buffer: one that fills more words than the haystack has differs in one of these.
    words = min(needle.words, haystack.words)
    return f"(u64)contains({haystack.name}, {haystack.words}, {needle.name}, {words}, {known})"
