"""USDT probes of an ELF file, from its notes.

A USDT probe ("user statically defined tracing") is a place the author of a program chose for tracing. The macro
DTRACE_PROBE2(prov, name, a, b) of <sys/sdt.h> costs the program one `nop` there. All else goes into a note, in a
section `.note.stapsdt` that is never loaded: the nop's address, the two names, and for every argument where the
compiler keeps it *at this instruction*. Tracing means: put a uprobe on the nop, and read the arguments from there.

Four things make this harder than it sounds.

*One probe is many sites.* Whoever inlines or unrolls the function around the macro copies nop and note alike. Each copy
has its own address and very often other places for its arguments: a register here, the stack there. So everything is
kept per site, and nothing ever said of "the probe's arguments".

*Semaphores.* Computing an argument may be expensive; then the program guards the macro by a counter, a 16-bit variable
in the section `.probes`, and tests it before. It is zero until a tracer increments it, in every process it traces. The
note gives its address (0: none). The kernel does the counting (since 4.20) if told the *file offset* of the variable. A
semaphore that is forgotten means a probe that never fires, without any error.

*Addresses move.* They are virtual addresses as of link time. `prelink` rewrites a library for another load address but
leaves notes alone, as they are not loaded. That is what the empty section `.stapsdt.base` is for: the note keeps the
address it had at link time; the section header has the one of today; the difference goes onto every address of the
note.

*Linkers drop functions.* With --gc-sections the notes of a dropped function stay, at address 0 or, of lld and mold, at
what was added to it (0x4, 0xe): see `Binary.was_dropped`.

*Arguments are assembler text.* See `operands.py` for the grammar, `symbol_operands.py` for those that name variables.

The note (name "stapsdt", type 3) has as its description three addresses (nop, .stapsdt.base, semaphore) and
three NUL-terminated strings: provider, name, arguments.

Newer headers write a nop of five or ten bytes right behind the one that the note names: see `kernel.trials`.
"""

from __future__ import annotations

import os
import struct

from tracer.dataclass import dataclass
from tracer.errors import printable
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import PF_W, PF_X, SHF_EXECINSTR, SHT_NOBITS, notes

_ADDRESSES = {8: struct.Struct("<QQQ"), 4: struct.Struct("<III")}
"""By the bytes of an address."""
_KEEP_NOTES = b"LLD", b"mold"
"""How the linkers name themselves."""


@dataclass(frozen=True, slots=True)
class UsdtNote:
    """A site as its note describes it; what would steer a terminal escaped; addresses are already corrected for
    prelink. `semaphore` is an address, 0 where the probe has none.
    """

    provider: str
    name: str
    address: int
    semaphore: int
    arguments: str


def read_notes(elf: Elf, damaged: list[str] | None = None) -> tuple[UsdtNote, ...]:
    """Reads all USDT sites of a file, in the order of the notes, each once. Those whose code the linker has dropped are
    among them, at address 0 or another where there is none.

    Raises `ElfError` for notes that are damaged; with `damaged`, which gets their places in words, for sections alone.
    """
    def bad(offset: int) -> None:
        where = f"damaged USDT note at byte {offset} of section .note.stapsdt"
        if damaged is None:
            raise elf.error(where)
        damaged.append(where)

    addresses, most = _ADDRESSES[elf.word], (1 << 8 * elf.word) - 1
    base = elf.section(".stapsdt.base")
    sites: dict[UsdtNote, None] = {}
    for section in elf.sections:
        if section.name != ".note.stapsdt":
            continue
        content = elf.content(section)
        end = 0
        for note in notes(content):
            end = note.end
            if note.name != b"stapsdt" or note.type != 3:
                continue
            parts = note.description[addresses.size :].split(b"\0")
            if len(note.description) < addresses.size or len(parts) < 4:
                bad(note.offset)
                continue
            address, noted_base, semaphore = addresses.unpack_from(note.description)
            moved = base.address - noted_base if base is not None and noted_base else 0
            provider, name, arguments = (printable(part.decode("utf-8", "backslashreplace")) for part in parts[:3])
            site = UsdtNote(
                provider,
                name,
                address + moved & most if address else 0,
                semaphore + moved & most if semaphore else 0,
                arguments,
            )
            sites[site] = None
        if any(content[end:]):
            bad(end)
    return tuple(sites)


def code_ranges(elf: Elf) -> list[range]:
    """The ranges of code. The headers of a file can lie in an executable segment, too, but in no such section."""
    sections = [section for section in elf.sections if section.flags & SHF_EXECINSTR]
    if sections:
        return [range(section.address, section.address + section.size) for section in sections]
    return [range(load.address, load.address + load.file_size) for load in elf.loads if load.flags & PF_X]


def linker_keeps_notes(elf: Elf) -> bool:
    """Whether notes of dropped code may have the addresses of other code, so small are those that the linker left."""
    section = elf.section(".comment")
    content = elf.content(section) if section is not None else b""
    return any(name in content for name in _KEEP_NOTES)


def linker_folds(elf: Elf) -> bool:
    """Whether the linker is one that can make one place of functions of equal code (--icf)."""
    return linker_keeps_notes(elf) or elf.section(".note.gnu.gold-version") is not None


def semaphore_offset(elf: Elf, note: UsdtNote) -> int | None:
    """The semaphore's file offset, None for a probe without one.

    Raises `ElfError` where the kernel could not count it, so that the probe would never fire: it takes an even offset
    in a writable mapping of the file (kernel/events/uprobes.c, uprobe_register and valid_ref_ctr_vma). Such a mapping
    ends with a page, so the beginning of .bss can lie in it.
    """
    if not note.semaphore:
        return None
    what = f"the semaphore of {note.provider}:{note.name} at {note.semaphore:#x}"
    page = os.sysconf("SC_PAGESIZE")
    writable = (load for load in elf.loads if load.flags & PF_W and load.file_size)
    for segment in writable:
        if segment.address <= note.semaphore < (segment.address + segment.file_size + page - 1) // page * page:
            if note.semaphore % 2:
                raise elf.error(f"{what} has an odd address, where the kernel counts none")
            return note.semaphore - segment.address + segment.offset
    empty = (section for section in elf.sections if section.type == SHT_NOBITS)
    if any(section.address <= note.semaphore < section.address + section.size for section in empty):
        raise elf.error(f"{what} is in memory that comes from no file (.bss), where the kernel counts none")
    raise elf.error(f"{what} is not in the file's writable data")


def misplaced(elf: Elf, note: UsdtNote) -> bool:
    """Whether the kernel would count a semaphore, which has an offset, in the wrong memory of a program that is loaded
    later.

    It does so in the first writable mapping of the page in the file (kernel/events/uprobes.c, delayed_ref_ctr_inc): lld
    and mold let two segments share one. And the rest of the last page of a segment, where .bss begins, is cleared after
    that. Where the count is 0 when a probe is removed, the kernel keeps the probe for ever.
    """
    page = os.sysconf("SC_PAGESIZE")
    for segment in (load for load in elf.loads if load.flags & PF_W and load.file_size):
        if segment.holds(note.semaphore):
            semaphore_page = (note.semaphore - segment.address + segment.offset) // page
            before = (load for load in elf.loads if load.flags & PF_W and load.address < segment.address)
            return any(
                load.offset // page <= semaphore_page <= (load.offset + load.file_size - 1) // page
                for load in before
                if load.file_size
            )
    return True
