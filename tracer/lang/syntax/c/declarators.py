"""C's declarators and attributes: what stands around a name in a declaration, `*name[4] __attribute__((packed))`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from tracer.lang.syntax.c.constants import Constants
from tracer.lang.syntax.c.layout import Attributes, Sized, array
from tracer.lang.syntax.c.tokens import Token, describe
from tracer.lang.types import IntType, NamedType, PointerType, StructType, memory_size

_words = str.split

QUALIFIERS = frozenset(
    _words(
        "const volatile restrict __restrict __restrict__ __const __const__ __volatile __volatile__ __extension__ "
        "inline __inline __inline__ static extern register auto _Noreturn __thread _Thread_local _Atomic"
    )
)
_ATTRIBUTES = ("__attribute__", "__attribute", "_Alignas", "alignas", "__asm__", "asm", "__asm")
_MODES = {"QI": 8, "HI": 16, "SI": 32, "DI": 64, "word": 64, "byte": 8, "pointer": 64}
_MOST_WRAPS = 16
_MOST_ELEMENTS = 1 << 31
_BIGGEST_ALIGNMENT = 16

Wrap = Callable[[Sized], Sized]
"""What a part of a declarator makes of a type: a pointer to it, an array of it."""


class Declarators(Constants):
    """The parser of declarators. `complete` is the business of who derives from it."""

    @abstractmethod
    def complete(self, of: Sized) -> Sized:
        """A type as it is known by now."""

    @abstractmethod
    def starts_type(self, token: Token) -> bool:
        """Whether a type can begin with this token."""

    @abstractmethod
    def specifiers(self) -> tuple[Sized, Attributes]:
        """The type before a declarator."""

    def type_in_parentheses(self) -> Sized | None:
        cursor = self.cursor
        after = cursor.second()
        if not self.starts_type(after):
            return None
        cursor.expect("(", "before a type")
        of, _ = self.declarator(self.specifiers()[0])
        cursor.expect(")", "after the type")
        return self.complete(of)

    def declarator(self, base: Sized) -> tuple[Sized, Token | None]:
        """The type that it makes of the one before it, and the name."""
        start = self.cursor.peek()
        wraps, name = self._wraps()
        if len(wraps) > _MOST_WRAPS:
            what = "the type is nested too deeply"
            self.cursor.fail(what, start, f"at most {_MOST_WRAPS} pointers and arrays")
        for wrap in wraps:
            base = wrap(base)
        return base, name

    def _wraps(self) -> tuple[list[Wrap], Token | None]:
        """The wraps of a type, from the inside to the outside, so in the order in which they are applied."""
        cursor = self.cursor
        wraps: list[Wrap] = []
        self.attributes()
        while cursor.accept("*", "^"):
            wraps.append(_pointer)
            self.attributes()
        inner: list[Wrap] = []
        name = None
        if cursor.next_is("("):
            after = cursor.second()
            if after.text in ("*", "(", "^", "__attribute__") or (
                after.kind == "name" and not self.starts_type(after)
            ):
                cursor.take()
                inner, name = self._wraps()
                cursor.expect(")", "to close '('")
        elif cursor.peek().kind == "name":
            name = cursor.take()
        suffixes: list[Wrap] = []
        while cursor.next_is("[", "("):
            suffixes.append(self._array() if cursor.next_is("[") else self._function())
        return [*wraps, *reversed(suffixes), *inner], name

    def _array(self) -> Wrap:
        cursor = self.cursor
        opening = cursor.take()
        while cursor.peek().text in QUALIFIERS:
            cursor.take()
        count = 0 if cursor.next_is("]") else self.constant("the size of the array")
        closing = cursor.expect("]", "after the size of the array")
        if not 0 <= count < _MOST_ELEMENTS:
            cursor.fail(f"an array cannot have {count} elements", opening._replace(end=closing.end))

        def wrap(item: Sized) -> Sized:
            item = self.complete(item)
            if item.type is None or not item.align:
                cursor.fail(f"the elements of the array have the incomplete type '{item.type or 'void'}'", opening)
            if count * memory_size(item.type) >= _MOST_ELEMENTS:
                cursor.fail("the array is too large", opening._replace(end=closing.end), "at most 2 GiB")
            return array(item, count)

        return wrap

    def _function(self) -> Wrap:
        if (after := self.cursor.second()).text[:1].isdigit():
            self.cursor.fail(f"expected a parameter's type, found {describe(after)}", after)
        self.cursor.skip("(", ")")
        return lambda result: Sized(None, 0)

    def attributes(self) -> Attributes:
        """Reads the attributes that stand here, with the qualifiers between them."""
        cursor, attributes = self.cursor, Attributes()
        while (token := cursor.peek()).kind == "name" and (token.text in QUALIFIERS or token.text in _ATTRIBUTES):
            cursor.take()
            if token.text in ("_Alignas", "alignas"):
                attributes = attributes.with_(Attributes(align=self._alignas()))
            elif token.text in ("__attribute__", "__attribute"):
                attributes = attributes.with_(self._attribute())
            elif token.text in _ATTRIBUTES:
                cursor.skip("(", ")")
        return attributes

    def _alignas(self) -> int:
        named = self.type_in_parentheses()
        if named is not None:
            return named.align
        self.cursor.expect("(", "after _Alignas")
        align = self.constant("the alignment")
        self.cursor.expect(")", "after the alignment")
        return align

    def _attribute(self) -> Attributes:
        cursor, attributes = self.cursor, Attributes()
        cursor.expect("(", "after __attribute__")
        cursor.expect("(", "after __attribute__")
        while not cursor.accept(")"):
            if cursor.peek().kind == "end":
                cursor.fail("the attribute is not closed", hint="write __attribute__((packed))")
            word = cursor.take().text.strip("_")
            if word == "packed":
                attributes = attributes.with_(Attributes(packed=True))
            elif word == "aligned" and cursor.accept("("):
                attributes = attributes.with_(Attributes(align=self._alignment()))
                cursor.expect(")", "after the alignment")
            elif word == "aligned":
                attributes = attributes.with_(Attributes(align=_BIGGEST_ALIGNMENT))
            elif word == "mode" and cursor.accept("("):
                attributes = attributes.with_(Attributes(bits=_MODES.get(cursor.take().text.strip("_"), 0)))
                cursor.expect(")", "after the mode")
            elif word == "vector_size":
                cursor.fail("vectors have no type here")
            elif cursor.next_is("("):
                cursor.skip("(", ")")
        cursor.expect(")", "after the attributes")
        return attributes

    def _alignment(self) -> int:
        token = self.cursor.peek()
        align = self.constant("the alignment")
        if align <= 0 or align & (align - 1) or align > 1 << 28:
            self.cursor.fail(f"the alignment {align} is not a power of two", token)
        return align


def _pointer(target: Sized) -> Sized:
    """A pointer: a struct that has a name is known by it, since it may lead to itself."""
    type = target.type
    if isinstance(type, StructType) and " " in type.name:
        type = NamedType(type.name)
    return Sized(PointerType(target=type), 8)


def resized(bits: int, like: Sized) -> Sized:
    """The integer of another size, with the sign of one."""
    assert isinstance(like.type, IntType)
    return Sized(IntType(bits, like.type.signed), bits // 8)
