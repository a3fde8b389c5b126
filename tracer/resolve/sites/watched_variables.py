"""Variables that a watchpoint names: their places in files, and how many bytes the processor is to watch there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import TracerError, and_more, printable
from tracer.kinds.model import InFile
from tracer.kinds.site import FileSite, Target
from tracer.kinds.watched import LENGTHS
from tracer.lang.types import ArrayType, NamedType, StructType, Type, memory_size
from tracer.resolve.dwarf.debug_info import DebugInfo
from tracer.resolve.elf.relocations import relocations
from tracer.resolve.elf.structures import PF_X
from tracer.resolve.elf.symbol_table import STT_FUNC, STT_GNU_IFUNC
from tracer.resolve.elf.variables import variable_of
from tracer.resolve.symbols.demangle import demangler

if TYPE_CHECKING:
    from tracer.resolve.binary import Binary
    from tracer.resolve.files.paths import Found

_PARTS = re.compile(r"(?:\.\w+|\[\d+\])*\Z")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")
_MOST = 8
"""Members that a message names."""


class Variables:
    """See `kinds.model.Memory`."""

    def __init__(self, open: Callable[[Found], Binary], target: Target) -> None:
        self._open = open
        self._target = target

    def variable(self, path: str, name: str) -> tuple[InFile, int]:
        """The place and length of `counter`, `pair.b` or `table[3].count`. Raises `TracerError`."""
        from tracer.resolve.files.paths import find_files, is_pattern

        if is_pattern(path):
            raise TracerError("a watchpoint is in one file, and this is a pattern", "name the file")
        candidates = find_files(path, self._target)
        if len(candidates) > 1:
            raise TracerError(f"{printable(path)} is {len(candidates)} files in these processes", "name one of them")
        binary = self._open(candidates[0])
        symbol_name, parts = _apart(binary, name)
        symbol = variable_of(binary.symbols, symbol_name, demangler)
        if isinstance(symbol, str):
            raise TracerError(symbol, f"tracer watches static and global variables: nm {printable(path)} shows them")
        if symbol.type in (STT_FUNC, STT_GNU_IFUNC):
            hint = f"uprobe:{printable(path)}:{printable(symbol_name)} sees its calls"
            raise TracerError(f"{printable(symbol_name)} is a function, and no variable", hint)
        address, size = symbol.address, symbol.size
        if parts or size not in LENGTHS:
            address, size = _part(binary, symbol_name, parts, address, size)
        place = _place(binary, candidates[0].shown, address)
        return replace(place, copies=tuple(self._copies(binary, symbol.name, address - symbol.address))), size

    def _copies(self, library: Binary, name: str, offset: int) -> Iterator[InFile]:
        """The places that programs of the target have for a variable of a library, `offset` bytes into it: the dynamic
        linker copies it there before they begin, and lets the library use it too.
        """
        if not library.symbols.exported or not library.symbols.exported.variables(name):
            return
        from tracer.resolve.files.paths import Found

        pids, program = self._target.pids, self._target.program
        paths = [f"/proc/{pid}/exe" for pid in pids] or ([program] if program else [])
        programs: dict[int, Binary] = {}
        for path in paths:
            with suppress(TracerError):
                binary = self._open(Found(path, path))
                programs[id(binary)] = binary
        for binary in programs.values():
            copied = {place.address for place in relocations(binary.elf) if place.kind == binary.arch.relocations.copy}
            for variable in binary.symbols.variables(name) if copied else ():
                if variable.address in copied:
                    yield _place(binary, binary.elf.path, variable.address + offset)


def _place(binary: Binary, shown: str, address: int) -> InFile:
    """Raises `TracerError`."""
    code = next((load for load in binary.elf.loads if load.flags & PF_X), None)
    if code is None:
        raise binary.elf.error("it holds no code, by which tracer could tell where it is loaded")
    return InFile(binary.elf.path, shown, binary.identity, address, (code.offset, code.address))


def _apart(binary: Binary, name: str) -> tuple[str, str]:
    """The variable and what follows it. Compilers put dots into names too: `count.0`."""
    ends = [position for position in range(len(name), 0, -1) if _PARTS.match(name, position)]
    end = next((end for end in ends if binary.symbols.variables(name[:end])), ends[-1])
    return name[:end], name[end:]


def _part(binary: Binary, symbol: str, parts: str, address: int, size: int) -> tuple[int, int]:
    """The address and the bytes of a part of a variable, by debug information. Raises `TracerError`."""
    path, identity = binary.elf.path, binary.identity
    of_file = FileSite("uprobe", "", "", (), 0, path, identity, 0, 0)
    debug = DebugInfo([of_file], demangler)
    located = debug.variable(of_file, symbol)
    if isinstance(located, str):
        raise TracerError(located)
    address, whole = located
    type, name = _settled(debug, whole), symbol
    described = memory_size(type) == size
    for part in _PART.finditer(parts):
        if isinstance(type, StructType) and part[1]:
            field = type.field(part[1])
            if field is None:
                raise TracerError(f"{printable(name)} has no member {part[1]}", _would_do(debug, name, type))
            address, type = address + field.offset, _settled(debug, field.type)
        elif isinstance(type, ArrayType) and part[2]:
            if int(part[2]) >= type.count:
                raise TracerError(f"{printable(name)} has {type.count} elements, the last is {type.count - 1}")
            type = _settled(debug, type.item)
            address += int(part[2]) * memory_size(type)
        elif not described:
            hint = "watch it by its address: watchpoint:ADDRESS:LENGTH:w"
            raise TracerError(f"there is no debug information of {printable(name)}", hint)
        else:
            raise TracerError(f"{printable(name)} has no part {part[0]}", _would_do(debug, name, type))
        name += part[0]
    size = memory_size(type) if parts else size
    if size not in LENGTHS:
        by_address = "watch a part of it by its address: watchpoint:ADDRESS:8:w"
        remedy = _would_do(debug, name, type) if described else by_address
        raise TracerError(f"the processor watches 1, 2, 4 or 8 bytes, and {printable(name)} has {size}", remedy)
    return address, size


def _settled(debug: DebugInfo, type: Type) -> Type:
    if isinstance(type, NamedType) and type.place is not None:
        return debug.type_at(type.place) or type
    return type


def _would_do(debug: DebugInfo, name: str, type: Type) -> str | None:
    parts = [printable(part) for part in _watchable(debug, name, type) if part != name]
    return f"watch a part of it: {and_more(parts[:_MOST], len(parts))}" if parts else None


def _watchable(debug: DebugInfo, name: str, type: Type) -> Iterator[str]:
    type = _settled(debug, type)
    if isinstance(type, StructType):
        for field in type.fields:
            yield from _watchable(debug, f"{name}.{field.name}" if field.name else name, field.type)
    elif isinstance(type, ArrayType):
        for index in range(min(type.count, 1)):
            yield from _watchable(debug, f"{name}[{index}]", type.item)
    elif memory_size(type) in LENGTHS:
        yield name
