"""Each calling convention is an object that gives the parameters of one function their places, in order.

`arguments.py` and `rust.py` have the registers and the stack of each convention. Here is what debug information of a
language has to be asked so that these can be given out: types, the shapes of C and C++ on x86-64, the forms of rustc.
"""

from __future__ import annotations

import re

from tracer.kinds.arch import Arch
from tracer.lang.types import IntType, Type
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.arguments import Convention, GoConvention, ParameterPlace
from tracer.resolve.dwarf.calls.rust import RustConvention
from tracer.resolve.dwarf.calls.rustc_layout import form_of, is_direct
from tracer.resolve.dwarf.calls.shapes import Shape, holds_nullptr, shape_of
from tracer.resolve.dwarf.calls.stated_locations import is_in_frame
from tracer.resolve.dwarf.functions import attribute, linked_name, name_of
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.unit import Entry

_RUSTC = re.compile(r"rustc version 1\.(\d+)\.")
_EITHER = 'Rust and extern "C" pass it in different ways, and nothing says which one the function uses'
_COPIED = "nothing says whether it may be copied as bytes: a constructor takes more than one argument"
_CLANG = "clang passes it, and the parameters after it, in other places than the ABI says"
_DEEPEST = 16
_ADDRESS = IntType(64, False)
_IN_CLASS = 1
"""DW_DEFAULTED_in_class. A function that is defaulted outside of its class is a function like any other."""


class Passing:
    """The convention of C on aarch64, which asks for types alone. `file` is the name by which types remember where they
    stand.
    """

    convention: Convention

    def __init__(self, function: Entry, arch: Arch, file: str) -> None:
        self.arch, self.file = arch, file
        self.convention = self._convention(function.unit.top.text(dw.PRODUCER))

    def _convention(self, producer: str) -> Convention:
        return Convention(self.arch)

    def returns(self, result: Entry) -> None:
        """Takes the register in which the caller passes the address for a result, where it does."""

    def takes(self, concrete: Entry) -> bool:
        """Whether a parameter in debug information is one that the caller passes."""
        return True

    def is_direct(self, declared: Entry) -> bool:
        """Whether a parameter is passed as it is."""
        return True

    def place(self, kinds: Entry | None, concrete: Entry, type: Type, unknown: str) -> ParameterPlace:
        """Gives the next parameter its place. `kinds` is the entry of its type, `concrete` its entry in the function as
        it was compiled, `type` its type in the language, and `unknown` why that is not known ("" where it is). Raises
        `UnknownType` where the place depends on what is not known.
        """
        if unknown:
            raise types.UnknownType(unknown)
        return self.convention.place(type)


class GoPassing(Passing):
    """The convention of Go, whose results stand among the parameters."""

    def _convention(self, producer: str) -> Convention:
        return GoConvention(self.arch)

    def takes(self, concrete: Entry) -> bool:
        return not concrete.number(dw.VARIABLE_PARAMETER)


class SystemVPassing(Passing):
    """The convention of C and C++ on x86-64, which asks for the shape of a value."""

    def __init__(self, function: Entry, arch: Arch, file: str) -> None:
        super().__init__(function, arch, file)
        self._clang = "clang" in function.unit.top.text(dw.PRODUCER)

    def returns(self, result: Entry) -> None:
        try:
            addressed = passed_by_reference(result)
            self.convention.hidden(_ADDRESS if addressed else shape_of(result), addressed)
        except types.UnknownType as error:
            self.convention.lost = _depends(error)

    def place(self, kinds: Entry | None, concrete: Entry, type: Type, unknown: str) -> ParameterPlace:
        convention = self.convention
        if passed_by_reference(kinds):
            return convention.place(_ADDRESS, True)
        shape = shape_of(kinds)
        if self._clang and _is_clangs_own(shape, kinds, len(self.arch.args) - convention.integers):
            convention.lost = convention.lost or _CLANG
        return convention.place(shape)


class RustPassing(Passing):
    """The convention of Rust, which asks for the form that rustc gives a value. A function whose name other languages
    can use may have their convention: `_foreign` gives the places by that.
    """

    def __init__(self, function: Entry, arch: Arch, file: str) -> None:
        super().__init__(function, arch, file)
        self._foreign = Convention(arch) if linked_name(function) == name_of(function) else None

    def _convention(self, producer: str) -> Convention:
        version = _RUSTC.search(producer)
        return RustConvention(self.arch, older=version is not None and int(version[1]) < 62)

    def returns(self, result: Entry) -> None:
        try:
            self.convention.hidden(form_of(result), False)
            if self._foreign is not None:
                self._foreign.hidden(types.type_of(result, self.file), False)
        except types.UnknownType as error:
            (self._foreign or self.convention).lost = _depends(error)

    def is_direct(self, declared: Entry) -> bool:
        return is_direct(attribute(declared, dw.TYPE))

    def place(self, kinds: Entry | None, concrete: Entry, type: Type, unknown: str) -> ParameterPlace:
        place = self.convention.place(form_of(kinds))
        if place.indirect and is_in_frame(concrete):
            self.convention.lost, place = _EITHER, ParameterPlace(reason=_EITHER)
        foreign = self._foreign
        if foreign is None:
            return place
        foreign.lost = foreign.lost or unknown
        return place if place == foreign.place(type) or place.reason else ParameterPlace(reason=_EITHER)


def _depends(error: types.UnknownType) -> str:
    return f"it depends on what is returned, and {error.message}"


def _is_clangs_own(shape: Shape, kinds: Entry | None, free: int) -> bool:
    """Whether clang passes a value in its own way while so many registers are `free`. Clang 14 aligns an __int128 on
    the stack to eight bytes and leaves no register behind it. It puts a struct that holds a nullptr_t in memory.
    """
    wide = not shape.aggregate and shape.size == 16 and "integer" in shape.classes
    return (free < 2 and wide) or holds_nullptr(kinds)


def passed_by_reference(entry: Entry | None, deep: int = 0) -> bool:
    """Whether a C++ class must not be copied as bytes, so that its address is passed. Some compilers say so. Else the
    class has virtual functions, a destructor or a copy constructor of its own, or holds such a class.
    """
    record = types.plain(entry)
    if record is None or record.tag not in dw.RECORDS or deep > _DEEPEST:
        return False
    record = types.defined(record) or record
    stated = record.number(dw.CALLING_CONVENTION)
    if stated is not None:
        return stated == dw.BY_REFERENCE
    name = record.text().partition("<")[0]
    copies: set[bool] = set()
    unsure = False
    for child in record.children():
        if child.tag in (dw.MEMBER, dw.INHERITANCE):
            if child.text().startswith("_vptr") or dw.VIRTUALITY in child:
                return True
            if dw.EXTERNAL not in child and passed_by_reference(child.follow(dw.TYPE), deep + 1):
                return True
        elif child.tag == dw.SUBPROGRAM and child.text() in (name, f"~{name}"):
            is_copy, more = (False, False) if child.text() != name else _copies(child, record)
            user_provided = dw.DELETED not in child and child.number(dw.DEFAULTED) != _IN_CLASS
            if user_provided and ((is_copy and not more) or child.text() != name):
                return True
            unsure = unsure or (is_copy and more)
            if is_copy and not more:
                copies.add(dw.DELETED in child)
    if unsure:
        raise types.UnknownType(_COPIED)
    return copies == {True}  # nothing is left to copy it with


def _copies(constructor: Entry, record: Entry) -> tuple[bool, bool]:
    """Whether a constructor's first parameter is a reference to its own class, and whether it has more parameters.
    Those may have default values, which nothing tells.
    """
    taken = [child for child in constructor.children() if child.tag == dw.PARAMETER and dw.ARTIFICIAL not in child]
    kind = types.plain(taken[0].follow(dw.TYPE)) if taken else None
    if kind is None or kind.tag not in dw.REFERENCES:
        return False, False
    below = types.plain(kind.follow(dw.TYPE))
    return below is not None and below.id == record.id, len(taken) > 1
