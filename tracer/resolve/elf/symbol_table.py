"""One symbol table of an ELF file: its entries as functions and variables.

Source: gABI, chapter 4 (Elf64_Sym, Elf32_Sym); the GNU extensions for indirect functions and symbol versions.
"""

from __future__ import annotations

import re
import struct
from functools import cached_property
from itertools import chain, repeat

from tracer.dataclass import NamedTuple
from tracer.errors import printable
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import SHT_DYNSYM, SHT_GNU_VERSYM, ElfError

STT_FUNC, STT_SECTION, STT_FILE, STT_TLS, STT_GNU_IFUNC = 2, 3, 4, 6, 10
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
MAX_NAME = 1 << 14
"""Longer names are cut: they serve nobody, and the demangler recurses over them."""

_AT_LEAST, _TIMES = 1 << 26, 4
"""Characters of all names: so many, and so many times the table. Names share their ends, but not as often as that."""

_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_32 = struct.Struct("<IIIBBH")
_SOME = 1024 * _SYMBOL.size
_HIDDEN = 0x8000
_Row = tuple[int, int, int, int, int, int]


class Function(NamedTuple):
    """A function's symbol; what would steer a terminal is escaped in its name. `size` in bytes, 0 where the file does
    not say. `ifunc`: the code at `address` does not do the work, it chooses at load time who does. `default`: not
    superseded by a newer version of the name.
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
    """A symbol that does more than name a section or a file."""

    name: str
    address: int
    type: int
    absolute: bool
    size: int = 0


_OF_THE_LINKER = frozenset(
    ("_DYNAMIC", "_GLOBAL_OFFSET_TABLE_", "_PROCEDURE_LINKAGE_TABLE_", "_TLS_MODULE_BASE_", "__GNU_EH_FRAME_HDR")
)
"""The names that linkers add to each file as local ones."""

_COPY = rb"((?:constprop|isra|part)\.\d+(?:\.(?:constprop|isra|part|lto_priv)\.\d+)*)(?=\0)"
"""The ending of a copy's name, behind the function's name and a dot. A `.cold` part is no copy."""


class Table:
    """One symbol table, kept as bytes; decoding 60,000 entries takes some 10 ms."""

    def __init__(
        self, data: bytes, strings: bytes, versions: bytes = b"", version_names: dict[int, str] | None = None
    ) -> None:
        """`versions` has a number for each entry, and `version_names` the names of these numbers."""
        self._data = data[: len(data) // _SYMBOL.size * _SYMBOL.size]
        self._strings = strings
        names = version_names or {}
        self._versions = [
            (not number & _HIDDEN, names.get(number & ~_HIDDEN, ""))
            for (number,) in struct.iter_unpack("<H", versions[: len(versions) // 2 * 2])
        ]

    @cached_property
    def functions(self) -> list[Function]:
        """All named functions that are defined here."""
        # Written for 60,000 of them: `tuple.__new__` takes half as long as the class, slicing text half as long as
        # slicing bytes and decoding.
        new, text, kinds = tuple.__new__, self._text, (STT_FUNC, STT_GNU_IFUNC)
        find = text.find
        functions: list[Function] = []
        remaining = _AT_LEAST + _TIMES * len(text)
        versions = chain(self._versions, repeat((True, "")))
        for start in range(0, len(self._data), _SOME):
            rows = _SYMBOL.iter_unpack(self._data[start : start + _SOME])
            some: list[Function] = [
                new(Function, (name, address, size, info >> 4, info & 15 == STT_GNU_IFUNC, *version))
                for (offset, info, _, section, address, size), version in zip(rows, versions, strict=False)
                if section and address and offset and info & 15 in kinds and (name := text[offset : find("\0", offset)])
            ]
            remaining -= sum([len(function[0]) for function in some])
            if remaining < 0:
                raise ElfError(f"unusable symbol table: its names are more than {_TIMES} times as long as their table")
            functions += some
        if not self._strings.isascii():
            functions = [
                function if function[0].isascii() else function._replace(name=_decoded(function[0]))
                for function in functions
            ]
        if not "".join([function[0] for function in functions]).isprintable():
            functions = [
                function if function[0].isprintable() else function._replace(name=printable(function[0]))
                for function in functions
            ]
        if "@" in text:
            functions = [_versioned(function) if "@" in function[0] else function for function in functions]
        return functions

    @cached_property
    def _text(self) -> str:
        """The table of strings, one character for each byte; it ends with its last end of a name. Longer names are cut
        there, once and not for each symbol.
        """
        text = self._strings[: self._strings.rfind(b"\0") + 1].decode("latin-1")
        if max(map(len, text.split("\0"))) > MAX_NAME:
            text = re.sub(rf"([^\0]{{{MAX_NAME}}})[^\0]", r"\1" + "\0", text)
        return text

    def _name(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset, offset + MAX_NAME + 1)
        if end < 0:
            end = offset + MAX_NAME if self._strings.find(b"\0", offset) >= 0 else offset
        return printable(self._strings[offset:end].decode("utf-8", "backslashreplace"))

    def _rows(self, name: str) -> list[tuple[int, _Row]]:
        """The entries of that name, with or without a version, by their numbers. The name is looked up in the string
        table first, which spares decoding all the others.
        """
        if not name:
            return []
        offsets = set()
        for wanted in (name.encode("utf-8", "surrogateescape") + end for end in (b"\0", b"@")):
            offset = self._strings.find(wanted)
            while offset >= 0:
                offsets.add(offset)
                offset = self._strings.find(wanted, offset + 1)
        if not offsets:
            return []
        return [(index, row) for index, row in enumerate(_SYMBOL.iter_unpack(self._data)) if row[0] in offsets]

    def named(self, name: str) -> list[Function]:
        """The functions of that name."""
        return [
            _versioned(
                Function(
                    self._name(row[0]), row[4], row[5], row[1] >> 4, row[1] & 15 == STT_GNU_IFUNC, *self._version(index)
                )
            )
            for index, row in self._rows(name)
            if row[1] & 15 in (STT_FUNC, STT_GNU_IFUNC) and row[3] and row[4]
        ]

    def copies(self, name: str) -> list[Function]:
        """The copies that GCC made of the function of that name for some of its callers: `f.constprop.0`, `f.isra.0`,
        `f.part.0`; the string table is asked first, as above.
        """
        start = name.encode("utf-8", "surrogateescape") + b"."
        endings = set(re.findall(re.escape(start) + _COPY, self._strings)) if start in self._strings else ()
        return [copy for ending in sorted(endings) for copy in self.named(f"{name}.{ending.decode()}")]

    def _version(self, index: int) -> tuple[bool, str]:
        """The version of an entry, and whether it is the default of its name."""
        return self._versions[index] if index < len(self._versions) else (True, "")

    def variables(self, name: str) -> list[Variable]:
        """The definitions of that name, whatever their type."""
        return [
            Variable(name, row[4], row[1] & 15, row[3] == SHN_ABS, row[5])
            for _, row in self._rows(name)
            if row[3] and row[1] & 15 not in (STT_SECTION, STT_FILE)
        ]

    def mangled(self, word: str) -> list[str]:
        """The names of the string table that C++ and Rust have made of one with that word in it."""
        names = re.findall(rb"(?:^|\0)(_[RZ][^\0]{,%d})(?=\0)" % MAX_NAME, self._strings)
        return [name.decode() for name in names if word.encode() in name and name.isascii()]

    def holding(self, address: int) -> list[Function]:
        """The functions of known size that hold the address."""
        rows = [
            row
            for row in _SYMBOL.iter_unpack(self._data)
            if row[4] <= address < row[4] + row[5] and row[1] & 15 in (STT_FUNC, STT_GNU_IFUNC) and row[3] and row[4]
        ]
        return [_versioned(Function(self._name(row[0]), row[4], row[5], row[1] >> 4)) for row in rows]

    def starting(self, address: int) -> list[tuple[str, bool]]:
        """The names of the functions that begin there. With each, whether a link that optimises all files together made
        it local to this file; a hidden function does not count as such.
        """
        return [(self._name(row[0]), not row[1] >> 4 and not row[2] & 3) for row in self._starts.get(address, ())]

    @cached_property
    def _starts(self) -> dict[int, list[_Row]]:
        starts: dict[int, list[_Row]] = {}
        for row in _SYMBOL.iter_unpack(self._data):
            if row[1] & 15 == STT_FUNC and row[3]:
                starts.setdefault(row[4], []).append(row)
        return starts

    @property
    def has_mangled_names(self) -> bool:
        """Whether any name may be mangled as in C++ or Rust."""
        return b"\0_Z" in self._strings or b"\0_R" in self._strings

    @cached_property
    def keeps_locals(self) -> bool:
        """Whether the names of static functions and variables were left in it: `strip -x` and `--strip-unneeded` take
        them away. What starts and ends a program has some, whoever wrote it. They come before all others.
        """
        return any(
            section and offset and not info >> 4 and not other & 3 and info & 15 not in (STT_SECTION, STT_FILE)
            and self._name(offset) not in _OF_THE_LINKER
            for offset, info, other, section, _, _ in _SYMBOL.iter_unpack(self._data)
        )  # fmt: skip

    def mentions(self, name: str) -> bool:
        """Whether an entry has that name, defined or not."""
        return bool(self._rows(name))

    def imports(self, name: str) -> bool:
        """Whether the name stands here as undefined: taken from another library."""
        return any(row[3] == SHN_UNDEF for _, row in self._rows(name))

    def name(self, index: int) -> str:
        """The name of the entry with that number, without its version."""
        offset = index * _SYMBOL.size
        if offset >= len(self._data):
            return ""
        return self._name(_SYMBOL.unpack_from(self._data, offset)[0]).partition("@")[0]

    def version(self, index: int) -> str:
        """The version of the entry with that number, "" where it has none."""
        return self._version(index)[1]


def _decoded(name: str) -> str:
    return name.encode("latin-1").decode("utf-8", "backslashreplace")


def _versioned(function: Function) -> Function:
    """Takes the version out of the name, which some linkers write into .symtab as `memcpy@GLIBC_2.2.5` or
    `memcpy@@GLIBC_2.14`.
    """
    name, separator, version = function.name.partition("@")
    if not separator or not name:
        return function
    return function._replace(name=name, default=version.startswith("@"), version=version.lstrip("@"))


def _widened(content: bytes) -> bytes:
    """The symbols of a 32-bit file in the layout of 64 bits."""
    whole = content[: len(content) // _SYMBOL_32.size * _SYMBOL_32.size]
    pack = _SYMBOL.pack
    return b"".join(
        [
            pack(name, info, other, section, address, size)
            for name, address, size, info, other, section in _SYMBOL_32.iter_unpack(whole)
        ]
    )


def read_table(elf: Elf, kind: int) -> Table | None:
    """The file's symbol table of that section type, or None."""
    section = next((candidate for candidate in elf.sections if candidate.type == kind), None)
    if section is None:
        return None
    if section.entry_size not in (0, (_SYMBOL if elf.word == 8 else _SYMBOL_32).size):
        raise elf.error(f"not a valid ELF file: symbols of {section.entry_size} bytes")
    versions = next((candidate for candidate in elf.sections if candidate.type == SHT_GNU_VERSYM), None)
    content, strings = elf.content(section), elf.content(elf.linked(section))
    if elf.word == 4:
        content = _widened(content)
    if kind != SHT_DYNSYM or versions is None:
        return Table(content, strings)
    from tracer.resolve.elf.symbol_versions import version_names

    return Table(content, strings, elf.content(versions), version_names(elf))
