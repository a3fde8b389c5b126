"""Units that were split off to files of their own (`gcc -gsplit-dwarf`): a .dwo file for each, or one .dwp for all.

What stays in the program is a skeleton: addresses, line numbers, the file's name and a number that both have. It is
looked for where the skeleton says, and beside the program.

Sources: DWARF 5, 7.3.2 (split DWARF object files), 7.3.5 (package files); GNU's DebugFission and DebugFissionDWP.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Generic, Protocol, TypeVar

from tracer.errors import TracerError
from tracer.resolve.dwarf.sections import content
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.unit import SPLIT_AT, Entry, File, Unit
from tracer.resolve.elf.file import Elf

_COLUMNS = {1: ".debug_info", 2: ".debug_types", 3: ".debug_abbrev", 4: ".debug_line", 6: ".debug_str_offsets"}
_OLD_COLUMNS = {**_COLUMNS, 5: ".debug_loc"}
_NEW_COLUMNS = {**_COLUMNS, 5: ".debug_loclists", 8: ".debug_rnglists"}
_TYPES = 1 << 64
"""Added to the signature of a type unit in a package, to number it among the units."""

_COLUMN_NAMES = frozenset((*_OLD_COLUMNS.values(), *_NEW_COLUMNS.values()))
Parts = dict[str, tuple[int, int]]


F = TypeVar("F", bound=File)
_F = TypeVar("_F", bound=File, covariant=True)


class Opener(Protocol[_F]):
    """Makes the debug information of what was split off; see `entries.Entries`."""

    def __call__(self, elf: Elf, base: int, skeleton: Unit, section: Callable[[str], bytes]) -> _F:
        """The reader of one unit that was split off."""


class _Package:
    """A .dwp file. `units` and `types` say by number and by signature where the parts of its sections are."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self._contents: dict[str, bytes] = {}
        self.units = _read_index(self._content(".debug_cu_index"))
        self.types = _read_index(self._content(".debug_tu_index"))

    def _content(self, name: str) -> bytes:
        if name not in self._contents:
            self._contents[name] = content(self.elf, name)
        return self._contents[name]

    def section(self, parts: Parts, name: str) -> bytes:
        """The part of a section that belongs to a unit; the whole where all share it."""
        data = self._content(f"{name}.dwo")
        if name not in parts:
            return data if name not in _COLUMN_NAMES else b""
        start, size = parts[name]
        return data[start : start + size]


class SplitUnits(Generic[F]):
    """The units of one file that were split off. `missing` are the names of files that are not there."""

    def __init__(self, file: F, opened: Opener[F]) -> None:
        self._file = file
        self._make = opened
        self._parts: dict[int, F | None] = {}
        self._types: dict[int, F] = {}
        self.missing: set[str] = set()

    @cached_property
    def _skeletons(self) -> list[Unit]:
        if self._file.skeleton is not None or not self._file.elf.section(".debug_addr"):
            return []
        return [unit for unit in self._file.units if _name_of(unit)]

    def of(self, skeleton: Unit) -> F | None:
        """The part that was split off from a unit; None if no part was, or if its file is not there."""
        if self._file.skeleton is not None or not _name_of(skeleton):
            return None
        if skeleton.offset not in self._parts:
            self._parts[skeleton.offset] = self._opened(skeleton)
        return self._parts[skeleton.offset]

    def numbered(self, number: int) -> F:
        """The split part of a unit, by the unit's place in the numbers of its entries."""
        if number > _TYPES:
            return self._types[number - _TYPES] if number - _TYPES in self._types else self._type(number - _TYPES)
        part = self.of(next(unit for unit in self._file.units if unit.offset == number - 1))
        if part is None:
            raise TracerError("debug information was split off to a file that is not there")
        return part

    def naming(self, name: bytes) -> Iterator[F]:
        """All split parts. Those come first of which .debug_gnu_pubnames and .debug_gnu_pubtypes say that they have the
        name.
        """
        skeletons = self._skeletons
        if not skeletons:
            return
        first = set(self._published(name))
        for unit in sorted(skeletons, key=lambda skeleton: skeleton.offset not in first):
            part = self.of(unit)
            if part is not None:
                yield part
        if self._package is not None:
            yield from map(self._type, self._package.types)

    def signed(self, skeleton: Unit, signature: int) -> Entry | None:
        """The type of a type unit that is not in the same file as what refers to it, but in the same package."""
        if self._package is None or signature not in self._package.types:
            return None
        return self._type(signature, skeleton).signed(signature)

    def _type(self, signature: int, skeleton: Unit | None = None) -> F:
        part = self._types.get(signature)
        if part is None:
            assert self._package is not None
            package, base = self._package, (_TYPES + signature) << SPLIT_AT
            section = partial(package.section, package.types[signature])
            part = self._types[signature] = self._make(package.elf, base, skeleton or self._skeletons[0], section)
        return part

    def _opened(self, skeleton: Unit) -> F | None:
        number, base = _id_of(skeleton), (skeleton.offset + 1) << SPLIT_AT
        package = self._package
        if package is not None and number in package.units:
            return self._make(package.elf, base, skeleton, partial(package.section, package.units[number]))
        for path in self._paths(skeleton):
            try:
                elf = Elf(path, objects=True)
            except TracerError:
                continue
            elf.close()  # a program has thousands of them
            part = self._make(elf, base, skeleton, partial(_section, path))
            if any(_id_of(unit) == number for unit in part.units):
                return part
        self.missing.add(_name_of(skeleton))
        return None

    def _paths(self, skeleton: Unit) -> Iterator[str]:
        name, home = _name_of(skeleton), skeleton.top.text(dw.COMP_DIR)
        beside = os.path.dirname(os.path.realpath(self._file.elf.path))
        places = (os.path.join(home, name), os.path.join(beside, name), os.path.join(beside, os.path.basename(name)))
        yield from (path for path in dict.fromkeys(places) if os.path.isfile(path))

    @cached_property
    def _package(self) -> _Package | None:
        path = self._file.elf.path
        for candidate in dict.fromkeys((f"{path}.dwp", f"{os.path.realpath(path)}.dwp")):
            if os.path.isfile(candidate):
                try:
                    return _Package(Elf(candidate, objects=True))
                except TracerError:
                    continue
        return None

    def _published(self, name: bytes) -> Iterator[int]:
        """The units that define a name outside of functions, and perhaps some more."""
        for section in (".debug_gnu_pubtypes", ".debug_gnu_pubnames"):
            data = self._file.section(section)
            starts: list[int] = []
            units: list[int] = []
            offset = 0
            while offset + 14 <= len(data):
                length, _, unit = struct.unpack_from("<IHI", data, offset)
                starts.append(offset)
                units.append(unit)
                offset += 4 + length
            place = data.find(name + b"\0")
            while place >= 0:
                yield units[bisect_right(starts, place) - 1]
                place = data.find(name + b"\0", place + 1)


def _section(path: str, name: str) -> bytes:
    with Elf(path, objects=True) as elf:
        return content(elf, f"{name}.dwo")


def _name_of(unit: Unit) -> str:
    """The file that a unit was split off to, "" for a whole one."""
    top = unit.top
    return top.text(dw.DWO_NAME) or top.text(dw.GNU_DWO_NAME) if not unit.type_at else ""


def _id_of(unit: Unit) -> int:
    return unit.split_id or unit.top.number(dw.GNU_DWO_ID) or 0


def _read_index(data: bytes) -> dict[int, Parts]:
    """The index of a package: a table by hash of the numbers, and for each unit a row of offsets and one of sizes."""
    if len(data) < 16:
        return {}
    version, columns, units, slots = struct.unpack_from("<IIII", data)
    names = _NEW_COLUMNS if version & 0xFFFF == 5 else _OLD_COLUMNS
    numbers = struct.unpack_from(f"<{slots}Q", data, 16)
    rows = struct.unpack_from(f"<{slots}I", data, 16 + 8 * slots)
    table = 16 + 12 * slots
    kinds = struct.unpack_from(f"<{columns}I", data, table)
    offsets, sizes = table + 4 * columns, table + 4 * columns * (1 + units)
    index: dict[int, Parts] = {}
    for number, row in zip(numbers, rows, strict=True):
        if 0 < row <= units:
            skip = 4 * columns * (row - 1)
            starts = struct.unpack_from(f"<{columns}I", data, offsets + skip)
            lengths = struct.unpack_from(f"<{columns}I", data, sizes + skip)
            index[number] = {
                names[kind]: (start, size)
                for kind, start, size in zip(kinds, starts, lengths, strict=True)
                if kind in names
            }
    return index
