"""Looks symbols up: functions by name, wildcard and address, variables by name.

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
""".gnu_debugdata may become so many bytes, or so many times its size; symbols take four to ten times."""

MAX_NESTED = 64
"""The number of earlier symbols that are tried for one that reaches over an address."""


class Symbols:
    """The symbols of one file. `find_debug` opens its separate debug file, if there is one."""

    def __init__(self, elf: Elf, find_debug: Callable[[Elf], Elf | None] = lambda _: None) -> None:
        self._elf = elf
        self._find_debug = find_debug
        self._few_lookups = 8

    @cached_property
    def static(self) -> Table | None:
        """The contents of .symtab."""
        return read_table(self._elf, SHT_SYMTAB)

    @cached_property
    def exported(self) -> Table | None:
        """The contents of .dynsym."""
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
        if result and self.exported is not None and not any([function[6] for function in result]):  # as lld writes it
            versioned = {(function[0], function[1]): function for function in self.exported.functions if function[6]}
            result = [versioned.get((function[0], function[1]), function) for function in result]
        for table in (self.exported, self.debug):
            if table is None:
                continue
            if not result:
                result = list(table.functions)
                continue
            addresses = {function.address for function in table.functions}
            places = {(function.name, function.address) for function in result if function.address in addresses}
            result += [function for function in table.functions if (function.name, function.address) not in places]
        return tuple(result)

    def named(self, name: str) -> tuple[Function, ...]:
        """The functions of exactly this name (`name` or `name@VERSION`), each place once, in order of address."""
        whole = name
        name, _, version = name.partition("@")
        version = version.lstrip("@")
        functions = [function for table in self._all for function in table.named(name)]
        if version:
            functions = [function for function in functions if function.version == version]
        elif any(function.default for function in functions):
            # lld writes no versions into .symtab, where both then seem to be the default.
            older = {function.address for function in functions if not function.default}
            older -= {function.address for function in functions if function.default and function.version}
            functions = [function for function in functions if function.default and function.address not in older]
        if functions:
            return unique_places(functions)
        if not _written_as_stored(whole):
            return unique_places([function for function in self.functions if function.name == whole])
        return ()

    def copies(self, name: str) -> tuple[Function, ...]:
        """The copies that GCC made of the function of that name for some of its callers, which then do not call it
        itself.
        """
        return unique_places(copy for table in self._all for copy in table.copies(name))

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
            functions = [
                function
                for function in self.functions
                if function[6] and matches(f"{function[0]}{'@@' if function[5] else '@'}{function[6]}")
            ]
        elif matches is bool:
            functions = list(self.functions)
        else:
            functions = [function for function in self.functions if matches(function[0])]
        if not cold:
            functions = [function for function in functions if ".cold" not in function[0] or not is_cold(function[0])]
        return unique_places(functions)

    def in_full(self, functions: tuple[Function, ...]) -> tuple[Function, ...]:
        """The functions, each whose name alone means a newer version of it under `name@VERSION`."""
        if all([function[5] for function in functions]):
            return functions
        current = {function[0] for function in self.functions if function[5] and function[6]}
        return tuple(
            function
            if function[5] or function[0] not in current
            else function._replace(name=f"{function.name}@{function.version}")
            for function in functions
        )

    @cached_property
    def _by_address(self) -> tuple[list[int], list[Function], int]:
        ordered = sorted(self.functions, key=itemgetter(1))
        return [function[1] for function in ordered], ordered, max(map(itemgetter(2), ordered), default=0)

    def function_at(self, address: int) -> Function | None:
        """The function that holds the address: the innermost, under the most public of its names.

        One of unknown size holds what lies between it and the next.
        """
        if "_by_address" not in self.__dict__ and self._few_lookups > 0:
            # Sorting all of a large file costs more than looking through it a few times.
            self._few_lookups -= 1
            for tables in self._in_turn():
                holding = [function for table in tables for function in table.holding(address)]
                if holding:
                    start = max(function.address for function in holding)
                    return min((function for function in holding if function.address == start), key=Function.rank)
        starts, ordered, longest = self._by_address
        index = after = bisect_right(starts, address)
        sized: list[Function] = []
        unsized: list[Function] = []
        while index and after - index < MAX_NESTED:
            index -= 1
            function = ordered[index]
            if (sized and function.address != sized[0].address) or address - function.address > longest:
                break
            if address < function.address + function.size:
                sized.append(function)
            elif (
                function.size == 0
                and function.address == starts[after - 1]
                and (address == function.address or after < len(starts))
            ):
                unsized.append(function)
        return min(sized or unsized, key=Function.rank, default=None)

    def next_start(self, address: int) -> int | None:
        """The address at which the next function begins."""
        starts = self._by_address[0]
        index = bisect_right(starts, address)
        return starts[index] if index < len(starts) else None

    def variables(self, name: str) -> tuple[Variable, ...]:
        """The definitions of a name, each address once."""
        by_address = {variable.address: variable for table in self._all for variable in table.variables(name)}
        return tuple(by_address[address] for address in sorted(by_address))

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
    best = {function[1]: function for function in reversed(functions)}
    if len(best) < len(functions):
        for function in functions:
            chosen = best[function[1]]
            if chosen is not function and function.rank() < chosen.rank():
                # An alias of unknown size must not hide that another says it.
                best[function.address] = function if function.size else function._replace(size=chosen.size)
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
