"""printf formats, compiled once into a Python callable from values to bytes.

C's rules for flags, width, precision and sizes hold: without a modifier a conversion shows 32 bits (`%d` of a 64-bit
number is its low half, as in bpftrace 0.26 and in C), `h` 16, `hh` 8, and `l ll j z t` 64. `%p` of 0 is `0`, as in
bpftrace. `%s` shows a value of any type as print() does.

Most conversions become one of Python's bytes `%` operator; where C and Python differ (`#`, a precision of an integer) a
function makes the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from tracer.dataclass import NamedTuple
from tracer.lang.builtins.formats import MOST_WIDTH
from tracer.lang.typed import Printf, Program
from tracer.lang.types import BoolType, EnumType, FloatType, IntType, PointerType, StringType, Type, Value
from tracer.lang.walk import walk_clause
from tracer.render.value_text import Show, ValueText

Format = Callable[[tuple[Value, ...]], bytes]

PLAIN_BITS = 32
"""What `%d`, `%u`, `%x` … show without a length modifier: C's int."""

_BITS = {"hh": 8, "h": 16, "": PLAIN_BITS, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64}
_CONVERSION = (
    r"%(?P<flags>[-+ #0']*)(?P<width>\*|[0-9]*)(?:\.(?P<precision>\*|[0-9]*))?"
    r"(?P<length>hh|h|ll|l|j|z|t)?(?P<kind>r[xh]?|[diuxXocpsfFeEgG%])"
)


class _Spec(NamedTuple):
    flags: str
    width: int
    precision: int | None
    length: str
    kind: str

    @property
    def align(self) -> str:
        """Width with the flag for the left side, for a text."""
        return f"{'-' if '-' in self.flags else ''}{self.width or ''}"


def compiled_formats(
    program: Program, values: Callable[[int], ValueText], own_arguments: Callable[[int], Sequence[int]]
) -> dict[int, Format]:
    """The function for each index into `Program.formats` that a printf uses. One index stands for one list of types.
    `values` has the texts for an index, `own_arguments` which of its arguments are the program's own.
    """
    return {
        index: compile_format(program.formats[index], types, values(index), own_arguments(index))
        for index, types in argument_types(program).items()
    }


def argument_types(program: Program) -> dict[int, tuple[Type, ...]]:
    """The types of the arguments, for each index into `Program.formats` that a printf uses."""
    types: dict[int, tuple[Type, ...]] = {}
    for clause in program.clauses:
        for node in walk_clause(clause):
            if isinstance(node, Printf):
                arguments = tuple(arg.type for arg in node.args)
                if types.setdefault(node.format, arguments) != arguments:
                    raise ValueError(f"format {node.format} is used with arguments of different types")
    return types


def compile_format(format: str, types: Sequence[Type], texts: ValueText, own_arguments: Sequence[int] = ()) -> Format:
    """The function for a format and the types of its arguments: one for each conversion, before it one for each `*`.
    Those whose places are in `own_arguments` need no escape.

    What is no conversion is text. Bytes that are not UTF-8 stand in `format` as surrogate escapes.
    """
    template: list[bytes] = []
    arguments: list[str] = []
    names: dict[str, object] = {}
    end = taken = 0
    for match in re.finditer(_CONVERSION, format):
        template.append(_literal(format[end : match.start()]))
        end = match.end()
        if match["kind"] == "%":
            template.append(b"%%")
            continue
        precision = match["precision"]
        stars = (match["width"], precision).count("*")
        if stars:
            index, taken = taken + stars, taken + stars + 1
            values = texts.raw if index in own_arguments else texts
            names[f"f{index}"] = _measured(match[0], types[index], values)
            given = ", ".join(f"a[{place}]" for place in range(index - stars, taken))
            template.append(b"%b")
            arguments.append(f"f{index}({given})")
            continue
        spec = _Spec(
            match["flags"],
            int(match["width"] or 0),
            None if precision is None else int(precision or 0),
            match["length"] or "",
            match["kind"],
        )
        index, taken = taken, taken + 1
        type, values = types[index], texts.raw if index in own_arguments else texts
        if spec.kind[0] == "r":
            show = _buffer(spec)
        elif spec.kind == "s":
            show = _text(spec, type, values)
        else:
            show = _real(spec, type) if isinstance(type, FloatType) else _integer(spec, type, values)
        template.append(show.template.encode())
        if show.function is None:
            arguments.append(show.expression.format(f"a[{index}]"))
        else:
            names[f"f{index}"] = show.function
            arguments.append(f"f{index}(a[{index}])")
    template.append(_literal(format[end:]))
    return _assembled(b"".join(template), arguments, names)


class _Shown(NamedTuple):
    """One argument: a conversion of Python's `%`, and what it is given, as an expression of the value or a function."""

    template: str
    expression: str = "{}"
    function: Show | None = None


def _literal(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape").replace(b"%", b"%%")


def _assembled(template: bytes, arguments: list[str], names: dict[str, object]) -> Format:
    if not arguments:
        text = template % ()
        return lambda a: text
    if all(argument == f"a[{index}]" for index, argument in enumerate(arguments)):
        return template.__mod__
    # Only digits and names of our own stand in this source; the format itself is bound to a name.
    source = f"lambda a: template % ({', '.join(arguments)},)"
    format: Format = eval(source, {"__builtins__": {}, "template": template, **names})
    return format


def _measured(conversion: str, type: Type, values: ValueText) -> Callable[..., bytes]:
    """A conversion whose width or precision comes with the value: a negative width means the left side, a negative
    precision none, as in C.
    """

    @lru_cache(maxsize=64)
    def fixed(measures: tuple[int, ...]) -> Format:
        text = conversion
        for number in measures:
            if text.startswith(".", text.index("*") - 1):
                text = text.replace("*", str(number), 1) if number >= 0 else text.replace(".*", "", 1)
            else:
                text = text.replace("*", f"{'-' * (number < 0)}{abs(number)}", 1)
        return compile_format(text, (type,), values)

    def show(*given: int) -> bytes:
        *measures, value = given
        return fixed(tuple(max(-MOST_WIDTH, min(_as_int(number), MOST_WIDTH)) for number in measures))((value,))

    return show


def _as_int(number: int) -> int:
    return ((number & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000


def _text(spec: _Spec, type: Type, values: ValueText) -> _Shown:
    cut = "" if spec.precision is None else f".{spec.precision}"
    template = f"%{spec.align}{cut}b"
    if (escape := values.escape) is not None and cut:
        show, most = values.raw.of(type), spec.precision
        return _Shown(f"%{spec.align}b", function=lambda value: escape(show(value)[:most]))
    if isinstance(type, StringType) and not type.trailer and escape is None:
        return _Shown(template)
    if isinstance(type, IntType) and not isinstance(type, (EnumType, PointerType)) and spec.precision is None:
        return _Shown(f"%{spec.align}d")
    return _Shown(template, function=values.of(type))


def _buffer(spec: _Spec) -> _Shown:
    from tracer.render import blocks

    shown: dict[str, Show] = {
        "r": blocks.escaped,
        "rx": lambda buffer: b"".join([b"\\x%02x" % byte for byte in blocks.content(buffer)]),
        "rh": lambda buffer: blocks.content(buffer).hex(" ").encode(),
    }
    return _Shown(f"%{spec.align}b", function=shown[spec.kind])


def _real(spec: _Spec, type: FloatType) -> _Shown:
    from tracer.render import floats

    flags = "".join(flag for flag in "-+ #0" if flag in spec.flags)
    width, precision = str(spec.width or ""), "" if spec.precision is None else f".{spec.precision}"
    return _Shown("%b", function=floats.conversion(flags, width, precision, spec.kind, type.bits))


def _integer(spec: _Spec, type: Type, values: ValueText) -> _Shown:
    kind = "d" if spec.kind == "i" else spec.kind
    if kind == "c":
        if (escape := values.escape) is not None:
            return _Shown(f"%{spec.align}b", function=lambda value: escape(b"%c" % (value & 255)))
        return _Shown(f"%{spec.align}c", "({} & 255)")
    if kind == "p":
        return _Shown(f"%{spec.align}b", function=_pointer)
    bits = _BITS[spec.length]
    signed = kind == "d"
    expression = "{}" if _fits(type, bits, signed) else _cut(bits, signed)
    if spec.precision is not None or "#" in spec.flags:
        return _Shown(f"%{spec.align}b", function=_careful(spec, kind, bits))
    flags = "".join(flag for flag in "-0" if flag in spec.flags)
    if signed:
        flags += "+" if "+" in spec.flags else " " if " " in spec.flags else ""
    return _Shown(f"%{flags}{spec.width or ''}{'d' if kind == 'u' else kind}", expression)


def _fits(type: Type, bits: int, signed: bool) -> bool:
    if isinstance(type, BoolType):
        return True
    if not isinstance(type, IntType):
        return False
    if type.signed == signed:
        return type.bits <= bits
    return signed and type.bits < bits


def _cut(bits: int, signed: bool) -> str:
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    return f"((({{}} & {mask}) ^ {sign}) - {sign})" if signed else f"({{}} & {mask})"


def _pointer(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return b"0x%x" % value if value else b"0"


def _careful(spec: _Spec, kind: str, bits: int) -> Show:
    """An integer with a precision or the flag `#`, padded to its width with zeros where C does so."""
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    pad_with_zeros = "0" in spec.flags and "-" not in spec.flags and spec.precision is None

    def show(value: int) -> bytes:
        value &= mask
        prefix = ""
        if kind == "d":
            value = (value ^ sign) - sign
            prefix = "-" if value < 0 else "+" if "+" in spec.flags else " " if " " in spec.flags else ""
        digits = format(abs(value), "d" if kind in "du" else kind)
        if spec.precision == 0 and value == 0:
            digits = ""
        digits = digits.rjust(spec.precision or 0, "0")
        if "#" in spec.flags:
            if kind in "xX" and value:
                prefix = f"0{kind}"
            elif kind == "o" and not digits.startswith("0"):
                digits = f"0{digits}"
        if pad_with_zeros:
            digits = digits.rjust(spec.width - len(prefix), "0")
        return (prefix + digits).encode()

    return show
