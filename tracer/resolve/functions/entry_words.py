"""`arg0`, `arg1`, … of an i386 function are the words of its arguments, where its compiler has put them.

The convention puts them on the stack. A function that only its own file calls, or that is marked for it, gets them in
registers, and no symbol says so: debug information does (`dwarf.calls.i386`). Where it is missing, such a function has
arguments that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import TracerError
from tracer.kinds.site import REGISTER_ARGUMENT, REGISTERS_32, ArgSpec, FileSite, Mem, Reg, Unreadable
from tracer.lang.types import memory_size
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.parameters import parameters_at
from tracer.resolve.dwarf.debug_info import asked
from tracer.resolve.dwarf.functions import attribute, function_at
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries

if TYPE_CHECKING:
    from tracer.resolve.binary import Binary

_HIDDEN = "it is the address for what the function returns"
_UNKNOWN = "only its own file calls the function, so it may be in a register; no debug information says which"
_NAMELESS = "no symbol says whether only its own file calls the function, so it may be in a register"
_MANY = "only its own file calls the function, so it may be in a register; name fewer functions to have that looked up"
_Word = tuple[str, str | int]
"""The place of one word: `("reg", "ax")`, `("stack", 4)`, or `("no", reason)`."""


def entry_words(binary: Binary, name: str, address: int, local: bool) -> tuple[ArgSpec, ...]:
    """The words at a function's first instruction. `local`: its symbol says that only its own file calls it, or
    there is none.
    """
    plain = binary.function_args(name)
    site = FileSite("uprobe", name, name, (), 0, binary.path, binary.identity, address, 0, word=4)
    words: tuple[_Word, ...] | None = None
    with suppress(TracerError):  # of damaged debug information
        words = asked(binary.path, "words", address, lambda entries: _words(entries, site, len(plain)))
    if words is None:
        return _unreadable(plain, _UNKNOWN if name else _NAMELESS) if local else plain
    return tuple(map(_spec, words)) or plain


def unknown_words(plain: tuple[ArgSpec, ...]) -> tuple[ArgSpec, ...]:
    """The words of a function of its own file, where so many functions are meant that no debug information is asked."""
    return _unreadable(plain, _MANY)


@lru_cache(maxsize=4)
def _unreadable(plain: tuple[ArgSpec, ...], reason: str) -> tuple[ArgSpec, ...]:
    return tuple(replace(argument, operand=Unreadable(reason)) for argument in plain)


def _spec(word: _Word) -> ArgSpec:
    kind, value = word
    if kind == "stack":
        return ArgSpec("", 4, False, Mem("sp", int(value)), word=4)
    return ArgSpec("", 4, False, Reg(str(value)) if kind == "reg" else Unreadable(str(value)), word=4)


def _words(entries: Entries, site: FileSite, most: int) -> tuple[_Word, ...] | None:
    """The places of a function's words. () says that they are where the convention has them, and None that no debug
    information tells of the function.
    """
    parameters = parameters_at(entries, site, "")
    if not isinstance(parameters, tuple):
        return None
    if not any(parameter.pieces or parameter.reason for parameter in parameters):
        return ()
    function = function_at(entries, site.address)
    if function is not None and function.unit.top.number(dw.LANGUAGE) == dw.GO:
        return ()  # all in a row
    result = None if function is None else types.plain(attribute(function, dw.TYPE))
    words: list[_Word] = [("no", _HIDDEN)] if result is not None and result.tag in dw.RECORDS else []
    for parameter in parameters:
        if parameter.reason or parameter.type is None:
            words.append(("no", parameter.reason))
            continue
        whole = 4 if parameter.indirect or parameter.reference else memory_size(parameter.type)
        words += _of_registers(parameter.pieces) if parameter.pieces else [
            ("stack", (parameter.stack or 0) + offset) for offset in range(0, whole, 4)
        ]
    return tuple(words[:most])


def _of_registers(pieces: tuple[tuple[int, int, int, int], ...]) -> Iterator[_Word]:
    for _, _, index, _ in pieces:
        yield "reg", REGISTERS_32[index - REGISTER_ARGUMENT]
