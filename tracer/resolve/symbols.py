"""Symbol tables: functions by name, wildcard and address; variables by name.

A file has up to three tables, looked at in this order: `.symtab` (everything, absent from a stripped file), `.dynsym`
(what it exports) and the `.symtab` of the separate debug file that its build id names. The third is read only where
the first two do not answer.

Several names may stand at one address (aliases), and one name at several (static functions of different source files,
versions of an exported one). A name means every place it stands at, but where one version is the default, that alone.
A wildcard takes each place once, under the most public of its names.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from tracer.resolve.elf import MAX_READ, SHT_DYNSYM, SHT_GNU_VERSYM, SHT_SYMTAB, Elf

STT_FUNC, STT_SECTION, STT_FILE, STT_TLS, STT_GNU_IFUNC = 2, 3, 4, 6, 10
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
MAX_NAME = 1 << 14
"""Longer names are cut: they serve nobody, and the demangler recurses over them."""

MAX_NESTED = 64
"""How many earlier symbols are tried for one that reaches over an address."""

_SYMBOL = struct.Struct("<IBBHQQ")
_Row = tuple[int, int, int, int, int, int]


class Function(NamedTuple):
    """A function's symbol. `size` in bytes, 0 where the file does not say. `ifunc`: the code at `address` does not do
    the work, it chooses at load time who does. `default`: not superseded by a newer version of the name.
    """

    name: str
    address: int
    size: int
    binding: int = STB_GLOBAL
    ifunc: bool = False
    default: bool = True
    version: str = ""

    def rank(self) -> tuple[bool, int, int, int, str]:
        """Orders the names of one place, the most public first."""
        underscores = len(self.name) - len(self.name.lstrip("_"))
        return (
            not self.default,
            {STB_GLOBAL: 0, STB_WEAK: 1}.get(self.binding, 2),
            underscores,
            len(self.name),
            self.name,
        )


class Variable(NamedTuple):
    """A symbol of any other use than naming a section or file."""

    name: str
    address: int
    type: int
    absolute: bool


class Table:
    """One symbol table, kept as bytes; decoding 60,000 entries takes some 10 ms."""

    def __init__(self, data: bytes, strings: bytes, versions: bytes = b"") -> None:
        self._data = data[: len(data) // _SYMBOL.size * _SYMBOL.size]
        self._strings = strings
        self._versions = versions

    @cached_property
    def functions(self) -> list[Function]:
        """All named functions that are defined here."""
        rows = [
            row for row in _SYMBOL.iter_unpack(self._data) if row[1] & 15 in (2, 10) and row[3] and row[4] and row[0]
        ]
        hidden = self._hidden()
        strings = self._strings
        find, new = strings.find, tuple.__new__  # twice as fast as calling the class, 50,000 times
        made: list[Function] = []
        for name_at, info, _, _, address, size in rows:
            name = strings[name_at : min(find(b"\0", name_at), name_at + MAX_NAME)].decode("utf-8", "backslashreplace")
            if name:
                made.append(new(Function, (name, address, size, info >> 4, info & 15 == STT_GNU_IFUNC, True, "")))
        if hidden:
            made = [each._replace(default=(each.name, each.address) not in hidden) for each in made]
        if b"@" in strings:
            made = [_versioned(each) for each in made]
        return made

    def _hidden(self) -> set[tuple[str, int]]:
        """Name and address of the symbols whose version is not the default one (Elf64_Versym, bit 15)."""
        if not self._versions:
            return set()
        numbers = [each[0] for each in struct.iter_unpack("<H", self._versions[: len(self._versions) // 2 * 2])]
        hidden: set[tuple[str, int]] = set()
        for row, number in zip(_SYMBOL.iter_unpack(self._data), numbers, strict=False):
            if number & 0x8000 and row[1] & 15 in (2, 10):
                hidden.add((self._name(row[0]), row[4]))
        return hidden

    def _name(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset)
        return (
            self._strings[offset : min(end, offset + MAX_NAME)].decode("utf-8", "backslashreplace") if end >= 0 else ""
        )

    def _rows(self, name: str) -> list[_Row]:
        """The entries of that name, with or without a version. The name is looked up in the string table first, which
        spares decoding all the others.
        """
        if not name:
            return []
        offsets = set()
        for wanted in (name.encode("utf-8", "surrogateescape") + end for end in (b"\0", b"@")):
            at = self._strings.find(wanted)
            while at >= 0:
                offsets.add(at)
                at = self._strings.find(wanted, at + 1)
        return [row for row in _SYMBOL.iter_unpack(self._data) if row[0] in offsets] if offsets else []

    def named(self, name: str) -> list[Function]:
        """The functions of that name."""
        rows = [row for row in self._rows(name) if row[1] & 15 in (STT_FUNC, STT_GNU_IFUNC) and row[3] and row[4]]
        hidden = self._hidden() if rows else set()
        return [
            _versioned(
                Function(full, row[4], row[5], row[1] >> 4, row[1] & 15 == STT_GNU_IFUNC, (full, row[4]) not in hidden)
            )
            for full, row in ((self._name(row[0]), row) for row in rows)
        ]

    def variables(self, name: str) -> list[Variable]:
        """The definitions of that name, whatever their type."""
        return [
            Variable(name, row[4], row[1] & 15, row[3] == SHN_ABS)
            for row in self._rows(name)
            if row[3] and row[1] & 15 not in (STT_SECTION, STT_FILE)
        ]

    def holding(self, address: int) -> list[Function]:
        """The functions of known size that hold the address."""
        rows = [
            row
            for row in _SYMBOL.iter_unpack(self._data)
            if row[4] <= address < row[4] + row[5] and row[1] & 15 in (STT_FUNC, STT_GNU_IFUNC) and row[3] and row[4]
        ]
        return [_versioned(Function(self._name(row[0]), row[4], row[5], row[1] >> 4)) for row in rows]

    @property
    def has_cpp_names(self) -> bool:
        """Whether any name may be mangled as in C++."""
        return b"\0_Z" in self._strings

    def mentions(self, name: str) -> bool:
        """Whether an entry has that name, defined or not."""
        return bool(self._rows(name))

    def imports(self, name: str) -> bool:
        """Whether the name stands here as undefined: taken from another library."""
        return any(row[3] == SHN_UNDEF for row in self._rows(name))

    def name(self, index: int) -> str:
        """The name of the entry with that number, without its version."""
        at = index * _SYMBOL.size
        return self._name(_SYMBOL.unpack_from(self._data, at)[0]).partition("@")[0] if at < len(self._data) else ""


def _versioned(function: Function) -> Function:
    """`memcpy@GLIBC_2.2.5` and `memcpy@@GLIBC_2.14`, as some linkers write names into .symtab, taken apart."""
    name, at, version = function.name.partition("@")
    if not at or not name:
        return function
    return function._replace(name=name, default=version.startswith("@"), version=version.lstrip("@"))


def read_table(elf: Elf, kind: int) -> Table | None:
    """The file's symbol table of that section type, or None."""
    section = next((each for each in elf.sections if each.type == kind), None)
    if section is None:
        return None
    if section.entry_size not in (0, _SYMBOL.size):
        raise elf.error(f"not a valid ELF file: symbols of {section.entry_size} bytes")
    versions = next((each for each in elf.sections if each.type == SHT_GNU_VERSYM), None)
    return Table(
        elf.content(section),
        elf.content(elf.linked(section)),
        elf.content(versions) if kind == SHT_DYNSYM and versions is not None else b"",
    )


class Symbols:
    """The symbols of one file. `find_debug` opens its separate debug file, if there is one."""

    def __init__(self, elf: Elf, find_debug: Callable[[Elf], Elf | None] = lambda _: None) -> None:
        self._elf = elf
        self._find_debug = find_debug
        self._few_lookups = 8

    @cached_property
    def static(self) -> Table | None:
        """.symtab."""
        return read_table(self._elf, SHT_SYMTAB)

    @cached_property
    def exported(self) -> Table | None:
        """.dynsym."""
        return read_table(self._elf, SHT_DYNSYM)

    @cached_property
    def debug(self) -> Table | None:
        """The .symtab of the debug file, or of the compressed excerpt that Fedora keeps in .gnu_debugdata."""
        if self.static is not None:
            return None
        other = self._find_debug(self._elf)
        if other is None:
            other = _mini_debug(self._elf)
        if other is None:
            return None
        with other:
            return read_table(other, SHT_SYMTAB) if other.machine == self._elf.machine else None

    @property
    def stripped(self) -> bool:
        """Whether only exported names are known."""
        return self.static is None and self.debug is None

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """All functions of all tables, every name once per address."""
        result = list(self.static.functions) if self.static is not None else []
        for table in (self.exported, self.debug):
            if table is None:
                continue
            if not result:
                result = list(table.functions)
                continue
            addresses = {each.address for each in table.functions}
            known = {(each.name, each.address) for each in result if each.address in addresses}
            result += [each for each in table.functions if (each.name, each.address) not in known]
        return tuple(result)

    def named(self, name: str) -> tuple[Function, ...]:
        """The functions of exactly this name (`name` or `name@VERSION`), each place once, in order of address."""
        name, _, version = name.partition("@")
        version = version.lstrip("@")
        for tables in ((self.static, self.exported), (self.debug,)):
            found = [each for table in tables if table is not None for each in table.named(name)]
            if version:
                found = [each for each in found if each.version == version]
            elif any(each.default for each in found):
                found = [each for each in found if each.default]
            if found:
                return unique_places(found)
            if self.static is not None:
                break
        return ()

    @property
    def has_cpp_names(self) -> bool:
        """Whether any name is mangled as in C++."""
        tables = (self.static or self.exported, self.debug)
        return any(table is not None and table.has_cpp_names for table in tables)

    def matching(self, matches: Callable[[str], object]) -> tuple[Function, ...]:
        """The functions whose name satisfies `matches`, each place once, in order of address.

        Cold parts are left out: the compiler split them off a function, jumps into them and never calls them.
        """
        found = self.functions if matches is bool else [each for each in self.functions if matches(each[0])]
        return unique_places([each for each in found if ".cold" not in each[0] or not is_cold(each[0])])

    @cached_property
    def _by_address(self) -> tuple[list[int], list[Function], int]:
        ordered = sorted(self.functions, key=lambda each: each[1])
        return [each.address for each in ordered], ordered, max((each.size for each in ordered), default=0)

    def at(self, address: int) -> Function | None:
        """The function that holds the address: the innermost, under the most public of its names.

        One of unknown size holds what lies between it and the next.
        """
        if "_by_address" not in self.__dict__ and self._few_lookups > 0:
            # Sorting all of a large file costs more than looking through it a few times.
            self._few_lookups -= 1
            for tables in ((self.static, self.exported), (self.debug,)):
                holding = [each for table in tables if table is not None for each in table.holding(address)]
                if holding:
                    start = max(each.address for each in holding)
                    return min((each for each in holding if each.address == start), key=Function.rank)
        starts, ordered, longest = self._by_address
        index = after = bisect_right(starts, address)
        sized: list[Function] = []
        unsized: list[Function] = []
        while index and after - index < MAX_NESTED:
            index -= 1
            each = ordered[index]
            if (sized and each.address != sized[0].address) or address - each.address > longest:
                break
            if address < each.address + each.size:
                sized.append(each)
            elif (
                each.size == 0
                and each.address == starts[after - 1]
                and (address == each.address or after < len(starts))
            ):
                unsized.append(each)
        return min(sized or unsized, key=Function.rank, default=None)

    def next_start(self, address: int) -> int | None:
        """Where the next function after an address begins."""
        starts = self._by_address[0]
        index = bisect_right(starts, address)
        return starts[index] if index < len(starts) else None

    def variables(self, name: str) -> tuple[Variable, ...]:
        """The definitions of a name, each address once; the debug file is asked where the file itself has none."""
        for tables in ((self.static, self.exported), (self.debug,)):
            found = {each.address: each for table in tables if table is not None for each in table.variables(name)}
            if found:
                return tuple(found[address] for address in sorted(found))
            if self.static is not None:
                break
        return ()

    def imports(self, name: str) -> bool:
        """Whether this file uses the function of another library."""
        return any(table is not None and table.imports(name) for table in (self.exported, self.static))


def is_cold(name: str) -> bool:
    """Whether the name is that of a function's cold part (`name.cold`, `name.cold.3`)."""
    return re.search(r"\.cold(\.\d+)?$", name) is not None


def unique_places(functions: Iterable[Function]) -> tuple[Function, ...]:
    """Each address once, under its most public name, in order of address."""
    best: dict[int, Function] = {}
    for each in functions:
        known = best.setdefault(each[1], each)
        if known is each:
            continue
        if each.rank() < known.rank():
            # An alias of unknown size must not hide that another says it.
            best[each.address] = each if each.size else each._replace(size=known.size)
    return tuple(best[address] for address in sorted(best))


def _mini_debug(elf: Elf) -> Elf | None:
    section = elf.section(".gnu_debugdata")
    if section is None:
        return None
    import lzma

    unpack = lzma.LZMADecompressor()
    try:
        content = unpack.decompress(elf.content(section), MAX_READ // 4)
    except lzma.LZMAError:
        return None
    return Elf(f"{elf.path}[.gnu_debugdata]", content) if unpack.eof else None
