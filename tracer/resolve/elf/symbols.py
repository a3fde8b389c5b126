"""Symbol tables: functions by name, wildcard and address; variables by name.

A file has up to three tables: `.symtab` (everything, unless the file was stripped), `.dynsym` (what it exports) and the
`.symtab` of the separate debug file (`debug_file`). The third is read for a name where the first has lost those of
static functions and variables: else an exported one would hide a static one of the same name. It is read for an address
where the others do not answer.

Several names may stand at one address (aliases), and one name at several (static functions of different source files,
versions of an exported one). A name means every place it stands at, but where one version is the default, that alone.
A wildcard takes each place once, of whatever version, under the most public of its names.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property
from operator import itemgetter

from tracer.resolve.elf.file import MAX_READ, Elf
from tracer.resolve.elf.structures import SHT_DYNSYM, SHT_SYMTAB
from tracer.resolve.elf.symbol_table import MAX_NAME, Function, Table, Variable, read_table

_AT_LEAST, _MOST_UNPACKED = 1 << 20, 64
"""Bytes that .gnu_debugdata may become, and how many times its size; symbols take four to ten."""

MAX_NESTED = 64
"""How many earlier symbols are tried for one that reaches over an address."""


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
        if self.static is not None and self.static.keeps_locals:
            return None
        other = self._find_debug(self._elf)
        if other is None:
            other = _mini_debug(self._elf)
        if other is None:
            return None
        with other:
            return read_table(other, SHT_SYMTAB) if other.machine == self._elf.machine else None

    def _in_turn(self) -> list[list[Table]]:
        """The tables of the file itself, then that of its debug file."""
        both = (self.static, self.exported), (self.debug,)
        return [[table for table in tables if table is not None] for tables in both]

    @property
    def stripped(self) -> bool:
        """Whether only exported names are known."""
        return self.static is None and self.debug is None

    @property
    def lacks_locals(self) -> bool:
        """Whether the names of static functions and variables are not known."""
        return not any(table is not None and table.keeps_locals for table in (self.static, self.debug))

    @property
    def _all(self) -> list[Table]:
        """All tables that know names which the others lack."""
        return [table for tables in self._in_turn() for table in tables]

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """All functions of all tables, every name once per address."""
        result = list(self.static.functions) if self.static is not None else []
        if result and self.exported is not None and not any([each[6] for each in result]):  # as lld writes it
            versioned = {(each[0], each[1]): each for each in self.exported.functions if each[6]}
            result = [versioned.get((each[0], each[1]), each) for each in result]
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
        whole = name
        name, _, version = name.partition("@")
        version = version.lstrip("@")
        found = [each for table in self._all for each in table.named(name)]
        if version:
            found = [each for each in found if each.version == version]
        elif any(each.default for each in found):
            # lld writes no versions into .symtab, where both then seem to be the default.
            older = {each.address for each in found if not each.default}
            older -= {each.address for each in found if each.default and each.version}
            found = [each for each in found if each.default and each.address not in older]
        if found:
            return unique_places(found)
        if not _written_as_stored(whole):
            return unique_places([each for each in self.functions if each.name == whole])
        return ()

    def copies(self, name: str) -> tuple[Function, ...]:
        """The copies that GCC made of the function of that name for some of its callers, which then do not call it
        itself.
        """
        return unique_places(each for table in self._all for each in table.copies(name))

    @property
    def has_mangled_names(self) -> bool:
        """Whether any name is mangled as in C++ or Rust."""
        tables = (self.static or self.exported, self.debug)
        return any(table is not None and table.has_mangled_names for table in tables)

    def matching(
        self, matches: Callable[[str], object], versions: bool = False, cold: bool = False
    ) -> tuple[Function, ...]:
        """The functions whose name satisfies `matches`, each place once, in order of address; with `versions` those of
        which `name@VERSION` satisfies it (`name@@VERSION` where it is the default).

        Without `cold` cold parts are left out: the compiler split them off a function, jumps into them and never calls
        them.
        """
        if versions:
            versioned = [each for each in self.functions if each.version]
            found = [each for each in versioned if matches(f"{each[0]}{'@@' if each[5] else '@'}{each[6]}")]
        else:
            found = list(self.functions) if matches is bool else [each for each in self.functions if matches(each[0])]
        return unique_places([each for each in found if cold or ".cold" not in each[0] or not is_cold(each[0])])

    def in_full(self, functions: tuple[Function, ...]) -> tuple[Function, ...]:
        """The functions, each whose name alone means a newer version of it under `name@VERSION`."""
        if all([each[5] for each in functions]):
            return functions
        current = {each[0] for each in self.functions if each[5] and each[6]}
        return tuple(
            each if each[5] or each[0] not in current else each._replace(name=f"{each.name}@{each.version}")
            for each in functions
        )

    @cached_property
    def _by_address(self) -> tuple[list[int], list[Function], int]:
        ordered = sorted(self.functions, key=itemgetter(1))
        return [each[1] for each in ordered], ordered, max(map(itemgetter(2), ordered), default=0)

    def at(self, address: int) -> Function | None:
        """The function that holds the address: the innermost, under the most public of its names.

        One of unknown size holds what lies between it and the next.
        """
        if "_by_address" not in self.__dict__ and self._few_lookups > 0:
            # Sorting all of a large file costs more than looking through it a few times.
            self._few_lookups -= 1
            for tables in self._in_turn():
                holding = [each for table in tables for each in table.holding(address)]
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
        """The address at which the next function begins."""
        starts = self._by_address[0]
        index = bisect_right(starts, address)
        return starts[index] if index < len(starts) else None

    def variables(self, name: str) -> tuple[Variable, ...]:
        """The definitions of a name, each address once."""
        found = {each.address: each for table in self._all for each in table.variables(name)}
        return tuple(found[address] for address in sorted(found))

    def mangled(self, word: str) -> list[str]:
        """The names of C++ and Rust in which a word stands, whatever they name."""
        return sorted({name for table in self._all for name in table.mangled(word)})

    def imports(self, name: str) -> bool:
        """Whether this file uses the function of another library."""
        return any(table is not None and table.imports(name) for table in (self.exported, self.static))


def _written_as_stored(name: str) -> bool:
    """Whether the bytes of the name are those of the table: none was escaped, cut, or taken for a version."""
    return "\\" not in name and len(name) < MAX_NAME and not name.startswith("@")


def is_cold(name: str) -> bool:
    """Whether the name is that of a function's cold part (`name.cold`, `name.cold.3`)."""
    return re.search(r"\.cold(\.\d+)?$", name) is not None


def unique_places(functions: Iterable[Function]) -> tuple[Function, ...]:
    """Each address once, under its most public name, in order of address."""
    functions = list(functions)
    best = {each[1]: each for each in reversed(functions)}
    if len(best) < len(functions):
        for each in functions:
            known = best[each[1]]
            if known is not each and each.rank() < known.rank():
                # An alias of unknown size must not hide that another says it.
                best[each.address] = each if each.size else each._replace(size=known.size)
    return tuple(map(best.__getitem__, sorted(best)))


def _mini_debug(elf: Elf) -> Elf | None:
    section = elf.section(".gnu_debugdata")
    if section is None:
        return None
    import lzma

    unpack = lzma.LZMADecompressor()
    try:
        packed = elf.content(section)
        content = unpack.decompress(packed, min(MAX_READ // 4, _AT_LEAST + _MOST_UNPACKED * len(packed)))
    except lzma.LZMAError:
        return None
    return Elf(f"{elf.path}[.gnu_debugdata]", content) if unpack.eof else None
