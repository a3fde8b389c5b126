"""Bytes as values: buffers, addresses of networks, and what compares them.

A buffer is a block of memory: its length in eight bytes, then room for as many as its type says.
"""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V
from tracer.lang.fold import constant, convert, laid_out
from tracer.lang.types import (
    INET,
    MAC,
    UINT64,
    ArrayType,
    BufferType,
    IntType,
    MacType,
    PointerType,
    StringType,
    StructType,
    TupleType,
    Type,
    memory_size,
    operations,
)
from tracer.lang.types.combine import a_type

UINT8, INT32, UINT32 = IntType(8, False), IntType(32, True), IntType(32, False)
_AF_INET, _AF_INET6 = 2, 10


def _bytes(size: int) -> ArrayType:
    return ArrayType(UINT8, size)


def _block(value: typed.Expr, type: ArrayType) -> typed.Expr:
    """An array of chars as its bytes (by itself it is text); or bytes at an address."""
    if isinstance(value, typed.Str) and value.array:
        return typed.Load(type, value.span, value.address)
    if isinstance(value, typed.Part):
        return replace(value, type=type)
    if isinstance(value.type, IntType):
        return typed.Load(type, value.span, convert(value, UINT64))
    return value


def _array_size(value: typed.Expr) -> int | None:
    """The bytes of an array; None for other types."""
    if isinstance(value.type, StringType) and (
        isinstance(value, typed.Part) or (isinstance(value, typed.Str) and value.array)
    ):
        return value.type.size - 1
    return memory_size(value.type) if isinstance(value.type, ArrayType | StructType) else None


def _reads(call: Call, value: typed.Expr) -> bool:
    """Whether memory can be read here; reports it otherwise."""
    if not isinstance(value.type, IntType):
        return True
    return call.context.reads_memory(value.span, "keep it where the probe is hit", value)


def _buf(call: Call) -> typed.Expr | None:
    source, *rest = call.args
    length = rest[0] if rest else None
    most = call.context.config.max_strlen
    if isinstance(source, bytes):
        return _of_text(call, source, length, most)
    if not isinstance(source.type, StringType | IntType | ArrayType | StructType):
        call.error(f"buf() needs a pointer, a string or an array, not {a_type(source.type)}", source.span)
        return None
    room = _array_size(source) if length is None else None
    if length is None and room is None:
        call.error(f"buf() of {a_type(source.type)} needs a length", call.span, "write buf(pointer, length)")
        return None
    given = room if length is None else constant(length)
    if given is not None and given < 0:
        call.error(f"the length of buf() is negative: {given}", call.spans[-1])
        return None
    if not _reads(call, source):
        return None
    size = most if given is None else min(given, most)
    if given is not None and given > most:
        call.context.warn(f"the length of buf() is cut to {most}", call.spans[-1], "config = { max_strlen = N }")
    measure = convert(length, UINT64) if given is None and length is not None else _number(size, call)
    type = BufferType.of(size)
    if isinstance(source.type, IntType) and given is None:
        return typed.Call(type, call.span, "buf", (convert(source, UINT64), measure))
    if size == 0:
        return typed.StrLit(type, call.span, bytes(8))
    block = source if isinstance(source.type, StringType) and length is not None else _block(source, _bytes(size))
    return typed.Call(type, call.span, "buf", (block, measure))


def _of_text(call: Call, text: bytes, length: typed.Expr | None, most: int) -> typed.Expr | None:
    given = None if length is None else constant(length)
    if length is None:
        call.error("buf() of a text needs a length", call.span, f"write buf(…, {len(text)})")
        return None
    if given is None:
        block = typed.StrLit(_bytes(len(text) + 1), call.spans[0], text + b"\0")
        return typed.Call(BufferType.of(len(text) + 1), call.span, "buf", (block, convert(length, UINT64)))
    if given < 0:
        call.error(f"the length of buf() is negative: {given}", call.spans[1])
        return None
    size = min(given, most)
    return typed.StrLit(BufferType.of(size), call.span, size.to_bytes(8, "little") + text[:size].ljust(size, b"\0"))


def _buffer(ctx: Lowering[V], call: typed.Call) -> V:
    source, length = call.args
    assert isinstance(call.type, BufferType)
    size = ctx.constant(call.type.room, UINT64)
    wanted = ctx.once(ctx.value(length))
    shown = ctx.select(ctx.compare("<", wanted, size), wanted, size)
    if isinstance(source.type, IntType):
        shown = ctx.once(shown)
        block = ctx.bytes_at(source, _bytes(call.type.room), shown, call.span)
        return ctx.op(operations.BUFFER, call.type, block, shown)
    return ctx.op(operations.BUFFER, call.type, ctx.value(source), shown)


def _number(value: int, call: Call, type: Type = UINT64) -> typed.Expr:
    return typed.IntLit(type, call.span, value)


# --- addresses of networks


def _inet(call: Call, family: int, address: tuple[typed.Expr, ...]) -> typed.Expr:
    """An address: its family in eight bytes, then sixteen for the address."""
    rest = 16 - sum(memory_size(part.type) for part in address)
    zeros = [_number(0, call, UINT8)] * (rest % 8) + [_number(0, call)] * (rest // 8)
    return typed.Pack(INET, call.span, (_number(family, call), *address, *zeros))


def _ntop(call: Call) -> typed.Expr | None:
    *families, value = call.args
    family = families[0] if families else None
    if family not in (None, _AF_INET, _AF_INET6):
        call.error(f"ntop() has no family {family}", call.spans[0], "2 is AF_INET, 10 is AF_INET6")
        return None
    size = _array_size(value)
    if size is None and isinstance(value.type, IntType) and not isinstance(value.type, PointerType):
        return _inet(call, _AF_INET if family is None else family, (convert(value, UINT32),))
    if size not in (4, 16):
        call.error(f"ntop() takes a number or an array of 4 or 16 bytes, not {a_type(value.type)}", value.span)
        return None
    value = _block(value, _bytes(size))
    parts = (UINT32,) if size == 4 else (UINT64, UINT64)
    offsets = (0, 8)[: len(parts)]
    address = tuple(
        typed.Part(type, value.span, value, _number(offset, call)) for type, offset in zip(parts, offsets, strict=True)
    )
    return _inet(call, family if family is not None else _AF_INET if size == 4 else _AF_INET6, address)


def _pton(call: Call) -> typed.Expr | None:
    (text,) = call.args
    from socket import AF_INET, AF_INET6, inet_pton

    try:
        if text.startswith("::ffff:") and "." in text:
            raise OSError  # bpftrace takes what has a dot for IPv4
        packed = inet_pton(AF_INET6 if ":" in text else AF_INET, text)
    except (OSError, ValueError):
        call.error(f"'{text}' is not an address", call.spans[0], 'write "127.0.0.1" or "::1"')
        return None
    return typed.StrLit(_bytes(len(packed)), call.span, packed)


def _macaddr(call: Call) -> typed.Expr | None:
    value: typed.Expr = call.args[0]
    if not isinstance(value.type, IntType) and _array_size(value) != 6:
        call.error(f"macaddr() takes an array of 6 bytes or a pointer, not {a_type(value.type)}", value.span)
        return None
    if not _reads(call, value):
        return None
    if isinstance(value.type, MacType):
        return value
    block = _block(value, MAC)
    return replace(block, type=MAC) if isinstance(block, typed.Load | typed.Part | typed.Pack) else block


# --- comparing


def _memcmp(call: Call) -> typed.Expr | None:
    *sides, count = call.args
    size = constant(count)
    if size is not None and size < 0:
        call.error(f"the count of memcmp() is negative: {size}", call.spans[2])
        return None
    if call.name == "memcmp_record" and isinstance(sides[0].type, TupleType) and isinstance(sides[1].type, TupleType):
        if sorted(sides[0].type.names) != sorted(sides[1].type.names):
            call.error("memcmp_record() compares records of the same fields", call.span)
            return None
        sides[1] = convert(sides[1], sides[1].type.ordered(sides[0].type.names))
    operands = [laid_out(side, size) for side in sides]
    for side, laid in zip(sides, operands, strict=True):
        if laid is None:
            call.error(f"memcmp() compares numbers, strings, tuples and blocks, not {a_type(side.type)}", side.span)
    blocks = tuple(filter(None, operands))
    return typed.Call(INT32, call.span, "memcmp", (*blocks, convert(count, UINT64))) if len(blocks) == 2 else None


def _compared(ctx: Lowering[V], call: typed.Call) -> V:
    return ctx.wrap(ctx.op(operations.MEMCMP, INT32, *map(ctx.value, call.args)), INT32)


FUNCTIONS = (
    BuiltinFunction(
        "buf", "value", "buf(address, length)", (Parameter("bytes"), Parameter("integer", "the length of buf()")), None,
        "that many bytes at an address, or of a string or an array (all of it without a length)",
        'printf("%r\\n", buf(arg0, 16));', "buffer", optional=1, rule=_buf, lower=_buffer,
    ),
    BuiltinFunction(
        "memcmp", "value", "memcmp(a, b, n)",
        (Parameter("laid out"), Parameter("laid out"), Parameter("integer", "the count of memcmp()")), INT32,
        "the difference of the first of n bytes that differ, as signed chars; 0 if none does",
        'if (memcmp(comm, "post", 4) == 0) { @ = count(); }', rule=_memcmp,
        lower=_compared,
    ),
    BuiltinFunction(
        "memcmp_record", "value", "memcmp_record(a, b, n)",
        (Parameter("laid out"), Parameter("laid out"), Parameter("integer", "the count of memcmp_record()")), INT32,
        "the same of two records, the second with its fields in the order of the first",
        "print(memcmp_record((a=1, b=2), (b=2, a=1), 2));", rule=_memcmp, lower=_compared,
    ),
    BuiltinFunction(
        "ntop", "value", "ntop([family,] address)",
        (Parameter("optional constant", "the family of ntop()"), Parameter("value")), None,
        "an IPv4 address (a number or 4 bytes) or an IPv6 address (16 bytes)", "print(ntop((uint32)arg0));", "inet",
        optional=1, rule=_ntop,
    ),
    BuiltinFunction(
        "pton", "value", "pton(text)", (Parameter("text", "the address of pton()"),), None,
        "the bytes of an address that is written in the program", 'print(pton("127.0.0.1")[0]);', "uint8[4] or [16]",
        rule=_pton,
    ),
    BuiltinFunction(
        "macaddr", "value", "macaddr(bytes)", (Parameter("memory"),), None,
        "6 bytes at an address or of an array as a hardware address", "print(macaddr(arg0));", "mac address",
        rule=_macaddr,
    ),
)  # fmt: skip
