"""printf, print and the control statements → records in the ring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer.backends.bcc.codegen import expressions, reading, wide
from tracer.backends.bcc.codegen.frame import Buffer, Frame, scalar
from tracer.backends.bcc.events.records import Record, bytes_behind, words_of
from tracer.backends.bcc.maps.layout import size_of
from tracer.lang.typed import Expr, Str, TupleExpr, UStack, USym
from tracer.lang.types import StackType, StringType, SymbolType, TupleType, Type

_ON_STACK_WORDS = 16

_Leaf = tuple[Type, "Expr | Buffer"]


def number_of(frame: Frame, record: Record) -> int:
    """The record's number in the program; equal ones share it."""
    records = frame.shared.records
    if record not in records:
        records.append(record)
    return records.index(record)


def control(frame: Frame, record: Record) -> None:
    """A record without values that must not be lost."""
    number = number_of(frame, record)
    frame.line(f"emit_control({number}, &control->pending[{number}], control->wakeup);")


def raise_mark(frame: Frame, name: str, by: str) -> str:
    """Clears (`by` CLEARED) or zeroes (ZEROED) a map for all hits from here on; the mark before it."""
    return frame.temporary("u64", f"raise_mark(&control->mark[{frame.shared.marks[name]}], {by})", "before")


def raised(frame: Frame, record: Record, before: str) -> None:
    """Tells user space that what carries an older mark may go."""
    frame.line(f"emit_raised({number_of(frame, record)}, {before}, control->wakeup);")


def print_map(frame: Frame, record: Record, before: str | None) -> None:
    """print(@x). `before` is the mark that a clear or zero which follows has just raised: what it ended is shown."""
    mark = frame.shared.marks.get(record.map)
    if mark is None:
        control(frame, record)
        return
    number = number_of(frame, record)
    if before is not None:
        frame.line(f"emit_ended({number}, {before}, control->wakeup);")
    else:
        frame.line(f"emit_moment({number}, control->mark[{mark}], &control->pending[{number}], control->wakeup);")


def send(frame: Frame, record: Record, values: Sequence[Expr]) -> None:
    """A record with values."""
    number = number_of(frame, record)
    head = 1 + sum(words_of(expr.type) for expr in values)
    behind = sum(bytes_behind(expr.type) for expr in values)
    leaves = [leaf for expr in values for leaf in _leaves(frame, expr)]
    if not behind and head <= _ON_STACK_WORDS:
        to = frame.buffer(head, stem="record").name
    else:
        to = frame.record(head + -(-behind // 8))
    at = ""
    if behind:
        at = frame.name("at")
        frame.line(f"u64 {at} = {8 * head};")
    frame.line(f"{to}[0] = {number};")
    word = 1
    for kind, leaf in leaves:
        _store(frame, to, word, at, kind, leaf)
        word += words_of(kind)
    frame.line(f"emit({to}, {at or 8 * head}, control->wakeup);")


def _leaves(frame: Frame, expr: Expr) -> Iterator[_Leaf]:
    """The values below tuples. A tuple that is not written out is evaluated into a buffer first."""
    if isinstance(expr, TupleExpr):
        for part in expr.items:
            yield from _leaves(frame, part)
    elif isinstance(expr.type, TupleType):
        yield from _parts(wide.pointer(frame, expr), expr.type)
    else:
        yield expr.type, expr


def _parts(buffer: Buffer, kind: TupleType) -> Iterator[_Leaf]:
    word = 0
    for item in kind.items:
        part = buffer.part(word, item)
        if isinstance(item, TupleType):
            yield from _parts(part, item)
        else:
            yield item, part
        word += size_of(item) // 8


def _store(frame: Frame, to: str, word: int, at: str, kind: Type, leaf: Expr | Buffer) -> None:
    if scalar(kind):
        text = f"{leaf.name}[0]" if isinstance(leaf, Buffer) else expressions.value(frame, leaf)
        frame.line(f"{to}[{word}] = {text};")
        return
    match kind:
        case StringType(size=size):
            _store_text(frame, to, word, at, size, leaf)
        case StackType(frames=frames) if isinstance(leaf, UStack):
            frame.line(f"{to}[{word}] = {wide.process(frame)};")
            taken = f"user_stack(ctx, (char *){to} + {at}, {8 * frames}, USER_STACK)"
            length = frame.temporary("s64", taken, "length")
            with frame.block(f"if ({length} < 0)"):
                frame.line("lose(LOST_STACKS);")
                frame.line(f"{length} = 0;")
            frame.line(f"{to}[{word + 1}] = {length};")
            frame.line(f"ADVANCE({at}, {length}, {8 * frames});")
        case StackType(frames=frames):
            source = leaf if isinstance(leaf, Buffer) else wide.pointer(frame, leaf)
            length = frame.temporary("u64", f"({source.name})[1]", "length")
            frame.line(f"{to}[{word}] = ({source.name})[0];")
            frame.line(f"{to}[{word + 1}] = {length};")
            frame.line(f"copy_kernel((char *){to} + {at}, {8 * frames}, {source.name} + 2);")
            frame.line(f"ADVANCE({at}, {length}, {8 * frames});")
        case SymbolType() if isinstance(leaf, USym):
            frame.line(f"{to}[{word}] = {wide.process(frame)};")
            frame.line(f"{to}[{word + 1}] = {expressions.value(frame, leaf.address)};")
        case _:
            source = leaf if isinstance(leaf, Buffer) else wide.pointer(frame, leaf)
            for index in range(words_of(kind)):
                frame.line(f"{to}[{word + index}] = ({source.name})[{index}];")


def _store_text(frame: Frame, to: str, word: int, at: str, size: int, leaf: Expr | Buffer) -> None:
    place = f"(char *){to} + {at}"
    read = reading.read_before(frame, leaf) if isinstance(leaf, Str) else None
    if read is not None:
        source, known = read
        frame.line(f"copy_kernel_text({place}, {size}, {source.name});")
        length = known
    elif isinstance(leaf, Str):
        length = reading.text(frame, leaf, place, size, *reading.where(frame, leaf))
    else:
        source = leaf if isinstance(leaf, Buffer) else wide.pointer(frame, leaf)
        length = frame.temporary("s64", f"copy_kernel_text({place}, {size}, {source.name})", "length")
    frame.line(f"{to}[{word}] = {length};")
    frame.line(f"ADVANCE({at}, {length}, {size});")
