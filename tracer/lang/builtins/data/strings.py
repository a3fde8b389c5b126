"""Strings, read and compared."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tracer.dataclass import replace
from tracer.lang import features, typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, said
from tracer.lang.fold import array_in_memory, constant, convert, string
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    ArrayType,
    CharType,
    IntType,
    StringType,
    StructType,
    Type,
    is_block,
    memory_size,
    operations,
)
from tracer.lang.types.combine import a_type
from tracer.lang.types.operations import Operation


def _str(call: Call) -> typed.Expr | None:
    context, source = call.context, call.args[0]
    most, trailer = context.config.max_strlen, context.config.str_trunc_trailer
    size = most + bool(trailer)  # with a trailer there are as many bytes, and the NUL behind them
    length = call.args[1] if len(call.args) > 1 else None
    given = None if length is None else constant(length)
    sized = given is not None and given <= most
    if given is not None:
        if given < 0:
            call.error(f"the size of str() is negative: {given}", call.spans[1], "the NUL counts")
            return None
        if given > most:
            what = f"the size of str() is cut to {most}"
            context.warn(what, call.spans[1], "config = { max_strlen = N } allows more")
        length, size = None, max(min(given, size), 1)
    if isinstance(source, bytes):
        if length is not None:
            call.error("the size of a text in the program must be a constant", length.span, "leave it out")
            return None
        # bpftrace takes as many bytes of a constant as are given: there is no buffer with a NUL.
        return string(source[: given if sized else size - 1], call.span)
    array = array_in_memory(source)
    if array is not None and _is_text(array[1].item):
        source, of = array
        if of.count > 1:  # what ends a struct has more items than it says
            sized, size = sized or of.count < size, min(size, of.count + 1)
    if isinstance(source, typed.Part) and isinstance(source.type, StringType) and is_block(source.operand.type):
        source = replace(source, type=ArrayType(CharType(), source.type.size - 1))
    if isinstance(source, (typed.Part, typed.Ternary)) and isinstance(source.type, ArrayType):  # that of a variable
        if length is not None:
            call.error("the size of str() of a variable must be a constant", length.span)
            return None
        start = typed.IntLit(UINT64, call.span, 0)
        part = source if isinstance(source, typed.Part) else typed.Part(source.type, call.span, source, start)
        return replace(part, type=StringType(min(size, source.type.count + 1)), span=call.span)
    if isinstance(source.type, StringType) and len(call.args) == 1:
        text: typed.Expr = source
        return text
    if isinstance(source, typed.Str) and context.unit.reads("fields") and length is None:  # an address in bpftrace
        return replace(source, type=StringType(size), sized=sized or source.sized, span=call.span)
    if not isinstance(source.type, IntType):
        call.error(f"str() needs an address, not {a_type(source.type)}", source.span, _otherwise(source.type))
        return None
    if not context.reads_memory(call.span, "keep the string where the probe is hit: @s = str(arg0)", source):
        return None
    measure = None if length is None else convert(length, UINT64)
    type = StringType(size, "" if sized else trailer)
    return typed.Str(type, call.span, convert(source, UINT64), sized, measure)


def _otherwise(type: Type) -> str | None:
    """How to write the text of what is no address; strings of Go and of Rust have an address and a length, no NUL."""
    if isinstance(type, StringType):
        return "it is a string already: leave str() out"
    for address, length in (("str", "len"), ("data_ptr", "length")):
        if isinstance(type, StructType) and type.field(address) and type.field(length):
            return f"write str(VALUE.{address}, VALUE.{length} + 1), with it in place of VALUE; the 1 is for a NUL"
    return None


def _is_text(item: Type) -> bool:
    """Whether an array of such items can hold a text."""
    return isinstance(item, IntType) and memory_size(item) == 1


def _read(ctx: Lowering[V], node: typed.Str) -> V:
    assert isinstance(node.type, StringType)
    address = ctx.value(node.address)
    length = None if node.length is None else ctx.value(node.length)
    return ctx.string_at(address, node.type, node.sized, length, node.span)


def _strncmp(call: Call) -> typed.Expr | None:
    left, right, length = call.args
    if length < 0:
        call.error("the length of strncmp() is negative", call.spans[2])
        return None
    return typed.Call(UINT64, call.span, call.name, (left, right, typed.IntLit(INT64, call.spans[2], length)))


def _starts(ctx: Lowering[V], call: typed.Call) -> V:
    left, right, length = map(ctx.value, call.args)
    if constant(call.args[2]) == 0:
        return ctx.constant(0, UINT64)
    equal = ctx.op(operations.STARTS, BOOL, left, right, length)
    return ctx.op(operations.INT, UINT64, ctx.op(operations.NOT, BOOL, equal))


def _strcap(call: Call) -> typed.Expr:
    (operand,) = call.args
    return typed.Call(INT64, call.span, call.name, (operand, typed.IntLit(INT64, call.span, operand.type.size)))


def _capacity(ctx: Lowering[V], call: typed.Call) -> V:
    operand, size = call.args
    ctx.value(operand)  # what cannot be read ends the clause here as well
    return ctx.value(size)


_LONGEST_JOINED = 1 << 16


def _concat(call: Call) -> typed.Expr | None:
    left, right = call.args
    size = left.type.size + right.type.size - 1
    if size > _LONGEST_JOINED:
        hint = f"together at most {_LONGEST_JOINED}; (string[64])$s and str(address, 64) give one less room"
        call.error(f"the strings of str_concat() have room for {size} bytes", call.span, hint)
        return None
    return typed.Call(StringType(size), call.span, call.name, (left, right))


_ERROR_TEXT = StringType(64)
_ERRORS = 134  # one more than the last of include/uapi/asm-generic/errno.h, EHWPOISON


def _error_text(number: int) -> bytes:
    """The C library's words for an error number, positive or negated as system calls return it."""
    return os.strerror(number).encode() if 0 <= (number := abs(number)) < _ERRORS else b"Unknown error"


def _described(ctx: Lowering[V], call: typed.Call) -> V:
    number = ctx.once(ctx.wrap(ctx.value(call.args[0]), INT64))
    negated = ctx.arithmetic("-", ctx.constant(0, INT64), number, INT64)
    number = ctx.once(ctx.select(ctx.compare("<", number, ctx.constant(0, INT64)), negated, number))
    # -2**63 cannot be negated; it has no message either.
    return _word(ctx, number, [_error_text(errno) for errno in range(_ERRORS)], b"Unknown error")


def _word(ctx: Lowering[V], number: V, words: Sequence[bytes], otherwise: bytes) -> V:
    """The word of a number; `otherwise` where there is none."""

    def among(first: int, last: int) -> V:
        if last - first == 1:
            return ctx.constant(words[first], _ERROR_TEXT)
        middle = (first + last) // 2
        below = ctx.compare("<", number, ctx.constant(middle, INT64))
        return ctx.select(below, among(first, middle), among(middle, last))

    inside = ctx.compare("<", ctx.wrap(number, UINT64), ctx.constant(len(words), UINT64))
    return ctx.select(inside, among(0, len(words)), ctx.constant(otherwise, _ERROR_TEXT))


_SIGNALS = (
    "Unknown signal 0", "Hangup", "Interrupt", "Quit", "Illegal instruction", "Trace/breakpoint trap", "Aborted",
    "Bus error", "Floating point exception", "Killed", "User defined signal 1", "Segmentation fault",
    "User defined signal 2", "Broken pipe", "Alarm clock", "Terminated", "Stack fault", "Child exited", "Continued",
    "Stopped (signal)", "Stopped", "Stopped (tty input)", "Stopped (tty output)", "Urgent I/O condition",
    "CPU time limit exceeded", "File size limit exceeded", "Virtual timer expired", "Profiling timer expired",
    "Window changed", "I/O possible", "Power failure", "Bad system call", "Unknown signal 32", "Unknown signal 33",
    *(f"Real-time signal {number}" for number in range(31)),
)  # fmt: skip
_SIGNAL_WORDS = [word.encode() for word in _SIGNALS]


def _signal_name(type: Type, number: int) -> bytes:
    return _SIGNAL_WORDS[number] if 0 <= number < len(_SIGNAL_WORDS) else b"N/A"


def _signal_word(ctx: Lowering[V], call: typed.Call) -> V:
    number = ctx.once(ctx.wrap(ctx.value(call.args[0]), INT64))
    return _word(ctx, number, _SIGNAL_WORDS, b"N/A")


def _glob(call: Call) -> typed.Expr | None:
    from tracer.lang.builtins.data.globs import MOST_PLACES, parse_glob

    text, pattern = call.args[0], call.args[1].encode("utf-8", "surrogateescape")
    count = len(parse_glob(pattern).places)
    if count > MOST_PLACES:
        call.error(f"the pattern of globmatch() stands for {count} bytes", call.spans[1], f"at most {MOST_PLACES}")
        return None
    return typed.Call(BOOL, call.span, call.name, (text, string(pattern, call.spans[1])))


def _matches(type: Type, text: bytes, pattern: bytes) -> bool:
    from tracer.lang.builtins.data.globs import parse_glob

    return parse_glob(pattern).matches(text)


_COMPARED = Parameter("string", "an argument of strncmp()")
_SEARCHED = Parameter("string", "an argument of strcontains()")

FUNCTIONS = (
    BuiltinFunction(
        "str", "value", "str(addr[, size])", (Parameter("source"), Parameter("integer", "the size of str()")), None,
        "string at an address of the traced program", "@[str(arg0)] = count();", "string", optional=1, rule=_str,
        lower=_read, node=typed.Str,
    ),
    BuiltinFunction(
        "strncmp", "value", "strncmp(a, b, n)",
        (_COMPARED, _COMPARED, Parameter("constant", "the length of strncmp()")), UINT64,
        "0 if the first n bytes are equal, else 1", 'if (strncmp(comm, "post", 4) == 0) { @ = count(); }',
        rule=_strncmp, fold=lambda type, left, right, length: int(left[:length] != right[:length]), lower=_starts,
    ),
    BuiltinFunction(
        "strlen", "value", "strlen(s)", (Parameter("string", "the argument of strlen()"),), UINT64,
        "length of a string in bytes", "@ = hist(strlen(str(arg0)));",
        fold=lambda type, text: len(text), lower=operations.STRLEN, needs=features.STRING_FUNCTIONS,
    ),
    BuiltinFunction(
        "strcontains", "value", "strcontains(s, part)", (_SEARCHED, _SEARCHED), BOOL,
        "whether a string holds another", 'if (strcontains(comm, "sql")) { @ = count(); }',
        rule=said("strstr($1, $2) != -1"), needs=features.STRING_FUNCTIONS,
    ),
    BuiltinFunction(
        "strstr", "value", "strstr(haystack, needle)", (Parameter("string", "an argument of strstr()"),) * 2, INT64,
        "where a string first holds another, counted from 0, or -1", 'if (strstr(comm, "sql") == 0) { @ = count(); }',
        fold=lambda type, haystack, needle: haystack.find(needle), lower=operations.FIND,
        needs=features.STRING_FUNCTIONS,
    ),
    BuiltinFunction(
        "globmatch", "value", "globmatch(s, pattern)",
        (Parameter("string", "the first argument of globmatch()"), Parameter("text", "the pattern of globmatch()")),
        BOOL,
        "whether a string matches a pattern of `*`, `?` and `[a-z]`", 'if (globmatch(comm, "post*")) { @ = count(); }',
        rule=_glob, fold=_matches, lower=operations.GLOB, needs=features.STRING_FUNCTIONS,
        ours=True,
    ),
    BuiltinFunction(
        "str_concat", "value", "str_concat(a, b)", (Parameter("string", "an argument of str_concat()"),) * 2, None,
        "two strings joined", '@[str_concat(comm, "!")] = count();', "string",
        rule=_concat, fold=lambda type, left, right: left + right, lower=operations.CONCAT,
    ),
    BuiltinFunction(
        "strrev", "value", "strrev(s)", (Parameter("string", "the argument of strrev()"),), None,
        "a string with its bytes in reverse", '@[strrev(comm)] = count();', "string",
        rule=lambda call: typed.Call(StringType(call.args[0].type.size), call.span, call.name, tuple(call.args)),
        fold=lambda type, text: text[::-1], ours=True,
        lower=Operation("strrev", "string → string", python="{0}[::-1]", c="reverse_text"),
    ),
    BuiltinFunction(
        "strerror", "value", "strerror(n)", (Parameter("integer", "the argument of strerror()"),), _ERROR_TEXT,
        "the C library's message for an error number, positive or negative",
        "@[strerror((int32)arg0)] = count();", "string",
        fold=lambda type, number: _error_text(number), lower=_described,
    ),
    BuiltinFunction(
        "signal_name", "value", "signal_name(n)", (Parameter("integer", "the argument of signal_name()"),), _ERROR_TEXT,
        "the description of a signal number", "@[signal_name((int32)arg1)] = count();", "string",
        fold=_signal_name, lower=_signal_word,
    ),
    BuiltinFunction(
        "default_str_length", "value", "default_str_length()", (), UINT64,
        "how many bytes str() has room for without a size", "print(default_str_length());",
        rule=lambda call: typed.IntLit(UINT64, call.span, call.context.config.max_strlen),
    ),
    BuiltinFunction(
        "uptr", "value", "uptr(pointer)", (Parameter("integer", "the argument of uptr()"),), None,
        "the pointer itself: every address is one of the traced program", "print(*uptr((int32 *)arg0));", "its own",
        rule=lambda call: call.args[0],
    ),
    BuiltinFunction(
        "strcap", "value", "strcap(s)", (Parameter("string", "the argument of strcap()"),), INT64,
        "how many bytes a string has room for, its NUL included", "printf(\"%d\\n\", strcap(comm));",
        rule=_strcap, fold=lambda type, text, size: size, lower=_capacity,
    ),
)  # fmt: skip
