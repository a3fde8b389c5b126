"""Decides whether a probe may be put at a place.

A uprobe overwrites the first byte of an instruction by a breakpoint. Inside an instruction it changes what the program
does, and the kernel does not warn: it takes any offset. So this package returns an offset only if one of these is true:

* a function symbol of non-zero size stands there, in an executable, file-backed segment of that very file;
* decoding the function it lies in, from its first byte on, comes to an instruction that begins there, and no jump of
  the function goes into the middle of a decoded instruction (which would show that the decoding went astray);
* it is the site of a USDT note and holds the nop that the macro writes.

Where a breakpoint already stands in the file the answer is no, whatever else holds, where the kernel would execute
another instruction than the one that stands there, and in restartable sequences.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from tracer.kinds.arch import EM_AARCH64, EM_X86, EM_X86_64
from tracer.resolve.elf.structures import PF_X, ElfError
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.safety.code import Code, Range
from tracer.resolve.safety.opcodes import (
    DOUBTFUL,
    FIVE_BYTE_NOPS,
    LONGEST,
    NOP10,
    NOPS,
    SUSPECT,
    is_breakpoint,
    is_misdecoded,
)
from tracer.resolve.usdt.notes import UsdtNote

UNSAFE = "; --unsafe-returns takes the risk"
"""The end of a remedy, where a return probe does harm only when an exception meets it."""

_MANY = 16
_WINDOW = 1 << 20


def offset_of_code(code: Code, address: int, what: str) -> int:
    """The file offset of an address that must hold code of this file; `what` names the place in the error."""
    elf = code.elf
    segment = elf.segment_at(address)
    offset = elf.offset_of(address)
    if segment is None or offset is None:
        raise elf.error(f"{what} at {address:#x} is not in the file")
    if not code.executable(address):
        raise elf.error(f"{what} at {address:#x} is not in an executable segment")
    content = elf.memory(address, LONGEST, what) or b""
    if is_breakpoint(content, elf.machine):
        raise elf.error(f"{what} at {address:#x} is already a breakpoint in the file itself")
    if elf.machine in EM_X86 and is_misdecoded(content, elf.machine):
        message = (
            f"{what} at {address:#x} begins with an instruction ({content[:6].hex(' ')} …) that Linux misreads"
            " when it is probed, so the program would go wrong"
        )
        raise elf.error(message, "probe another instruction of the function, or what calls it")
    if code.restartable(address):
        message = f"{what} at {address:#x} is in a restartable sequence (rseq), which a probe would break"
        raise elf.error(message, "probe the function's start, or what calls it")
    return offset


def function_start(code: Code, function: Function) -> int:
    """The file offset of a function's first instruction."""
    offset = offset_of_code(code, function.address, f"the function {function.name}")
    if function.size == 0 or (code.elf.machine == EM_AARCH64 and function.address % 4):
        # Hand-written assembler, or a symbol table that says little: see whether any instruction is there.
        if not code.instructions(code.range_of(function)):
            raise code.elf.error(f"the function {function.name} at {function.address:#x} holds no known instruction")
        if function.address % 4 and code.elf.machine == EM_AARCH64:
            raise code.elf.error(f"the function {function.name} at {function.address:#x} is not at a multiple of 4")
    return offset


def function_starts(code: Code, functions: Sequence[Function]) -> list[int | ElfError]:
    """`function_start` of each, or why none may be probed there: the same answer, but for many functions in the order
    of their addresses one read serves all that lie in a megabyte.
    """
    elf = code.elf
    x86 = elf.machine in EM_X86
    looked_at = 0 if x86 else 3
    restartable = bool(code.sequences)
    doubtful = bytes(byte in DOUBTFUL[elf.machine if x86 else EM_AARCH64] for byte in range(256))
    offsets: list[int | ElfError] = []
    # The window of code that was read: where it begins, and the last place that has enough behind it.
    begin, last, shift, content = 0, -1, 0, b""
    for function in functions:
        address, size = function[1], function[2]
        if not begin <= address <= last and len(functions) >= _MANY:
            segment = elf.segment_at(address)
            if segment is not None and segment.flags & PF_X:
                shift = segment.offset - segment.address
                length = min(_WINDOW, segment.address + segment.file_size - address, elf.size - address - shift)
                content = elf.read(address + shift, max(length, 0), "the code")
                begin, last = address, address + len(content) - LONGEST
        if begin <= address <= last and size and (x86 or not address % 4):
            position = address - begin
            plain = not doubtful[content[position + looked_at]]
            if not plain and x86 and content[position] in SUSPECT:
                plain = not is_misdecoded(content[position : position + LONGEST], elf.machine)
            if plain and not (restartable and code.restartable(address)):
                offsets.append(address + shift)
                continue
        try:
            offsets.append(function_start(code, function))  # which looks closer, or says what is wrong
        except ElfError as error:
            offsets.append(error)
    return offsets


def inside_function(code: Code, address: int, around: Range | None = None) -> tuple[int, Range]:
    """The file offset of an address and the function that holds it, if that is not given.

    Refuses what is not an instruction's start.
    """
    offset = offset_of_code(code, address, "the address")
    around = around or code.range_at(address)
    if around is None:
        raise code.elf.error(
            f"nothing says where the function around {address:#x} begins, so it cannot be checked",
            "give an address inside a function that `tracer list` shows",
        )
    if address == around.start:
        return offset, around
    starts = code.starts(around)
    name = around.name or f"the function at {around.start:#x}"
    index = bisect_left(starts, address)
    if index < len(starts) and starts[index] == address:
        astray = code.astray(around)
        if astray is not None:
            raise code.elf.error(
                f"the instructions of {name} cannot be told apart: a jump at {astray:#x} goes into the middle of one"
            )
        return offset, around
    if index == len(starts):
        decoded_to = starts[-1] if starts else around.start
        raise code.elf.error(f"{name} can be decoded only up to {decoded_to:#x}, so {address:#x} cannot be checked")
    raise code.elf.error(
        f"{address:#x} is inside an instruction, not at its start",
        f"the nearest starts are {_place(around, starts[index - 1])} and {_place(around, starts[index])}",
    )


def _place(around: Range, address: int) -> str:
    if not around.name:
        return f"{address:#x}"
    distance = f"+{address - around.start}" if address > around.start else ""
    return f"{around.name}{distance} ({address:#x})"


def holds_other_code(code: Code, address: int) -> bool:
    """Whether the address of a note that may be of dropped code is not that of a nop between two instructions."""
    elf = code.elf
    if not (elf.memory(address, LONGEST, "the site") or b"").startswith(NOPS.get(elf.machine, ())):
        return True
    around = code.range_at(address)
    starts = code.starts(around) if around is not None else ()
    return bool(starts) and address < starts[-1] and address not in starts


def usdt_site(code: Code, note: UsdtNote) -> tuple[int, bool, bool]:
    """The file offset of a USDT site, what `red_zone` says of it, and what `nop10` does: see `Site`."""
    what = f"the USDT probe {note.provider}:{note.name}"
    elf = code.elf
    offset = offset_of_code(code, note.address, what)
    content = elf.memory(note.address, 16, what) or b""
    if not content.startswith(NOPS.get(elf.machine, ())) or (elf.machine == EM_AARCH64 and note.address % 4):
        raise elf.error(
            f"{what} at {note.address:#x} does not hold the nop that its note promises, but {content[:4].hex(' ')}",
            "the file was changed after it was built, or its notes belong to another file",
        )
    is_red = content.startswith(FIVE_BYTE_NOPS) and red_zone(code, note.address)
    return offset, is_red, elf.machine == EM_X86_64 and content.startswith(b"\x90" + NOP10)


def red_zone(code: Code, address: int) -> bool:
    """Whether a five-byte nop stands there, in a function that may keep data below the stack pointer: one that calls
    nothing, or of which too little is known. See `Site.red_zone`.
    """
    elf = code.elf
    if elf.machine != EM_X86_64 or not (elf.memory(address, 5, "the address") or b"").startswith(FIVE_BYTE_NOPS):
        return False
    around = code.range_at(address)
    if around is None:
        return True
    return address != around.start and not any(instruction.calls for instruction in code.instructions(around))
