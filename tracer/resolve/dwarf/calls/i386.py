"""C and C++ pass values on i386 on the stack, a word or more each, but where the compiler changed it.

It changes it without a word: GCC hands up to three words in registers to a function that only its own file calls, and
to one that the programmer has marked so (regparm, fastcall). No symbol tells; the place that debug information states
for the first instruction does. So what is stated there is believed, and where a function takes something in a register,
or only its own file calls it, nothing else is.

Sources: System V ABI, Intel386 supplement, 2.2; GCC, config/i386/i386.cc (ix86_function_regparm,
ix86_function_arg_boundary).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.dataclass import replace
from tracer.kinds.arch import I386
from tracer.kinds.site import REGISTER_ARGUMENT
from tracer.lang.types import Type, memory_size
from tracer.lang.types.outside import Parameter
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.arguments import EMPTY, Convention, ParameterPlace, Pieces
from tracer.resolve.dwarf.calls.passing import Passing, passed_by_reference
from tracer.resolve.dwarf.calls.shapes import shape_of
from tracer.resolve.dwarf.calls.stated_locations import is_llvms, is_optimised
from tracer.resolve.dwarf.functions import has
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.ranges import location_at
from tracer.resolve.dwarf.units.unit import Entry

_WORD = I386.word
_VECTOR = "a vector, of which the compiler's flags say where it is passed"
_IN_FRAME = "debug information says where the function keeps it, and not how it is passed"
_ELSEWHERE = "the compiler may pass it in a register, and debug information does not say where it is"
_OPTIMISED = "the compiler has optimised it out"
_OTHERS = "nothing here knows how this language passes it in 32-bit programs"

_GCC_OPTIMISES = re.compile(r" -O(?!0)")

_CFA, _REG, _BREG, _FBREG, _PIECE = 0x9C, 0x50, 0x70, 0x91, 0x93
_SP, _BP, _GENERAL = 4, 5, 8
_SAVED = 2 * _WORD
"""The frame pointer counts from below its caller's and the return address."""


class I386Passing(Passing):
    """The convention of C and C++ on i386."""

    def returns(self, result: Entry) -> None:
        try:
            shape = shape_of(result)
        except types.UnknownType as error:
            self.convention.lost = f"it depends on what is returned, and {error.message}"
            return
        double = len(shape.leaves) == 2 and all(leaf.kind == "real" for leaf in shape.leaves) and shape.size > 8
        if shape.aggregate or (result.tag == dw.BASE_TYPE and (double or shape.size > 12)):
            self.convention.stack += _WORD  # the address for the result

    def place(self, kinds: Entry | None, concrete: Entry, type: Type, unknown: str) -> ParameterPlace:
        convention = self.convention
        if convention.lost:
            return ParameterPlace(reason=convention.lost)
        if passed_by_reference(kinds):
            return _next(convention, _WORD)._replace(indirect=True)
        shape = shape_of(kinds)
        if any(leaf.kind == "vector" for leaf in shape.leaves):
            convention.lost = f"it is, or follows, {_VECTOR}"
            return ParameterPlace(reason=convention.lost)
        return _next(convention, shape.size) if shape.size else ParameterPlace(reason=EMPTY)


class UnknownPassing(Passing):
    """The convention of another language on i386, whose rules are not known here."""

    def place(self, kinds: Entry | None, concrete: Entry, type: Type, unknown: str) -> ParameterPlace:
        return ParameterPlace(reason=_OTHERS)


def _next(convention: Convention, size: int) -> ParameterPlace:
    place = ParameterPlace(stack=convention.stack)
    convention.stack += -(-size // _WORD) * _WORD
    return place


class Stated:
    """The places that debug information states for the parameters of one function at its first instruction."""

    def __init__(self, function: Entry, start: int, parameters: Sequence[Entry], local: bool) -> None:
        """`local`: only its own file calls the function, or its name says that the compiler has changed it."""
        self._start, self._function, self._parameters = start, function, parameters
        self._changed = local and _is_optimised(function, parameters)

    def placed(self, by_rule: Sequence[Parameter]) -> list[Parameter]:
        """The parameters that the convention gives places, where they are."""
        pieces, stacks = [*map(self._pieces, self._parameters)], [*map(self._on_stack, self._parameters)]
        sizes = [_size(parameter) for parameter in by_rule]
        plain, words = False, 0
        in_frame = "-mregparm" in self._function.unit.top.text(dw.PRODUCER)
        for parameter, stack, size in zip(by_rule, stacks, sizes, strict=True):
            if stack is not None and size == _WORD:
                # Any way of passing in registers would have taken this one.
                near = parameter.stack is not None and parameter.stack + size <= I386.stack_arg + 3 * _WORD
                plain = plain or (stack == parameter.stack and words < 2 and near)
                in_frame = in_frame or stack < I386.stack_arg
            words += size == _WORD
        ruled = not self._changed and not any(pieces) and (plain or not in_frame)
        return [self._placed(*row, ruled) for row in zip(by_rule, self._parameters, pieces, stacks, strict=True)]

    def _placed(
        self, by_rule: Parameter, parameter: Entry, pieces: Pieces, stack: int | None, ruled: bool
    ) -> Parameter:
        if by_rule.reason:
            return by_rule
        if pieces:
            return replace(by_rule, pieces=pieces, stack=None)
        if stack is not None and stack >= I386.stack_arg:
            return replace(by_rule, stack=stack)
        if ruled:
            return by_rule
        if stack is not None:
            return replace(by_rule, stack=None, reason=_IN_FRAME)
        if not has(parameter, dw.CONST_VALUE) and dw.LOCATION in parameter:
            return replace(by_rule, stack=None, reason=_ELSEWHERE)
        value = parameter.signed(dw.CONST_VALUE)
        return replace(by_rule, stack=None, reason=_OPTIMISED + ("" if value is None else f": it is always {value}"))

    def _pieces(self, parameter: Entry) -> Pieces:
        """The general registers that a parameter is in, as `ParameterPlace.pieces`; () where it is in none."""
        expression = location_at(parameter, self._start) or b""
        pieces: Pieces = ()
        position = offset = 0
        while position < len(expression):
            number = expression[position] - _REG
            if not 0 <= number < _GENERAL:
                return ()
            size, position = _WORD, position + 1
            if position < len(expression):
                if expression[position] != _PIECE:
                    return ()
                size, position = leb(expression, position + 1)
            if size not in (1, 2, 4):
                return ()
            pieces += ((offset, size, REGISTER_ARGUMENT + number, 0),)
            offset += size
        return pieces

    def _on_stack(self, parameter: Entry) -> int | None:
        """The bytes above the stack pointer at which the function has a parameter; None where that is not stated."""
        expression = location_at(parameter, self._start) or b""
        if expression[:1] not in (bytes((_FBREG,)), bytes((_BREG + _SP,))):
            return None
        offset, end = leb(expression, 1, signed=True)
        if end != len(expression):
            return None
        if expression[0] == _BREG + _SP:
            return offset
        base = self._function.block(dw.FRAME_BASE) or b""
        if base == bytes((_CFA,)):
            return offset + I386.stack_arg
        return offset - _SAVED + I386.stack_arg if base == bytes((_REG + _BP,)) else None


def _size(parameter: Parameter) -> int:
    if parameter.indirect or parameter.reference:
        return _WORD
    return 0 if parameter.type is None else memory_size(parameter.type)


def _is_optimised(function: Entry, parameters: Sequence[Entry]) -> bool:
    """Whether the compiler may have changed how its own functions are called. GCC states the options."""
    if not is_llvms(function):
        return _GCC_OPTIMISES.search(function.unit.top.text(dw.PRODUCER)) is not None
    return is_optimised(function, parameters)
