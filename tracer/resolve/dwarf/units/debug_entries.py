"""The debug information of a file: its own, or that of its debug file."""

from __future__ import annotations

import os
import struct

from tracer.errors import TracerError
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.unit import OTHER_AT
from tracer.resolve.elf.debug_file import debug_roots, find_debug_file
from tracer.resolve.elf.file import Elf

NONSENSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""The exceptions of readers on invalid debug information."""


def entries_of(elf: Elf, keep: bool = False) -> Entries | None:
    """The entries; None where there are none. Where they are the debug file's, the file itself is closed, unless it is
    to be kept.
    """
    file: Elf | None = elf
    if not _has_info(elf):
        file = find_debug_file(elf)
        if not keep:
            elf.close()
        if file is not None and not _has_info(file):
            file.close()
            file = None
    if file is None:
        return None
    other = _alternate(file)
    return Entries(file, None if other is None else Entries(other, base=OTHER_AT))


def _has_info(elf: Elf) -> bool:
    for name in (".debug_info", ".zdebug_info"):
        section = elf.section(name)
        if section is not None and section.type != 8 and section.size:  # NOBITS: it lies in another file
            return True
    return False


def _alternate(elf: Elf) -> Elf | None:
    """The file to which dwz moved what several files have in common. A section holds its path and build id."""
    section = elf.section(".gnu_debugaltlink")
    if section is None:
        return None
    text, _, build_id = elf.content(section).partition(b"\0")
    path, wanted = os.fsdecode(text), build_id.hex()
    places = [os.path.join(os.path.dirname(os.path.realpath(elf.path)), path)]
    for root in debug_roots(elf):
        places += [f"{root}/.dwz/{os.path.basename(path)}", f"{root}/.build-id/{wanted[:2]}/{wanted[2:]}.debug"]
    for place in places:
        if os.path.isfile(place):
            try:
                other = Elf(place, objects=True)
            except TracerError:
                continue
            if other.build_id == wanted:
                return other
            other.close()
    return None
