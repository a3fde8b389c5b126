"""Rust's own convention passes one or two scalars separately, other values that fit a word as an integer, and the rest
by address.

The rules are those from rustc 1.62 on: before, up to two words that are no scalars were passed in registers. Source:
rustc, adjust_for_rust_abi in compiler/rustc_target/src/callconv/mod.rs.
"""

from __future__ import annotations

from tracer.kinds.arch import X86_64, Arch
from tracer.lang.types import Type
from tracer.resolve.dwarf.calls.arguments import EMPTY, IN_FLOATS, Convention, ParameterPlace, Pieces, words
from tracer.resolve.dwarf.calls.rustc_layout import Form, Scalar
from tracer.resolve.dwarf.calls.shapes import Shape

_NO_RULE = "it is passed by a convention of Rust's own"
_RESULT = "what it returns is passed by a convention of Rust's own"
_SPLIT = "a part of it is on the stack"
_WORD = 8


class RustConvention(Convention):
    """The convention of a function; `older`: from a compiler before 1.62."""

    def __init__(self, arch: Arch, older: bool = False) -> None:
        super().__init__(arch)
        self._older = older

    def hidden(self, type: Type | Shape | Form, by_reference: bool = False) -> None:
        assert isinstance(type, Form)
        form = type
        if (not form.certain and form.size > _WORD) or self._has_older(form) or len(form.scalars) * form.size > 32:
            self.lost = _RESULT
        elif self.arch is X86_64 and form.size > _WORD and not form.scalars:
            self.integers += 1

    def place(self, type: Type | Shape | Form, by_reference: bool = False) -> ParameterPlace:
        assert isinstance(type, Form)
        form = type
        if not form.size:
            return ParameterPlace(reason=EMPTY)
        if not self.lost and (not form.certain or self._has_older(form) or not self._holds_wide(form)):
            self.lost = _NO_RULE
        if self.lost:
            return ParameterPlace(reason=self.lost)
        if form.scalars:
            return self._scalars(form.scalars)
        return self._indirect() if form.size > _WORD else self._word(form.size)

    def _has_older(self, form: Form) -> bool:
        return self._older and not form.scalars and _WORD < form.size <= 2 * _WORD

    def _holds_wide(self, form: Form) -> bool:
        """Whether 16 bytes find their registers where there are such. Without them versions differ."""
        wide = sum(scalar.size > _WORD for scalar in form.scalars)
        return not wide or (self.arch is X86_64 and self.integers + 2 * wide <= len(self.arch.args))

    def _word(self, size: int) -> ParameterPlace:
        register = self._register()
        return self._on_stack(_WORD, _WORD) if register is None else ParameterPlace(words(size, register))

    def _scalars(self, scalars: tuple[Scalar, ...]) -> ParameterPlace:
        pieces: Pieces = ()
        stack: list[int] = []
        reals = False
        for scalar in scalars:
            if scalar.sort == "real":
                self.reals += 1
                reals = reals or self.reals <= 8
                places = [ParameterPlace()] if self.reals <= 8 else [self._on_stack(_WORD, _WORD)]
            else:
                places = [self._word(min(scalar.size - offset, _WORD)) for offset in range(0, scalar.size, _WORD)]
            for number, place in enumerate(places):
                stack += [] if place.stack is None else [place.stack]
                base = scalar.offset + _WORD * number
                pieces += tuple((base + start, size, register, bit) for start, size, register, bit in place.pieces)
        if reals:
            return ParameterPlace(reason=IN_FLOATS if len(scalars) == 1 else f"a part of it: {IN_FLOATS}")
        if not stack:
            return ParameterPlace(pieces)
        together = not pieces and all(scalar.offset % _WORD == 0 for scalar in scalars)
        return ParameterPlace(stack=stack[0]) if together else ParameterPlace(reason=_SPLIT)
