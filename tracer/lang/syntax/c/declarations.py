"""C's declarations of types → types: structs, unions, enums and typedefs, laid out as a C compiler does.

In a program they stand between the clauses. Of a header all else is skipped, functions and variables, and so is a
declaration in a spelling that is not known: what needs it says that it is not declared.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.dataclass import replace
from tracer.errors import Fault
from tracer.lang.syntax.c.constants import INT, LONG, UINT, ULONG, Number
from tracer.lang.syntax.c.declarators import QUALIFIERS, Declarators, resized
from tracer.lang.syntax.c.layout import Attributes, Member, Sized, laid_out
from tracer.lang.syntax.c.tokens import Cursor, Token, describe
from tracer.lang.types import (
    ArrayType,
    BoolType,
    EnumType,
    FloatType,
    IntType,
    NamedType,
    StructType,
    Type,
    memory_size,
    operations,
)
from tracer.lang.types.declared import USUAL, Declared, integer_of

_words = str.split

_BASIC = frozenset(
    _words(
        "void char short int long signed unsigned float double _Bool bool __signed__ __signed __int128 _Complex "
        "__complex__ _Float32 _Float64 _Float128 _Float32x _Float64x __float128 __builtin_va_list"
    )
)
_TAGS = ("struct", "union", "enum")
_WIDE = Sized(ArrayType(IntType(8, False), 16), 16)
"""Types of 16 bytes that have no form in the language: `long double`, `__int128`."""


class Declarations(Declarators):
    """The types and enumerators declared so far, and the parser that adds to them."""

    def __init__(self) -> None:
        self.types: dict[str, Sized] = {}
        self.enumerators: dict[str, Number] = {}
        self._owners: dict[str, EnumType] = {}
        self._pack = [0]

    def declared(self) -> Declared:
        """The declared types and constants, as the language takes them."""
        whole = {name: self.complete(of).type for name, of in self.types.items()}
        constants: dict[str, tuple[int, Type]] = {
            name: (self.enumerators[name].value, enum) for name, enum in self._owners.items()
        }
        return Declared({name: type for name, type in whole.items() if type is not None}, constants)

    def declaration(self, text: str, position: int, macros: Mapping[str, str]) -> int:
        """Reads the declaration that begins there, in a program; where it ends. Raises `Fault`."""
        self.cursor = cursor = Cursor(text, position, macros)
        self._pack = [0]
        if cursor.accept("typedef"):
            self._declarators(self.specifiers()[0], typedef=True)
            return cursor.end
        self.specifiers()
        last = text[cursor.end - 1]
        if not cursor.accept(";") and last not in "})":
            cursor.fail(f"expected '{{' or ';', found {describe(cursor.peek())}", hint="struct name { int a; };")
        return cursor.end

    # --- headers

    def header(self, text: str) -> None:
        """Reads what the preprocessor made of headers."""
        self.cursor = cursor = Cursor(text, 0, {})
        while (token := cursor.peek()).kind != "end":
            if token.kind == "pragma":
                self._pragma(cursor.take().text)
                continue
            try:
                self._external()
            except (Fault, ValueError):
                self.cursor = cursor = Cursor(text, token.start, {})
                self._skip()

    def _external(self) -> None:
        cursor = self.cursor
        if cursor.next_is("_Static_assert", "__asm__", "asm"):
            self._skip()
            return
        cursor.accept("__extension__")
        typedef = cursor.accept("typedef")
        base = self.specifiers()[0]
        if not cursor.accept(";"):
            self._declarators(base, typedef)

    def _skip(self) -> None:
        """Goes on behind a declaration, which ends in `;` or in the body of a function."""
        cursor, function = self.cursor, False
        while cursor.peek().kind != "end":
            if cursor.next_is("("):
                cursor.skip("(", ")")
                function = True
            elif cursor.next_is("{"):
                cursor.skip("{", "}")
                if function:
                    return
            elif cursor.take().text == ";":
                return

    def _pragma(self, text: str) -> None:
        words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
        if words[1:2] != ["pack"]:
            return
        number = next((int(word) for word in words[2:] if word.isdigit()), 0)
        if "push" in words:
            self._pack.append(number or self._pack[-1])
        elif "pop" in words:
            self._pack = self._pack[:-1] or [0]
        else:
            self._pack[-1] = number

    # --- what declarations consist of

    def _declarators(self, base: Sized, typedef: bool) -> None:
        """Names with commas between them: of a typedef they are types, all others are left out."""
        cursor = self.cursor
        while True:
            of, name = self.declarator(base)
            attributes = self.attributes()
            if typedef and name is not None:
                self._typedef(name, of, attributes)
            elif typedef:
                cursor.fail(f"expected a name for the type, found {describe(cursor.peek())}")
            if cursor.next_is("{"):
                cursor.skip("{", "}")
                return
            if cursor.accept("="):
                self._skip()
                return
            if not cursor.accept(","):
                break
        cursor.expect(";", "after the declaration")

    def _typedef(self, name: Token, of: Sized, attributes: Attributes) -> None:
        if attributes.bits and isinstance(of.type, IntType):
            of = resized(attributes.bits, of)
        if attributes.align:
            of = of._replace(align=attributes.align)
        if isinstance(of.type, StructType | EnumType) and " " not in of.type.name:
            of = of._replace(type=replace(of.type, name=name.text))
        self.types[name.text] = of

    def complete(self, of: Sized) -> Sized:
        return self.types.get(of.type.name, of) if isinstance(of.type, NamedType) and not of.align else of

    def starts_type(self, token: Token) -> bool:
        word = token.text
        return token.kind == "name" and (
            word in _BASIC or word in _TAGS or word in QUALIFIERS or word in self.types or word in USUAL
        )

    def specifiers(self) -> tuple[Sized, Attributes]:
        cursor = self.cursor
        type: Sized | None = None
        words: list[str] = []
        attributes = self.attributes()
        while (token := cursor.peek()).kind == "name":
            if token.text in _TAGS and type is None and not words:
                cursor.take()
                type = self._enum(token) if token.text == "enum" else self._struct(token)
            elif token.text in _BASIC and type is None:
                words.append(cursor.take().text)
            elif type is None and not words and (token.text in self.types or token.text in USUAL):
                cursor.take()
                usual = USUAL.get(token.text)
                type = self.types.get(token.text) or Sized(usual, memory_size(usual) if usual else 0)
            else:
                break
            attributes = attributes.with_(self.attributes())
        if words:
            type = _basic(words)
        if type is None:
            cursor.fail(*self._no_type(token))
        return type, attributes

    def _no_type(self, token: Token) -> tuple[str, Token, str | None]:
        if token.kind != "name":
            return f"expected a type, found {describe(token)}", token, None
        from tracer.lang import suggest

        names = [*self.types, *USUAL, *_BASIC]
        hint = "declare it first, as in typedef unsigned int name; or struct name { … };"
        if f"struct {token.text}" in self.types:
            hint = f"write struct {token.text}"
        return f"unknown type '{token.text}'", token, suggest.hint(token.text, names, hint)

    # --- structs and unions

    def _tag(self, word: Token) -> tuple[Token | None, str, Sized | None]:
        """The parts behind `struct`, `union` or `enum`: the name, the type's, and the type where no body follows, of
        which else the brace is taken.
        """
        cursor = self.cursor
        name = cursor.take() if cursor.peek().kind == "name" and not cursor.next_is(":") else None
        tag = f"{word.text} {name.text}" if name is not None else word.text
        if not cursor.next_is("{"):
            if name is None:
                cursor.fail(f"expected a name or '{{' after '{word.text}', found {describe(cursor.peek())}")
            return name, tag, self.types.get(tag) or Sized(NamedType(tag), 0)
        if name is not None and tag in self.types:
            cursor.fail(f"'{tag}' is declared already", name)
        cursor.take()
        return name, tag, None

    def _struct(self, word: Token) -> Sized:
        cursor = self.cursor
        attributes = self.attributes()
        name, tag, declared = self._tag(word)
        if declared is not None:
            return declared
        members: list[Member] = []
        while not cursor.accept("}"):
            self._members(tag, members)
        attributes = attributes.with_(self.attributes())
        attributes = attributes._replace(pack=self._pack[-1])
        self._refuse_twins(tag, members, name or word)
        try:
            of = laid_out(tag, word.text == "union", members, attributes)
        except ValueError as error:
            cursor.fail(f"the bit field '{error}' takes part in 9 bytes, more than an integer has", name or word)
        if name is not None:
            self.types[tag] = of
        return of

    def _members(self, tag: str, members: list[Member]) -> None:
        """One line of a struct: a type and the names it is for."""
        cursor = self.cursor
        if cursor.accept(";"):
            return
        if cursor.next_is("_Static_assert"):
            self._skip()
            return
        if cursor.peek().kind == "pragma":
            self._pragma(cursor.take().text)
            return
        start = cursor.peek()
        base, before = self.specifiers()
        if cursor.next_is(";") and isinstance(base.type, StructType) and " " not in base.type.name:
            members.append(Member("", base, None, before.align, before.packed))
        while not cursor.next_is(";"):
            members.append(self._member(tag, base, before))
            if not cursor.accept(","):
                break
        if cursor.next_is("}"):
            return  # C asks for a ';' here, but compilers do without
        if not cursor.next_is(";"):
            cursor.fail(f"expected ';' after the member, found {describe(cursor.peek())}", start._replace(
                start=cursor.peek().start, end=cursor.peek().end))
        cursor.take()

    def _member(self, tag: str, base: Sized, before: Attributes) -> Member:
        cursor = self.cursor
        of, name = self.declarator(base) if not cursor.next_is(":") else (base, None)
        of = self.complete(of)
        width = None
        if cursor.accept(":"):
            width = self._width(of, name)
        elif name is None:
            cursor.fail(f"expected the name of a member, found {describe(cursor.peek())}")
        attributes = before.with_(self.attributes())
        if of.type is None or not of.align:
            assert name is not None
            what = of.type if of.type is not None else "void"
            hint = f"a pointer can lead there: {what} *{name.text};"
            if str(what) == tag:
                cursor.fail(f"'{tag}' cannot hold itself", name, hint)
            cursor.fail(f"'{name.text}' has the incomplete type '{what}'", name, hint)
        return Member(name.text if name else "", of, width, attributes.align, attributes.packed)

    def _width(self, of: Sized, name: Token | None) -> int:
        token = self.cursor.peek()
        width = self.constant("the width of the bit field")
        if not isinstance(of.type, IntType | BoolType):
            self.cursor.fail(f"a bit field must be an integer, not {of.type or 'void'}", token)
        most = 1 if isinstance(of.type, BoolType) else of.type.bits
        if not 0 <= width <= most or (width == 0 and name is not None):
            self.cursor.fail(f"a bit field of {of.type} cannot have {width} bits", token, f"it has 1 to {most}")
        return width

    def _refuse_twins(self, tag: str, members: list[Member], place: Token) -> None:
        seen: set[str] = set()
        for member in members:
            if member.name and member.name in seen:
                self.cursor.fail(f"{tag} has two members '{member.name}'", place)
            seen.add(member.name)

    # --- enums

    def _enum(self, keyword: Token) -> Sized:
        cursor = self.cursor
        attributes = self.attributes()
        name, tag, declared = self._tag(keyword)
        if declared is not None:
            return declared
        members: list[tuple[str, int]] = []
        value = -1
        while not cursor.accept("}"):
            word = cursor.take()
            if word.kind != "name":
                cursor.fail(f"expected the name of a constant, found {describe(word)}", word)
            if word.text in self.enumerators:
                cursor.fail(f"'{word.text}' is declared already", word)
            self.attributes()
            value = self.constant(f"the value of {word.text}") if cursor.accept("=") else value + 1
            members.append((word.text, value))
            self.enumerators[word.text] = Number(value, _holding([(word.text, value)], INT, UINT, LONG, ULONG))
            if not cursor.accept(",") and not cursor.next_is("}"):
                cursor.fail(f"expected ',' or '}}' after {word.text}, found {describe(cursor.peek())}")
        attributes = attributes.with_(self.attributes())
        holder = _holding(members, UINT, INT, ULONG, LONG)
        if attributes.packed:
            holder = _holding(members, *(IntType(bits, sign) for bits in (8, 16, 32, 64) for sign in (False, True)))
        enum = EnumType(holder.bits, holder.signed, tag, tuple(members))
        self._owners.update(dict.fromkeys((word for word, _ in members), enum))
        of = Sized(enum, max(holder.bits // 8, attributes.align))
        if name is not None:
            self.types[tag] = of
        return of


def _holding(members: list[tuple[str, int]], *types: IntType) -> IntType:
    """The first of these types that holds all values."""
    for type in types:
        if all(operations.wrap(value, type) == value for _, value in members):
            return type
    return LONG


def _basic(words: list[str]) -> Sized:
    """The type of C's own words, in any order."""
    words = [word.strip("_") if word != "_Bool" else word for word in words]
    if {"float128", "Float128", "int128", "Float64x"}.intersection(words):
        return _WIDE
    if "builtin_va_list" in words:
        return Sized(ArrayType(IntType(64, False), 3), 8)
    if "void" in words:
        return Sized(None, 0)
    if "double" in words or "float" in words or any(word.startswith("Float") for word in words):
        if "long" in words:
            return _WIDE
        bits = 32 if "float" in words or "Float32" in words else 64
        of = FloatType(bits)
        return Sized(ArrayType(of, 2) if "Complex" in words or "complex" in words else of, bits // 8)
    integer = integer_of(words)
    assert integer is not None
    return Sized(integer, memory_size(integer))
