"""Single values as text and as JSON: one function for each type, made once and called for every value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tracer.errors import printable
from tracer.host.clock import boot_time_ns
from tracer.lang.types import (
    ArrayType,
    BoolType,
    CgroupPathType,
    EnumType,
    FloatType,
    IntType,
    KernelSymbolType,
    PointerType,
    StackType,
    StringType,
    StructType,
    SymbolType,
    SyscallType,
    TimestampType,
    TupleType,
    Type,
    UsernameType,
    is_of_kernel,
)

if TYPE_CHECKING:
    from tracer.host.maps import Mapping
    from tracer.lang.types import Stack

Show = Callable[[Any], bytes]
"""From a value in the form of `lang.types` to its bytes."""

_FRAME_INDENT = b" " * 8


class Symbolizer(Protocol):
    """Names addresses of processes, as far as it can; an address that it cannot name is shown as `0x…`."""

    def symbol(self, pid: int, address: int) -> str:
        """The name of the symbol that holds the address, without an offset (`usym`)."""

    def frame(self, pid: int, address: int, returned: bool = False) -> str:
        """The symbol with the offset, `name+12` in decimal (one line of `ustack`). With `returned` the address is one
        that a call returns to.
        """

    def interrupts(self, pid: int, address: int) -> bool:
        """Whether a signal's handler returns there: the next frame of a stack was stopped by the signal, so its
        address is not one that a call returns to.
        """

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        """The functions that were inlined there, innermost first, and the one that holds the address, each with
        `file:line`; nothing where that is not asked for or not known (`show_debug_info`).
        """

    def path(self, pid: int, address: int) -> str | None:
        """The file that is mapped there; None where none is known."""

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        """The build-id of that file in hexadecimal, and the offset in the file in bytes."""

    def mapping(self, pid: int, address: int) -> Mapping | None:
        """The mapping that holds an address."""


def frames_of(stack: Stack, symbols: Symbolizer) -> Iterator[tuple[int, bool]]:
    """The addresses, innermost first, each with whether a call returns to it."""
    returned = False
    for depth, address in enumerate(stack.addresses):
        yield address, returned
        returned = not (depth and symbols.interrupts(stack.pid, address))


class _Numbers:
    def symbol(self, pid: int, address: int) -> str:
        return f"{address:#x}"

    def frame(self, pid: int, address: int, returned: bool = False) -> str:
        return f"{address:#x}"

    def interrupts(self, pid: int, address: int) -> bool:
        return False

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        return []

    def path(self, pid: int, address: int) -> str | None:
        return None

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        return None

    def mapping(self, pid: int, address: int) -> Mapping | None:
        return None


NUMBERS = _Numbers()
"""Names nothing."""


class ValueText:
    """Values as bpftrace writes them: `(1, two)`, a stack as one indented line for each frame. `escape` is for what
    others can choose: texts of the traced program, names of its functions and types.
    """

    def __init__(
        self, symbolizer: Symbolizer | None = None, escape: Callable[[bytes], bytes] | None = None
    ) -> None:
        self._symbols = symbolizer if symbolizer is not None else NUMBERS
        self._boot_ns = boot_time_ns()
        self.escape = escape
        self.raw = self if escape is None else ValueText(symbolizer)
        """The same without escapes."""

    def of(self, type: Type) -> Show:
        """The function for a type."""
        escape = self.escape
        if escape is not None and not isinstance(type, TupleType | PointerType) and (
            not isinstance(type, IntType | BoolType | FloatType | TimestampType) or isinstance(type, EnumType)
        ):
            show = self.raw.of(type)
            return lambda value: escape(show(value))
        match type:
            case PointerType():
                return _pointer
            case EnumType():
                return lambda value: _encoded(type.word(value) or str(value))
            case IntType():
                return b"%d".__mod__
            case ArrayType() | StructType():
                from tracer.render import blocks

                return blocks.text(type, self.of)
            case BoolType():
                return _bool
            case StringType(size=size, trailer=trailer) if trailer:
                end = trailer.encode("utf-8", "surrogateescape")
                return lambda text: text + end if len(text) == size - 1 else text
            case StringType():
                return bytes
            case TupleType(items=items, names=names):
                return self._tuple(items, names)
            case StackType(mode=mode):
                line = self._FRAMES[mode]
                return lambda stack: b"\n" + b"".join(
                    [line(self, stack.pid, address, returned) for address, returned in frames_of(stack, self._symbols)]
                )
            case SymbolType():
                return self._symbol
            case KernelSymbolType():
                return lambda address: _encoded(self._symbols.symbol(0, address))
            case UsernameType():
                return username
            case CgroupPathType(names=names):
                from tracer.host.tables.cgroups import paths_of

                return lambda number: _encoded(paths_of(number, names))
            case TimestampType(format=format):
                from tracer.host.clock import format_time

                return lambda nanoseconds: format_time(format, self._boot_ns + nanoseconds)
            case FloatType(bits=bits):
                from tracer.render import floats

                return lambda value: floats.text(value, bits)
            case _:
                raise TypeError(f"a value of type {type} cannot be shown")

    def key(
        self, types: tuple[Type, ...], join: bytes = b", ", item_join: bytes = b", ", own_parts: tuple[bool, ...] = ()
    ) -> Show:
        """The function for a map's keys: the parts without parentheses, joined by `join`. The `own_parts` are
        the program's own, and need no escape.

        Parts that are tuples themselves keep their parentheses and use `item_join`.
        """
        texts = [self.raw if is_own else self for is_own in own_parts or (False,) * len(types)]
        parts = [text._part(type, item_join) for text, type in zip(texts, types, strict=True)]
        if len(parts) == 1:
            only = parts[0]
            return lambda key: only(key[0])
        return lambda key: join.join([show(part) for show, part in zip(parts, key, strict=True)])

    def _part(self, type: Type, join: bytes) -> Show:
        return self._tuple(type.items, type.names, join) if isinstance(type, TupleType) else self.of(type)

    def _tuple(self, items: tuple[Type, ...], names: tuple[str, ...], join: bytes = b", ") -> Show:
        parts = [self._part(item, join) for item in items]
        if not names:
            return lambda value: b"(%b)" % join.join([show(item) for show, item in zip(parts, value, strict=True)])
        start, equals, end = (b"{ ", b" = ", b" }") if join == b", " else (b"{", b"=", b"}")
        heads = [b".%b%b" % (printable(name).encode(), equals) for name in names]
        return lambda value: (
            start
            + join.join([head + show(item) for head, show, item in zip(heads, parts, value, strict=True)])
            + end
        )

    def _frame(self, pid: int, address: int, returned: bool) -> bytes:
        name = self._symbols.frame(pid, address, returned)
        *inlined, (_, place) = self._symbols.sources(pid, address, returned) or [("", "")]
        functions = [f"[inlined] {function}{_line_suffix(where)}" for function, where in inlined]
        lines = [*functions, f"{name}{_line_suffix(place)}"]
        return b"".join([b"%b%b\n" % (_FRAME_INDENT, _encoded(line)) for line in lines])

    def _perf_frame(self, pid: int, address: int, returned: bool) -> bytes:
        name, path = self._symbols.frame(pid, address, returned), self._symbols.path(pid, address)
        inlined = self._symbols.sources(pid, address, returned)[:-1]
        where = "" if is_of_kernel(address) else f" ({path or '[unknown]'})"
        lines = [*(f"{function} (inlined)" for function, _ in inlined), f"{name}{where}"]
        return b"".join([b"\t%x %b\n" % (address, _encoded(line)) for line in lines])

    def _raw_frame(self, pid: int, address: int, returned: bool) -> bytes:
        return b"%x\n" % address

    def _build_id_frame(self, pid: int, address: int, returned: bool) -> bytes:
        identity = self._symbols.build_id(pid, address)
        return b"%x\n" % address if identity is None else b"%b 0x%x\n" % (identity[0].encode(), identity[1])

    _FRAMES: ClassVar = {
        "bpftrace": _frame, "python": _frame, "perf": _perf_frame, "raw": _raw_frame, "build_id": _build_id_frame,
    }  # fmt: skip
    """One line of a stack, by the modes of `lang.builtins.stacks`."""

    def _symbol(self, symbol: Any) -> bytes:
        return _encoded(self._symbols.symbol(symbol.pid, symbol.address)) if symbol.address else b"0"


def _line_suffix(place: str) -> str:
    return f"@{place}" if place else ""


def json_value(type: Type, text: ValueText) -> Show:
    """Values as bpftrace's `-f json` writes them: tuples as arrays without blanks, what is text as a string."""
    match type:
        case SyscallType():
            called = text.of(type)
            return lambda value: json_string(called(value))
        case IntType():
            return json_number
        case BoolType():
            return _bool
        case ArrayType() | StructType():
            from tracer.render import blocks

            return blocks.json(type, lambda item: json_value(item, text), json_string)
        case TupleType(items=items, names=names) if names:
            shown = [(json_string(_encoded(name)), json_value(i, text)) for name, i in zip(names, items, strict=True)]
            return lambda value: b"{%b}" % b", ".join(
                [b"%b: %b" % (name, show(v)) for (name, show), v in zip(shown, value, strict=True)]
            )
        case TupleType(items=items):
            parts = [json_value(item, text) for item in items]
            return lambda value: b"[%b]" % b",".join([show(v) for show, v in zip(parts, value, strict=True)])
        case FloatType(bits=bits):
            from tracer.render import floats

            return lambda value: floats.json(value, bits)
        case _:
            show_text = text.of(type)
            return lambda value: json_string(show_text(value))


def json_key(types: tuple[Type, ...], text: ValueText) -> Show:
    """A map's keys: one string, its parts joined by commas."""
    show = text.key(types, b",", b",")
    return lambda key: json_string(show(key))


def json_number(value: int) -> bytes:
    """A number; a string where a double could not hold it, since many readers of JSON know no other numbers."""
    try:
        exact = int(float(value)) == value
    except OverflowError:
        exact = False
    return b"%d" % value if exact else b'"%d"' % value


def json_string(text: bytes) -> bytes:
    """A JSON string in UTF-8. Bytes that are not UTF-8 become U+FFFD: JSON has no way to say them."""
    from json.encoder import encode_basestring  # its package takes a hundredth of the whole start

    quoted = encode_basestring(text.decode("utf-8", "replace"))
    if "\\b" in quoted or "\\f" in quoted:
        quoted = _with_long_escapes(quoted)
    return quoted.encode()


def _with_long_escapes(quoted: str) -> str:
    """Backspace and form feed as bpftrace spells them, by code point; a backslash that is itself escaped stays."""
    parts = quoted.split("\\\\")
    return "\\\\".join(part.replace("\\b", "\\u0008").replace("\\f", "\\u000c") for part in parts)


@lru_cache(maxsize=1024)
def username(uid: int) -> bytes:
    """The user's name, or the number where the user database has none."""
    import pwd

    try:
        return _encoded(pwd.getpwuid(uid).pw_name)
    except (KeyError, OverflowError):
        return b"%d" % uid


def _pointer(value: int) -> bytes:
    return b"0x%x" % value


def _bool(value: object) -> bytes:
    return b"true" if value else b"false"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
