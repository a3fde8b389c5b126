"""Strings in the memory of the traced process: each is read once at a hit, however often the clause names it."""

from __future__ import annotations

from tracer.backends.bcc.codegen import expressions, wide
from tracer.backends.bcc.codegen.fetch import told_once
from tracer.backends.bcc.codegen.frame import Buffer, Frame
from tracer.backends.bcc.maps.layout import SHORT_TEXT, size_of
from tracer.lang.typed import Arg, Binary, Builtin, Cast, Expr, IntLit, Retval, Str, StrLit
from tracer.lang.types import StringType


def read(frame: Frame, expr: Str, to: Buffer, word: int, kind: StringType) -> None:
    """Reads a string into a buffer, all of its words."""
    assert isinstance(expr.type, StringType)
    size = min(expr.type.size, kind.size)
    before = read_before(frame, expr)
    if before is not None:
        _copy_read(frame, *before, to, word, kind)
        return
    address, measure = where(frame, expr)
    wide.clear_place(frame, to, word, kind)
    length = text(frame, expr, to.at(word), size, address, measure)
    wide.set_used(frame, to, word, length)
    if size == expr.type.size:
        frame.remember_text(_identity(expr), length, to.part(word, expr.type))


def where(frame: Frame, expr: Str) -> tuple[str, str]:
    """The address of a string and the size that the program gives, "" for none; names or constants."""
    address = expressions.value(frame, expr.address)
    mark = frame.mark()
    if expr.length is None:
        assert isinstance(expr.type, StringType)
        measure = f"{expr.type.size}" if expr.sized else ""
    else:
        measure = expressions.value(frame, expr.length)
        measure = measure if measure.isidentifier() else frame.temporary("u64", measure, "size")
    address = frame.settle(mark, "u64", address)
    return address if address.isidentifier() else frame.temporary("u64", address, "address"), measure


def text(frame: Frame, expr: Str, to: str, size: int, address: str, measure: str) -> str:
    """Reads a string to a place of so many bytes; the name of its length, the NUL counted."""
    frame.reads_memory = True
    function, last = ("read_sized_text", f", {measure}") if measure else ("read_user_text", "")
    length = frame.temporary("s64", f"{function}({to}, {size}, {address}{last})", "length")
    frame.line(f"if (failed({length}))")
    frame.line("\t" + frame.leave_unreadable())
    if not expr.sized:
        told = frame.told(told_once(expr))
        if measure:
            frame.line(f"if ({measure} > {size})")
        check = f"check_cut({length}, {size}, {address}, {told or 0});"
        frame.line(("\t" if measure else "") + (f"{told} = " if told else "") + check)
    return length


def read_before(frame: Frame, expr: Str) -> tuple[Buffer, str] | None:
    """Where this very string has been read already at this hit, and its length: reading costs more than copying."""
    known = frame.known_text(_identity(expr))
    if known is None:
        return None
    length, buffer = known
    if 0 in buffer.used:
        # What the verifier knows of the length doubles its work for each text, as long as the number itself is needed.
        length = f"in_use(&{buffer.used[0]})"
    return buffer, length


def _identity(expr: Str) -> object:
    """What says that two strings are the same one; None where it may not be."""
    address = same_at_each_use(expr.address)
    length = 0 if expr.length is None else same_at_each_use(expr.length)
    return None if address is None or length is None else (address, expr.type, expr.sized, length)


def same_at_each_use(expr: Expr) -> object:
    """The expression without its place in the text, if nothing that the clause does can change it; else None."""
    match expr:
        case Arg(index=index):
            return "arg", index
        case Retval():
            return "retval"
        case IntLit(value=value):
            return "int", value
        case StrLit(value=text):
            return "text", text
        case Builtin(name="pid" | "tid" | "uid" | "gid" | "cpid" | "probe" | "func" as name):
            return name
        case Cast(operand=operand):
            inner = same_at_each_use(operand)
            return None if inner is None else ("cast", expr.type, inner)
        case Binary(op=op, left=left, right=right):
            one, other = same_at_each_use(left), same_at_each_use(right)
            return None if one is None or other is None else (op, expr.type, one, other)
        case _:
            return None


def _copy_read(frame: Frame, source: Buffer, length: str, to: Buffer, word: int, kind: StringType) -> None:
    """From the buffer of a text that was read, lines of 64 bytes as far as it goes; in short buffers all words."""
    words = min(source.words, size_of(kind) // 8)
    if 8 * words <= SHORT_TEXT and size_of(kind) == 8 * words and word not in to.used:
        for index in range(words):
            frame.line(f"{wide.index_of(to, word + index)} = {source.name}[{index}];")
        return
    wide.clear_place(frame, to, word, kind)
    if 8 * words <= SHORT_TEXT:
        for index in range(words):
            frame.line(f"{wide.index_of(to, word + index)} = {source.name}[{index}];")
    else:
        frame.line(f"copy_lines({to.at(word)}, {8 * words}, {source.name}, &{source.used[0]});")
    wide.set_used(frame, to, word, length)
