"""The procedure linkage table: the jumps by which a file calls functions of others."""

from __future__ import annotations

from tracer.resolve.elf.file import Elf

_SECTIONS = (".plt", ".plt.sec", ".plt.got", ".iplt")


def in_plt(elf: Elf, address: int) -> bool:
    """Whether an address is of an entry of it."""
    return any(
        each.name in _SECTIONS and each.address <= address < each.address + each.size for each in elf.sections
    )
