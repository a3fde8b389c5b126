"""The debug information of the traced files gives types and parameters: `lang.types.outside.Outside`.

A file is opened when something is asked that no earlier run was told. Answers are kept by the build id, and not at
all where a file has none: a debug file of a hundred megabytes is then not even opened.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from tracer import cache
from tracer.errors import TracerError
from tracer.kinds.site import FileIdentity, FileSite
from tracer.lang.types import (
    ArrayType,
    CharType,
    EnumType,
    Field,
    FloatType,
    IntType,
    NamedType,
    PointerType,
    StructType,
    Type,
)
from tracer.lang.types.combine import layout
from tracer.lang.types.outside import INSIDE, Lines, Local, Parameter, Piece
from tracer.resolve import marshalling
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.parameters import parameters_at
from tracer.resolve.dwarf.calls.results import NOT_SAID, is_in_two, no_result, result_type, struct_result
from tracer.resolve.dwarf.functions import (
    attribute,
    function_at,
    name_of,
    parameters_of,
)
from tracer.resolve.dwarf.name_lookup import constant_named, several, traced_units, type_named
from tracer.resolve.dwarf.scopes import scope
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.debug_entries import NONSENSE, entries_of
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.names import named
from tracer.resolve.dwarf.units.ranges import fixed_address
from tracer.resolve.elf.debug_file import find_debug_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.elf.variables import Demangler, last_word, variable_of

T = TypeVar("T")

_KIND = "types"
_TYPES = (
    ArrayType, CharType, EnumType, Field, FloatType, IntType, Lines, Local, NamedType, Parameter, Piece, PointerType,
    StructType,
)  # fmt: skip
_CLASSES: dict[str, type] = {kind.__name__: kind for kind in _TYPES}
_VARIABLES = frozenset((dw.VARIABLE,))
_MOST_KEPT = 4096
"""Answers about one file; the next run reads all that are kept."""
_NOTHING = "there is no debug information of it"


class Finder(Protocol):
    """Finds variables at places of one file: `resolve.variables.places.Variables`."""

    def locals_at(self, site: FileSite) -> tuple[Local, ...] | None:
        """Returns the variables in scope at a site; None where nothing tells of its function."""

    def readable(self, site: FileSite, name: str) -> Lines | None:
        """Returns the lines at which a variable can be read that cannot at a site."""

    def close(self) -> None:
        """Closes the files that it opened."""


NewFinder = Callable[[str, "Entries", str], Finder]
"""Makes the finder of a file, given its path, its debug information and the name by which types remember it."""


class DebugInfo:
    """The `Outside` of the files of these sites. `demangler` reads names of C++ and Rust. `unused` says of a file and
    the address of a function whether its callers leave its result unread. `finder` finds variables.
    """

    def __init__(
        self, sites: Iterable[FileSite], demangler: Callable[[], Demangler] | None = None,
        unused: Callable[[str, int], bool] = lambda path, address: False,
        finder: Callable[[], NewFinder] | None = None,
    ) -> None:  # fmt: skip
        self._files: dict[str, _File] = {}
        self._unused, self._finder = unused, finder
        self._sites = tuple(sites)
        for site in self._sites:
            key = _key(site.identity)
            if key not in self._files:
                lasting = site.identity.build_id is not None
                self._files[key] = _File(key, site.path, lasting, demangler)

    def type(self, name: str, sites: tuple[FileSite, ...] = ()) -> Type | str | None:
        meaning: Type | str | None = self._meaning(name, sites, _File.type)
        return meaning

    def type_at(self, place: tuple[str, int]) -> Type | None:
        return self._files[place[0]].type_at(place[1])

    def constant(self, name: str, sites: tuple[FileSite, ...] = ()) -> int | str | None:
        meaning: int | str | None = self._meaning(name, sites, _File.constant)
        return meaning

    def _meaning(self, name: str, sites: tuple[FileSite, ...], ask: Callable[[_File, str, list[int]], Any]) -> Any:
        """The meaning of a name in the files of these sites, of all without any; else in another that knows it."""
        traced: dict[_File, list[int]] = {}
        for site in sites or self._sites:
            traced.setdefault(self._files[_key(site.identity)], []).append(site.address)
        others: dict[_File, list[int]] = {file: [] for file in self._files.values() if file not in traced}
        meanings: dict[_File, Any] = {}
        for group in (traced, others):
            for file, addresses in group.items() if not meanings else ():
                meaning = ask(file, name, addresses)
                if meaning is not None:
                    meanings[file] = meaning
        if len(set(map(layout, meanings.values()))) > 1:
            return f"{several(name, sorted(file.path for file in meanings))}; write a clause for one of them"
        return next(iter(meanings.values()), None)

    def parameters(self, site: FileSite) -> tuple[Parameter, ...] | str:
        return self._files[_key(site.identity)].parameters(site)

    def no_result(self, site: FileSite) -> str:
        return self._files[_key(site.identity)].no_result(site, self._unused)

    def result_type(self, site: FileSite) -> Type | str:
        """The type of what the function that a site is in returns in a register; else why none is known."""
        return self._files[_key(site.identity)].result_type(site)

    def struct_result(self, site: FileSite) -> Parameter | None:
        return self._files[_key(site.identity)].struct_result(site)

    def is_in_two(self, site: FileSite) -> bool:
        return self._files[_key(site.identity)].is_in_two(site)

    def variable(self, site: FileSite, name: str) -> tuple[int, Type] | str:
        variable = self._files[_key(site.identity)].variable(name, site.address)
        return variable if isinstance(variable, str) else (variable[0] - site.address, variable[1])

    def variables(self, site: FileSite) -> tuple[Local, ...] | str:
        assert self._finder is not None
        return self._files[_key(site.identity)].variables(site, self._finder)

    def readable(self, site: FileSite, name: str) -> Lines:
        assert self._finder is not None
        return self._files[_key(site.identity)].readable(site, name, self._finder)

    def keep(self) -> None:
        """Keeps for the next run what was read, and closes the files."""
        for file in self._files.values():
            file.keep()


class _File:
    """Answers questions about one file from its debug information, and keeps the answers."""

    def __init__(self, key: str, path: str, lasting: bool, demangler: Callable[[], Demangler] | None = None) -> None:
        self.key, self.path, self._lasting, self._demangler = key, path, lasting, demangler
        self._variables: dict[str, tuple[int, Type] | str] = {}
        self._elf: Elf | None = None
        self._of_places: Finder | None = None
        self._new = False

    @cached_property
    def _answers(self) -> dict[tuple[str, str | int], Any]:
        content = cache.load(_KIND, cache.key_of(marshalling.version(), self.key)) if self._lasting else None
        return marshal.loads(content) if content is not None else {}  # its digest was right: `keep` wrote it

    def _answer(self, question: str, about: str | int, find: Callable[[Entries], T]) -> T | None:
        plain = self._answers.get((question, about), self)
        if plain is self:
            entries = self._entries
            if entries is None:
                return None
            try:
                answer = find(entries)
            except TracerError:
                return None
            except NONSENSE as error:
                raise entries.elf.error(f"its debug information cannot be read: {error}") from None
            plain = marshalling.plain(answer, _CLASSES)
            if not entries.split.missing:  # what is missing may be there the next time
                self._answers[question, about] = plain
                self._new = True
        kept: T | None = marshalling.rebuilt(plain, _CLASSES)
        return kept

    @cached_property
    def _entries(self) -> Entries | None:
        """The debug information, of the file itself or of its debug file; None where there is none."""
        try:
            entries = entries_of(Elf(self.path))
        except TracerError:
            return None
        self._elf = None if entries is None else entries.elf
        return entries

    def type(self, name: str, addresses: Sequence[int]) -> Type | str | None:
        """The type that a name means for code at these addresses (`name_lookup.type_named`)."""
        about = f"{name} {cache.key_of(*map(hex, addresses))}"
        return self._answer("type", about, lambda entries: type_named(entries, name, addresses, self.key))

    def constant(self, name: str, addresses: Sequence[int]) -> int | str | None:
        """The value that an enumerator's name means for code at these addresses (`name_lookup.constant_named`)."""
        about = f"{name} {cache.key_of(*map(hex, addresses))}"
        return self._answer("constant", about, lambda entries: constant_named(entries, name, addresses))

    def type_at(self, place: int) -> Type | None:
        """The type whose entry has a number; None where it is declared but never defined."""

        def find(entries: Entries) -> Type | None:
            entry = types.defined(entries.entry(place))
            return None if entry is None else types.type_of(entry, self.key)

        return self._answer("at", place, find)

    def parameters(self, site: FileSite) -> tuple[Parameter, ...] | str:
        """The parameters of a function, or why they are not known."""
        if site.copy:
            return INSIDE
        about = site.address
        try:
            parameters = self._answer("parameters", about, lambda entries: parameters_at(entries, site, self.key))
        except TracerError as error:
            return error.message
        return self._missing() if parameters is None else parameters

    def _missing(self) -> str:
        """Why the debug information does not tell of a function."""
        missing = self._entries.split.missing if self._elf is not None and self._entries is not None else ()
        return f"its debug information was split off to {min(missing)}, which is not there" if missing else _NOTHING

    def variables(self, site: FileSite, finder: Callable[[], NewFinder]) -> tuple[Local, ...] | str:
        """The variables in scope at a site, or why they are not known."""
        about = f"{site.address} {site.line} {site.copy}"
        try:
            variables = self._answer(
                "variables", about, lambda entries: self._found_by(finder, entries).locals_at(site)
            )
        except TracerError as error:
            return error.message
        return self._missing() if variables is None else variables

    def readable(self, site: FileSite, name: str, finder: Callable[[], NewFinder]) -> Lines:
        """The lines at which a variable can be read that cannot at a site."""
        about = f"{site.address} {site.line} {site.copy} {name}"
        lines = self._answer("readable", about, lambda entries: self._found_by(finder, entries).readable(site, name))
        return lines or Lines("")

    def _found_by(self, finder: Callable[[], NewFinder], entries: Entries) -> Finder:
        if self._of_places is None:
            self._of_places = finder()(self.path, entries, self.key)
        return self._of_places

    def no_result(self, site: FileSite, unused: Callable[[str, int], bool]) -> str:
        """Why the function that a site is in returns nothing; "" where it returns something, or nobody knows."""
        about = site.address
        callers = partial(unused, site.path)
        return self._answer("result", about, lambda entries: no_result(entries, about, callers)) or ""

    def result_type(self, site: FileSite) -> Type | str:
        """The type of what the function that a site is in returns in a register; else why none is known."""
        about = site.address
        type: Type | str | None
        type = self._answer("result type", about, lambda entries: result_type(entries, about, self.key))
        return NOT_SAID if type is None else type

    def struct_result(self, site: FileSite) -> Parameter | None:
        """The struct that the function that a site is in returns, and where it is then."""
        about = site.address
        return self._answer("struct result", about, lambda entries: struct_result(entries, about, self.key))

    def is_in_two(self, site: FileSite) -> bool:
        """Whether the function that a site is in returns an integer in two registers."""
        about = site.address
        return bool(self._answer("in two", about, lambda entries: is_in_two(entries, about)))

    def variable(self, name: str, address: int) -> tuple[int, Type] | str:
        """The address and the type of a variable, or why it has none. Of several that of the source file of the code at
        an address.
        """
        if name not in self._variables:
            self._variables[name] = self._variable(name)
        variable = self._variables[name]
        if isinstance(variable, str):
            about = f"{name} {address}"
            return self._answer("of source", about, lambda entries: self._of_source(entries, name, address)) or variable
        return variable

    def _of_source(self, entries: Entries, name: str, address: int) -> tuple[int, Type] | None:
        """A variable at the top of the source file of the code at an address."""
        variables = {
            place: entry
            for unit in traced_units(entries, [address])
            for entry in named(entries, name, _VARIABLES, unit)
            if (place := fixed_address(entry)) is not None and not scope(entry)
        }
        if len(variables) != 1:
            return None
        ((place, entry),) = variables.items()
        return place, types.type_of(attribute(entry, dw.TYPE), self.key)

    def _variable(self, name: str) -> tuple[int, Type] | str:
        try:
            with closing(Elf(self.path)) as elf:
                symbol = variable_of(Symbols(elf, find_debug_file), name, self._demangler)
        except TracerError as error:
            return error.message
        if isinstance(symbol, str):
            return symbol

        def kind(entries: Entries) -> Type | None:
            # A static member of a class has, where it is defined, the linker's name alone (DWARF 4; clang 14 in 5).
            plain = last_word(name) if "::" in name else name
            linked = named(entries, symbol.name, _VARIABLES, None, True, dw.LINKAGE_NAME)
            for entry in chain(linked, named(entries, plain, _VARIABLES, declared=True)):
                place = fixed_address(entry)
                if place == symbol.address or (place is None and entry.text(dw.LINKAGE_NAME) == symbol.name):
                    with suppress(types.UnknownType):
                        return types.type_of(attribute(entry, dw.TYPE), self.key)
            return None

        type = self._answer("variable", f"{name} {symbol.address}", kind)
        return symbol.address, type or IntType(8 * symbol.size if symbol.size in (1, 2, 4) else 64, True)

    def keep(self) -> None:
        """Keeps the answers, and closes the file."""
        if self._new and self._lasting:
            last = dict([*self._answers.items()][-_MOST_KEPT:])
            cache.store(_KIND, cache.key_of(marshalling.version(), self.key), marshal.dumps(last))
            self._new = False
        if self._elf is not None:
            self._elf.close()
        if self._of_places is not None:
            self._of_places.close()


def prototype(path: str, address: int) -> tuple[str, ...] | None:
    """The parameters of the function at an address, as `list -v` shows them: `struct node* n`; None where nothing says.
    Raises `TracerError` where debug information is damaged.
    """

    def find(entries: Entries) -> tuple[str, ...] | None:
        function = function_at(entries, address)
        if function is None:
            return None
        results = function.unit.top.number(dw.LANGUAGE) == dw.GO  # which are parameters there, marked so
        return tuple(
            f"{types.spelling(attribute(declared, dw.TYPE))} {name_of(declared)}".rstrip()
            for declared, concrete in parameters_of(function)
            if not (results and concrete.number(dw.VARIABLE_PARAMETER))
        )

    return asked(path, "prototype", address, find)


def asked(path: str, question: str, about: str | int, find: Callable[[Entries], T]) -> T | None:
    """The result of `find` on the debug information of a file, None if it has none; asked once in a run. Raises
    `TracerError` where it is damaged.
    """
    return _opened(path)._answer(question, about, find)


@lru_cache(maxsize=16)
def _opened(path: str) -> _File:
    return _File("", path, False)


def _key(identity: FileIdentity) -> str:
    return identity.build_id or f"{identity.device}:{identity.inode}:{identity.size}:{identity.mtime_ns}"
