"""Whether any caller reads what a function returns, by the code behind each call of it in its file.

A compiler that sees all callers of a function leaves out a result that none of them reads (LLVM's dead argument
elimination, gcc's IPA-SRA). Debug information still tells the type. The register then holds what was left there.
"""

from __future__ import annotations

import re
from contextlib import closing, suppress

from tracer.errors import TracerError
from tracer.kinds.arch import EM_X86
from tracer.resolve.elf.debug_file import find_debug_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.safety.code import Code
from tracer.resolve.safety.disassembly import Instruction

_MOST_CODE = 32 << 20
_MOST_CALLS = 64
_FOLLOWED = 64
"""The most instructions that are read behind one call."""

_CALL_OR_JUMP = re.compile(rb"[\xe8\xe9]|\x0f[\x80-\x8f]")
_RESULT = re.compile(r"\b(rax|eax|ax|al|ah)\b")
_WRITES = ("mov", "movabs", "movzx", "movsx", "movsxd", "lea", "pop")


def unused(path: str, address: int) -> bool:
    """Whether the file's code calls the function that begins there, and never reads the result."""
    with suppress(TracerError), closing(Elf(path)) as elf:
        code = Code(elf, Symbols(elf, find_debug_file))
        calls = _calls(code, address) if elf.machine in EM_X86 else None
        return bool(calls) and not any(_is_read(code, return_address) for return_address in calls or ())
    return False


def _calls(code: Code, address: int) -> list[int] | None:
    """The addresses to which calls of the function return; None where it is also jumped to, or may be."""
    returns: list[int] = []
    segments = [segment for segment in code.elf.loads if code.executable(segment.address)]
    if sum(segment.file_size for segment in segments) > _MOST_CODE:
        return None
    for segment in segments:
        content = code.elf.memory(segment.address, segment.file_size, "the code") or b""
        for match in _CALL_OR_JUMP.finditer(content):
            behind = segment.address + match.end() + 4
            distance = int.from_bytes(content[match.end() : match.end() + 4], "little", signed=True)
            if behind + distance == address:
                if match[0] != b"\xe8" or len(returns) == _MOST_CALLS:
                    return None
                returns.append(behind)
    return returns


def _is_read(code: Code, address: int) -> bool:
    """Whether the code from there on may read the register of the result before it writes it."""
    around = code.range_at(address)
    if around is None:
        return True
    instructions = {instruction.address: instruction for instruction in code.instructions(around)}
    todo, seen = [address], set[int]()
    while todo:
        place = todo.pop()
        if place in seen:
            continue
        seen.add(place)
        instruction = instructions.get(place)
        if instruction is None or len(seen) > _FOLLOWED:
            return True
        if instruction.jumps:
            if instruction.target is None:
                return True
            todo.append(instruction.target)
        elif instruction.returns:
            return True  # its caller may read it
        elif _RESULT.search(instruction.operands):
            if not _overwrites(instruction):
                return True
            continue
        elif instruction.calls:
            continue  # which leaves its own result there
        if instruction.goes_on:
            todo.append(place + instruction.size)
    return False


def _overwrites(instruction: Instruction) -> bool:
    to, comma, source = instruction.operands.partition(", ")
    if instruction.mnemonic == "xor" and to == source in ("rax", "eax"):
        return True
    return instruction.mnemonic in _WRITES and to in ("rax", "eax") and not (comma and _RESULT.search(source))
