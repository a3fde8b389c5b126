"""Rust's names as people write them, of both manglings, as `nm -C` and `rustfilt` show them: without hashes.

The legacy one looks like C++'s and ends in a hash: `_ZN4core3fmt9Formatter3pad17h0123456789abcdefE`. The other is v0:
`_RNvMs_NtCs1_4core3fmtNtB4_9Formatter3pad`. Source: RFC 2603 and the rustc book, "v0 symbol format"; what the printing
of a type leaves open is as in the crate rustc-demangle.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tracer.regex import regex

MAX_TEXT = 1 << 14
"""Longer names serve nobody. With backward references 100 bytes can mean a name of a gigabyte."""
_MAX_STEPS = 1 << 14
_MAX_DEPTH = 200

_LEGACY = regex(r"_ZN((?:[1-9][0-9]*[^0-9].*)?)17h[0-9a-f]{16}E(?:\..*)?", re.S)
_ESCAPED = regex(r"\$(SP|BP|RF|LT|GT|LP|RP|C|u([0-9a-f]{1,6}))\$|\.\.")
_SIGNS = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}

_BASIC = {
    "a": "i8", "b": "bool", "c": "char", "d": "f64", "e": "str", "f": "f32", "h": "u8", "i": "isize", "j": "usize",
    "l": "i32", "m": "u32", "n": "i128", "o": "u128", "p": "_", "s": "i16", "t": "u16", "u": "()", "v": "...",
    "x": "i64", "y": "u64", "z": "!",
}  # fmt: skip
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAMESPACES = {"C": "closure", "S": "shim"}


def demangle_rust(name: str) -> str | None:
    """The readable name, or None for what is no name of Rust's."""
    if name.startswith("_R"):
        try:
            return _V0(name).whole()
        except (_NotRust, ValueError, IndexError, OverflowError):
            return None
    if name.startswith("_ZN"):
        found = _LEGACY.fullmatch(name)
        return None if found is None else _legacy(found[1])
    return None


def _legacy(path: str) -> str | None:
    parts = []
    at = 0
    while at < len(path):
        digits = re.match(r"[1-9][0-9]{0,4}", path[at:])
        if digits is None or at + digits.end() + int(digits[0]) > len(path):
            return None
        at += digits.end() + int(digits[0])
        part = path[at - int(digits[0]) : at]
        parts.append(_ESCAPED.sub(_sign, part[1:] if part.startswith("_$") else part))
    return "::".join(parts) or None


def _sign(found: re.Match[str]) -> str:
    if found[1] is None:
        return "::"
    code = int(found[2], 16) if found[2] else 0
    text = chr(code) if 0 < code < 0x110000 else _SIGNS.get(found[1], found[0])
    return text if text.isprintable() else found[0]


class _NotRust(Exception):
    """The text is no name of Rust's, or too long a one."""


class _V0:
    """A cursor over a v0 name. Each method reads one production of the grammar and returns its text."""

    def __init__(self, name: str) -> None:
        self._name = name.partition(".")[0]  # behind it is the linker's or LLVM's
        self._at = 2
        self._steps = 0
        self._depth = 0
        self._bound = 0
        """Lifetimes that are bound around here."""

    def whole(self) -> str:
        if not self._name[2:3].isupper():
            raise _NotRust
        text = self._path(True)
        if self._at < len(self._name) and self._name[self._at].isupper():
            self._path(False)  # the crate that made this instance
        if self._at < len(self._name) or not text:
            raise _NotRust
        return text

    # --- letters and numbers --------------------------------------------------------------------------------------

    def _next(self) -> str:
        self._at += 1
        return self._name[self._at - 1]

    def _eat(self, letter: str) -> bool:
        eaten = self._name[self._at : self._at + 1] == letter
        self._at += eaten
        return eaten

    def _base_62(self) -> int:
        value = 0
        if self._eat("_"):
            return value
        while (letter := self._next()) != "_":
            value = value * 62 + _DIGITS.index(letter)
            if value > 1 << 64:
                raise _NotRust
        return value + 1

    def _optional(self, tag: str) -> int:
        return self._base_62() + 1 if self._eat(tag) else 0

    def _identifier(self) -> str:
        encoded = self._eat("u")
        digits = re.match(r"0|[1-9][0-9]{0,4}", self._name[self._at : self._at + 5])
        if digits is None:
            raise _NotRust
        length = int(digits[0])
        self._at += digits.end()
        self._eat("_")
        text = self._name[self._at : self._at + length]
        self._at += length
        if len(text) < length:
            raise _NotRust
        if encoded:
            before, under, after = text.rpartition("_")
            text = f"{before}{'-' if under else ''}{after}".encode("ascii").decode("punycode")
            if not text.isprintable():
                raise _NotRust
        return text

    # --- productions ----------------------------------------------------------------------------------------------

    def _entered(self) -> None:
        self._steps += 1
        self._depth += 1
        if self._steps > _MAX_STEPS or self._depth > _MAX_DEPTH:
            raise _NotRust

    def _left(self, text: str) -> str:
        self._depth -= 1
        if len(text) > MAX_TEXT:
            raise _NotRust
        return text

    def _back(self) -> int:
        """Goes where a backward reference points, and returns the place to go on at."""
        start = self._at - 1
        target = self._base_62() + 2
        if target >= start:
            raise _NotRust
        after, self._at = self._at, target
        return after

    def _path(self, value: bool, open_generics: bool = False) -> str:
        """`value`: it stands where an expression would, so generic arguments follow `::`. With `open_generics` their
        closing bracket is left out.
        """
        self._entered()
        tag = self._next()
        if tag == "C":
            self._optional("s")
            text = self._identifier()
        elif tag == "N":
            space = self._next()
            text = self._path(value)
            number, name = self._optional("s"), self._identifier()
            if space.isupper():
                text += f"::{{{_NAMESPACES.get(space, space)}{':' if name else ''}{name}#{number}}}"
            elif name:
                text += f"::{name}"
        elif tag in "MXY":
            if tag != "Y":
                self._optional("s")
                self._path(False)  # where the `impl` stands
            text = f"<{self._type()}"
            text += ">" if tag == "M" else f" as {self._path(False)}>"
        elif tag == "I":
            text = self._path(value) + ("::" if value else "") + "<"
            text += ", ".join(self._until_end(self._argument)) + ("" if open_generics else ">")
        elif tag == "B":
            after = self._back()
            text = self._path(value, open_generics)
            self._at = after
        else:
            raise _NotRust
        return self._left(text)

    def _until_end(self, read: Callable[[], str]) -> list[str]:
        items = []
        while not self._eat("E"):
            items.append(read())
        return items

    def _argument(self) -> str:
        if self._eat("L"):
            return self._lifetime(self._base_62())
        return self._constant() if self._eat("K") else self._type()

    def _lifetime(self, index: int) -> str:
        if index == 0:
            return "'_"
        depth = self._bound - index
        if depth < 0:
            raise _NotRust
        return f"'{chr(ord('a') + depth)}" if depth < 26 else f"'_{depth}"

    def _binder(self) -> str:
        count = self._optional("G")
        if count > 100:
            raise _NotRust
        names = []
        for _ in range(count):
            self._bound += 1
            names.append(self._lifetime(1))
        return f"for<{', '.join(names)}> " if names else ""

    def _type(self) -> str:
        self._entered()
        tag = self._next()
        if tag in _BASIC:
            text = _BASIC[tag]
        elif tag in "RQ":
            lifetime = self._base_62() if self._eat("L") else 0
            text = "&" + (f"{self._lifetime(lifetime)} " if lifetime else "") + ("mut " if tag == "Q" else "")
            text += self._type()
        elif tag in "PO":
            text = ("*const " if tag == "P" else "*mut ") + self._type()
        elif tag in "AS":
            text = f"[{self._type()}" + (f"; {self._constant()}]" if tag == "A" else "]")
        elif tag == "T":
            items = self._until_end(self._type)
            text = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        elif tag == "F":
            text = self._function()
        elif tag == "D":
            text = self._dyn()
        elif tag == "B":
            after = self._back()
            text = self._type()
            self._at = after
        else:
            self._at -= 1
            text = self._path(False)
        return self._left(text)

    def _function(self) -> str:
        bound = self._bound
        text = self._binder() + ("unsafe " if self._eat("U") else "")
        if self._eat("K"):
            text += f'extern "{"C" if self._eat("C") else self._identifier().replace("_", "-")}" '
        text += f"fn({', '.join(self._until_end(self._type))})"
        if not self._eat("u"):
            text += f" -> {self._type()}"
        self._bound = bound
        return text

    def _dyn(self) -> str:
        bound = self._bound
        text = "dyn " + self._binder() + " + ".join(self._until_end(self._trait))
        self._bound = bound
        if not self._eat("L"):
            raise _NotRust
        lifetime = self._base_62()
        return text + (f" + {self._lifetime(lifetime)}" if lifetime else "")

    def _trait(self) -> str:
        text = self._path(False, open_generics=True)
        opened = _unclosed(text)
        while self._eat("p"):
            text += (", " if opened else "<") + f"{self._identifier()} = "
            text += self._type()
            opened = True
        return text + (">" if opened else "")

    def _constant(self) -> str:
        self._entered()
        tag = self._next()
        if tag == "B":
            after = self._back()
            text = self._constant()
            self._at = after
        elif tag == "p":
            text = "_"
        elif tag in "abchijlmnostxy":
            sign = "-" if tag in "ilnsxa" and self._eat("n") else ""
            end = self._name.index("_", self._at)
            digits = self._name[self._at : end]
            if re.fullmatch(r"[0-9a-f]*", digits) is None:
                raise _NotRust
            self._at = end + 1
            text = sign + _number(tag, digits)
        else:
            raise _NotRust  # values of types of their own: no stable compiler writes them
        return self._left(text)


def _unclosed(text: str) -> bool:
    """Whether generic arguments were left open: `->` closes nothing."""
    text = text.replace("->", "")
    return text.count("<") > text.count(">")


def _number(tag: str, digits: str) -> str:
    value = int(digits or "0", 16)
    if tag == "b":
        return {0: "false", 1: "true"}[value]
    if tag == "c":
        text = chr(value)
        return f"'{text}'" if text.isascii() and text.isprintable() and text not in " ~" else f"'\\u{{{value:x}}}'"
    return f"0x{digits}" if len(digits) > 16 else str(value)
