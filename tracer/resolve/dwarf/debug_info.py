"""What the debug information of the traced files says of types and parameters: `lang.types.outside.Outside`.

A file is opened when something is asked that no earlier run was told. Answers are kept by the build id, or and not at
all where a file has none: a debug file of a hundred megabytes is then not even opened.
"""

from __future__ import annotations

import marshal
import os
import re
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import cached_property, lru_cache
from typing import Any

from tracer import cache
from tracer.dataclass import names
from tracer.errors import TracerError
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
from tracer.lang.types.outside import Parameter
from tracer.resolve.arch import ARCHES
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.arguments import Convention, GoConvention, RustConvention
from tracer.resolve.dwarf.functions import (
    attribute,
    function_at,
    has,
    name_of,
    parameters_of,
)
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.names import named
from tracer.resolve.dwarf.units.opened import NONSENSE, entries_of
from tracer.resolve.dwarf.units.ranges import fixed_address, location_at, start_of
from tracer.resolve.dwarf.units.unit import Entry
from tracer.resolve.elf.debug_file import find_debug_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.elf.variables import variable_of
from tracer.resolve.model import FileIdentity, Site

_KIND = "types"
_TYPES = (ArrayType, CharType, EnumType, Field, FloatType, IntType, NamedType, Parameter, PointerType, StructType)
_CLASSES: dict[str, type] = {each.__name__: each for each in _TYPES}
_CHANGED = re.compile(r"\.(isra|constprop|part|llvm|specialized)\b")
_VARIABLES = frozenset((dw.VARIABLE,))
_DEEPEST = 16
_GO_CHECK = 256
"""Bytes of a Go function that check its stack; its arguments stay where they are there."""
_NOTHING = "there is no debug information of it"
_REGISTERS = {
    62: ("ax", "dx", "cx", "bx", "si", "di", "bp", "sp", *(f"r{number}" for number in range(8, 16))),
    183: tuple(f"x{number}" for number in range(31)),
}
"""By the number of the ELF header's machine: the names of DWARF's registers from 0 on."""


class DebugInfo:
    """Of the files of these sites."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self._files: dict[str, _File] = {}
        for site in sites:
            key = _key(site.identity)
            file = self._files.get(key)
            if file is None:
                file = self._files[key] = _File(key, site.path, site.identity.build_id is not None)
            if site.kind != "usdt":
                file.addresses.add(site.address)

    def type(self, name: str) -> Type | None:
        """See `Outside`."""
        return next((found for file in self._files.values() if (found := file.type(name)) is not None), None)

    def at(self, place: tuple[str, int]) -> Type | None:
        """See `Outside`."""
        return self._files[place[0]].at(place[1])

    def constant(self, name: str) -> int | None:
        """See `Outside`."""
        return next((found for file in self._files.values() if (found := file.constant(name)) is not None), None)

    def parameters(self, site: Site) -> tuple[Parameter, ...] | str:
        """See `Outside`."""
        return self._files[_key(site.identity)].parameters(site)

    def variable(self, site: Site, name: str) -> tuple[int, Type] | str:
        """See `Outside`."""
        found = self._files[_key(site.identity)].variable(name)
        return found if isinstance(found, str) else (found[0] - site.address, found[1])

    def keep(self) -> None:
        """Keeps for the next run what was read, and closes the files."""
        for file in self._files.values():
            file.keep()


class _File:
    """One file. `known` are the answers so far."""

    def __init__(self, key: str, path: str, lasting: bool) -> None:
        self.key, self._path, self._lasting = key, path, lasting
        self.addresses: set[int] = set()
        self._variables: dict[str, tuple[int, Type] | str] = {}
        self._elf: Elf | None = None
        self._new = False

    @cached_property
    def _known(self) -> dict[tuple[str, str | int], Any]:
        content = cache.load(_KIND, cache.key_of(_reader(), self.key)) if self._lasting else None
        return marshal.loads(content) if content is not None else {}  # its digest was right: `keep` wrote it

    def _answer(self, question: str, about: str | int, find: Callable[[Entries], Any]) -> Any:
        known = self._known.get((question, about), self)
        if known is self:
            entries = self._entries
            if entries is None:
                return None
            try:
                found = find(entries)
            except TracerError:
                return None
            except NONSENSE as error:
                raise entries.elf.error(f"its debug information cannot be read: {error}") from None
            known = _plain(found)
            if not entries.split.missing:  # what is missing may be there the next time
                self._known[question, about] = known
                self._new = True
        return _made(known)

    @cached_property
    def _entries(self) -> Entries | None:
        """The debug information, of the file itself or of its debug file; None where there is none."""
        try:
            found = entries_of(Elf(self._path))
        except TracerError:
            return None
        self._elf = None if found is None else found.elf
        return found

    def type(self, name: str) -> Type | None:
        """The type of a name: of those in the units of the traced functions, else of any."""
        found: Type | None = self._answer("type", name, lambda entries: self._type(entries, name))
        return found

    def _type(self, entries: Entries, name: str) -> Type | None:
        word, _, rest = name.partition(" ")
        tags = types.TAGS.get(word)
        wanted = rest
        if tags is None or not rest:
            tags, wanted = types.TAGS[""], name
        functions = [function_at(entries, address) for address in sorted(self.addresses)[:16]]
        units = {id(each.unit): each.unit for each in functions if each is not None}
        for unit in (*units.values(), None):
            for entry in named(entries, wanted, tags, unit):
                return types.named(entry, self.key)
        return None

    def at(self, place: int) -> Type | None:
        """The type at a place."""

        def find(entries: Entries) -> Type | None:
            entry = types.defined(entries.at(place))
            return None if entry is None else types.type_of(entry, self.key)

        found: Type | None = self._answer("at", place, find)
        return found

    def constant(self, name: str) -> int | None:
        """The value of an enumerator."""
        found: int | None = self._answer("constant", name, lambda entries: types.constant(entries, name))
        return found

    def parameters(self, site: Site) -> tuple[Parameter, ...] | str:
        """The parameters of a function, or why they are not known."""
        found: tuple[Parameter, ...] | str | None
        try:
            found = self._answer("parameters", site.address, lambda entries: self._parameters(entries, site))
        except TracerError as error:
            return error.message
        if found is None or found == _NOTHING:
            missing = self._entries.split.missing if self._elf is not None and self._entries is not None else ()
            return f"its debug information was split off to {min(missing)}, which is not there" if missing else _NOTHING
        return found

    def variable(self, name: str) -> tuple[int, Type] | str:
        """The address and the type of a variable, or why it has none."""
        if name not in self._variables:
            self._variables[name] = self._variable(name)
        return self._variables[name]

    def _variable(self, name: str) -> tuple[int, Type] | str:
        try:
            with closing(Elf(self._path)) as elf:
                found = variable_of(Symbols(elf, find_debug_file), name)
        except TracerError as error:
            return error.message
        if isinstance(found, str):
            return found

        def kind(entries: Entries) -> Type | None:
            for entry in named(entries, name, _VARIABLES, declared=True):
                if fixed_address(entry) == found.address:
                    with suppress(types.UnknownType):
                        return types.type_of(attribute(entry, dw.TYPE), self.key)
            return None

        type: Type | None = self._answer("variable", f"{name} {found.address}", kind)
        return found.address, type or IntType(8 * found.size if found.size in (1, 2, 4) else 64, True)

    def _parameters(self, entries: Entries, site: Site) -> tuple[Parameter, ...] | str:
        function = function_at(entries, site.address)
        if function is None:
            return _NOTHING
        language = function.unit.top.number(dw.LANGUAGE, 0) or 0
        start = start_of(function) or 0
        late = site.address - start
        if late and not (language == dw.GO and late < _GO_CHECK and "+" not in site.probe.rpartition(":")[2]):
            return "they are known where a function begins, and this is inside one"
        return tuple(self._each(entries, function, language, start, site.probe))

    def _each(self, entries: Entries, function: Entry, language: int, start: int, probe: str) -> list[Parameter]:
        arch = ARCHES[entries.elf.machine]
        kind = {dw.GO: GoConvention, dw.RUST: RustConvention}.get(language, Convention)
        convention = kind(arch)
        result = attribute(function, dw.TYPE)
        with suppress(types.UnknownType):
            convention.hidden(types.type_of(result, self.key) if result is not None else None, _by_reference(result))
        changed = _CHANGED.search(probe) is not None
        local = not has(function, dw.EXTERNAL) and language != dw.GO
        found: list[Parameter] = []
        lost = ""
        for declared, own in parameters_of(function):
            if language == dw.GO and own.number(dw.VARIABLE_PARAMETER):
                continue  # a result
            kinds = attribute(declared, dw.TYPE)
            name, text = name_of(declared), types.spelling(kinds)
            if not name:
                name = f"arg{len(found)}"
            below = types.plain(kinds)
            reference = below is not None and below.tag in dw.REFERENCES
            try:
                type = types.type_of(kinds, self.key)
            except types.UnknownType as error:
                lost = lost or f"{error.message}, and so has no known place"
                found.append(Parameter(name, text, reason=lost))
                continue
            place = convention.place(type, _by_reference(kinds))
            register = self._register(own, start, entries.elf.machine) if changed or local else None
            reason = lost or place.reason
            pieces = place.pieces
            if register in arch.args and language != dw.GO and len(pieces) <= 1:
                number = arch.args.index(register)
                if pieces or place.stack is not None:
                    size = pieces[0][1] if pieces else 8
                    place, pieces = place._replace(stack=None), ((0, size, number, 0),)
            elif changed or (local and dw.LOCATION not in own and language != dw.GO):
                value = own.signed(dw.CONST_VALUE)
                reason = "the compiler has optimised it out" + ("" if value is None else f": it is always {value}")
            inner: Type | None = type
            if reference:
                assert isinstance(type, PointerType)
                inner = type.target
                reference = inner is not None
                inner = inner or type
            found.append(Parameter(name, text, inner, () if reason else pieces, None if reason else place.stack,
                                   place.indirect, reference, reason))  # fmt: skip
        return found

    def _register(self, entry: Entry, start: int, machine: int) -> str | None:
        """The register that holds a parameter at the function's start, where debug information says so."""
        expression = location_at(entry, start)
        if not expression or len(expression) != 1 or not 0x50 <= expression[0] <= 0x6F:  # DW_OP_reg0 to reg31
            return None
        registers, number = _REGISTERS[machine], expression[0] - 0x50
        return registers[number] if number < len(registers) else None

    def keep(self) -> None:
        """Keeps the answers, and closes the file."""
        if self._new and self._lasting:
            cache.store(_KIND, cache.key_of(_reader(), self.key), marshal.dumps(self._known))
            self._new = False
        if self._elf is not None:
            self._elf.close()


def prototype(path: str, address: int) -> tuple[str, ...] | None:
    """The parameters of the function at an address, as `list -v` shows them: `struct node* n`; None where nothing says.
    Raises `TracerError` where debug information is damaged.
    """

    def find(entries: Entries) -> tuple[str, ...] | None:
        function = function_at(entries, address)
        if function is None:
            return None
        pairs = [declared for declared, _ in parameters_of(function)]
        return tuple(f"{types.spelling(attribute(each, dw.TYPE))} {name_of(each)}".rstrip() for each in pairs)

    found: tuple[str, ...] | None = asked(path, "prototype", address, find)
    return found


def asked(path: str, question: str, about: str | int, find: Callable[[Entries], Any]) -> Any:
    """What `find` makes of the debug information of a file, None where it has none; asked once in a run. Raises
    `TracerError` where it is damaged.
    """
    return _opened(path)._answer(question, about, find)


@lru_cache(maxsize=16)
def _opened(path: str) -> _File:
    return _File("", path, False)


def _by_reference(entry: Entry | None, deep: int = 0) -> bool:
    """Whether a class of C++ must not be copied as bytes, so that its address is passed: some compilers say so; else it
    has virtual functions, a destructor or a copy constructor of its own, or holds such a class.
    """
    found = types.plain(entry)
    if found is None or found.tag not in dw.RECORDS or deep > _DEEPEST:
        return False
    found = types.defined(found) or found
    stated = found.number(dw.CALLING_CONVENTION)
    if stated is not None:
        return stated == dw.BY_REFERENCE
    name = found.text().partition("<")[0]
    for each in found.children():
        if each.tag in (dw.MEMBER, dw.INHERITANCE):
            if each.text().startswith("_vptr") or dw.VIRTUALITY in each:
                return True
            if dw.EXTERNAL not in each and _by_reference(each.follow(dw.TYPE), deep + 1):
                return True
        elif each.tag == dw.SUBPROGRAM and dw.DEFAULTED not in each and _is_special(each, name, found):
            return True
    return False


def _is_special(function: Entry, name: str, record: Entry) -> bool:
    own = function.text()
    return own == f"~{name}" or (own == name and _copies(function, record))


def _copies(constructor: Entry, record: Entry) -> bool:
    """Whether a constructor takes a reference to its own class alone."""
    taken = [each for each in constructor.children() if each.tag == dw.PARAMETER and dw.ARTIFICIAL not in each]
    if len(taken) != 1:
        return False
    kind = types.plain(taken[0].follow(dw.TYPE))
    if kind is None or kind.tag not in dw.REFERENCES:
        return False
    below = types.plain(kind.follow(dw.TYPE))
    return below is not None and below.id == record.id


def _key(identity: FileIdentity) -> str:
    return identity.build_id or f"{identity.device}:{identity.inode}:{identity.size}:{identity.mtime_ns}"


@lru_cache(maxsize=1)
def _reader() -> str:
    """What reads debug information, in the version that is here."""
    folder = os.path.dirname(__file__)
    with os.scandir(folder) as entries:
        files = [(each.name, each.stat()) for each in entries if each.name.endswith(".py")]
    return repr(sorted((name, status.st_size, status.st_mtime_ns) for name, status in files))


def _plain(value: Any) -> Any:
    """A value as something that marshal knows: an object as its class's name and its fields, a tuple with no name."""
    if value.__class__ is tuple:
        return ("", *map(_plain, value))
    name = value.__class__.__name__
    return (name, *[_plain(getattr(value, each)) for each in names(value)]) if name in _CLASSES else value


def _made(value: Any) -> Any:
    """The opposite of `_plain`."""
    if value.__class__ is not tuple:
        return value
    items = map(_made, value[1:])
    return _CLASSES[value[0]](*items) if value[0] else tuple(items)
