"""The procedure linkage table: the jumps by which a file calls functions of others."""

from __future__ import annotations

from tracer.resolve.elf.file import Elf

_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".iplt")


def in_plt(elf: Elf, address: int) -> bool:
    """Whether an address lies in the procedure linkage table."""
    tables = (section for section in elf.sections if section.name in _SECTIONS)
    return any(table.address <= address < table.address + table.size for table in tables)
